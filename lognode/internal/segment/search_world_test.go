package segment

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// The searches of this package drive the real Leader, Replica and mq.Segment.Ended through every schedule of a
// small configuration. This file is the state: what etcd, the disks, the links and the memories of three nodes
// and two controllers hold. Only moving, losing and keeping things is the harness's; deciding is the code's.

const (
	nodes       = 3
	slots       = 4 // segments, counting every attempt to open one
	perSegment  = 2 // entries, the first with a message offset, the second without
	controllers = 2
	saidCodes   = 20 // codes of positions: every segment brings one offset at most
)

// What etcd says of a segment.
const (
	unused   = iota
	proposed // made by a controller that has not opened it (yet)
	open
	sealed   // with an end
	replaced // it was empty: the chain does not name it any more
)

// replica is one node's copy of one segment, on disk and in memory.
type replica struct {
	known    bool  // the store has it
	damaged  bool  // the ledger says that something is missing: it answers unknown
	removing bool  // an etcd read said that it may be removed
	lost     bool  // a fault took durable entries of it: I2 does not count on this copy
	remade   bool  // a repair made it anew
	gaps     uint8 // bits of entries that are broken in a damaged one, of which the tail is known
	r        Replica
	// held are the contents of entries up to Queued; those up to Tail are durable.
	held [perSegment]uint8
	// ack is the newest acknowledgement on its way to the leader. It may arrive at any time, or never.
	ack mq.Position
}

// chainLink is one segment with everything that exists of it anywhere.
type chainLink struct {
	state uint8
	seg   mq.Segment
	prev  int8 // the last sealed segment before it in the chain, -1 for none
	end   mq.Position
	hole  bool // what lies between held and end is recorded as lost
	held  mq.Position
	open  opening // what its leader heard before it served
	leads bool    // the leader's loop runs
	l     Leader
	tails [nodes]mq.Position // behind l.tails
	mem   [perSegment]uint8  // what the leader placed
	acked mq.Position        // the highest position that anybody was answered for
	reps  [nodes]replica
}

// What a controller does.
const (
	idle = iota
	sealing
	creating
)

// controller is one of those that compete.
type controller struct {
	phase    uint8
	seg, rev uint8 // the open segment that it read, at that revision
	answered uint8 // bits of nodes
	tails    [nodes]mq.Position
	slot     uint8
	made     uint8
	// A transaction whose outcome is unknown to the controller: it may still arrive.
	flying          bool
	flySeg, flySlot uint8
	flyRev          uint8
	end, flyEnd     mq.Position
}

type world struct {
	links                [slots]chainLink
	ctls                 [controllers]controller
	cur, rev, next       uint8
	boots                [nodes]uint8
	fences               [nodes]uint8 // the highest segment number that each store saw named
	crashes, lies, wipes uint8
	breaks               uint8
	said                 [saidCodes]uint8 // contents that were acknowledged, by the code of their position
	broken               string           // what an operation itself found
}

// code is a position in one byte; offsets stay below 8 and seq below 4 in these configurations.
func code(p mq.Position) uint8 { return uint8(p.Offset)<<2 | uint8(p.Seq) }

// positions are all that have a code, so that nothing is allocated for a pointer to one.
var positions = func() (t [32]mq.Position) {
	for i := range t {
		t[i] = mq.Position{Offset: uint64(i >> 2), Seq: uint32(i & 3)}
	}
	return t
}()

var storeNames = [nodes]mq.StoreID{"n0", "n1", "n2"}

// replicaSets are the replicas for every set of nodes.
var replicaSets = func() (t [1 << nodes][]mq.Replica) {
	for set := range t {
		for n := range nodes {
			if set>>n&1 == 1 {
				t[set] = append(t[set], mq.Replica{Store: storeNames[n], Node: string(storeNames[n])})
			}
		}
	}
	return t
}()

// count is how many offsets the k-th entry of a segment takes.
func count(k int) uint32 {
	if k == 0 {
		return 1
	}
	return 0
}

// at is the position of the k-th entry, and of the end after the last.
func (x *chainLink) at(k int) mq.Position {
	p := x.seg.Base
	for i := range k {
		p = p.Next(count(i))
	}
	return p
}

// index is the inverse of at.
func (x *chainLink) index(p mq.Position) int {
	for k := 0; k <= perSegment; k++ {
		if x.at(k) == p {
			return k
		}
	}
	panic(fmt.Sprintf("%s is no position of %s", p, x.seg.String()))
}

// entry is the k-th entry as the leader's stream carries it.
func (x *chainLink) entry(k int) mq.Entry {
	e := mq.Entry{Segment: x.seg.ID, At: x.at(k), Count: count(k), Boot: x.seg.Leader.Boot}
	if k > 0 {
		e.Prev = x.at(k - 1)
	}
	return e
}

// holds says whether node n is a replica by name, self the place of a node among the replicas.
func (x *chainLink) holds(n int) bool { return x.seg.ReplicaIndex(storeNames[n]) >= 0 }
func (x *chainLink) self(n int) int   { return x.seg.ReplicaIndex(storeNames[n]) }

// answers says whether a node's copy answers anything but unknown.
func (x *chainLink) answers(n int) bool { return x.holds(n) && x.reps[n].known && !x.reps[n].damaged }

func (x *chainLink) leader() int {
	for n := range nodes {
		if storeNames[n] == x.seg.Leader.Store {
			return n
		}
	}
	return -1
}

// segmentOf makes what a controller proposes: the creation record of a segment.
func segmentOf(slot int, number uint8, base mq.Position, set uint8, leader int, boot, compared uint8) mq.Segment {
	return mq.Segment{ID: mq.SegmentID(slot + 1), Number: uint64(number), Base: base, Replicas: replicaSets[set], Quorum: 2,
		Leader: mq.Incarnation{Store: storeNames[leader], Boot: uint64(boot)}, Compared: int64(compared)}
}

// firstWorld has one open segment on all three nodes, led by n0.
func firstWorld() *world {
	w := &world{next: 1, rev: 1}
	x := &w.links[0]
	for i := range w.links {
		w.links[i].prev = -1
	}
	x.state, x.seg = open, segmentOf(0, 1, mq.Position{}, 7, 0, 0, 0)
	for n := range nodes {
		w.fences[n] = 1
		x.reps[n] = replica{known: true, r: *NewReplica(x.seg, x.seg.Base, x.seg.Base, false, nil)}
	}
	return w
}

// copyTo makes y an independent copy: the code's objects hold one slice, which must not be shared.
func (w *world) copyTo(y *world) {
	*y = *w
	y.bind()
}

func (w *world) bind() {
	for i := range w.links {
		x := &w.links[i]
		if x.leads {
			x.l.tails = x.tails[:len(x.seg.Replicas)]
		}
	}
}
