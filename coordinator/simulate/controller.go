// Package simulate is a controller that runs under a simulation's scheduler: one goroutine, no clock and no network
// but those that a Host gives it.
//
// It is a twin, and honest about it: every decision is the real one (Look, Judge, End, Plan, Chain of
// internal/seal, and through it internal/placement); the loop and the round around them are written here again as
// callbacks, thin, in the order of coordinator/controller.go, partitions.go and internal/seal/round.go, one partition
// at a time. Where the two differ, those are right and this is a bug.
package simulate

import (
	"slices"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/placement"
	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/mq"
)

// Answer is what one replica's node said of one segment.
type Answer = seal.Answer

// Member is a log node as etcd has or had it registered.
type Member struct {
	Name        string
	Zone        string
	Incarnation mq.Incarnation
	Skewed      bool // by its own word its clock is off: it leads only where nobody else can
	Slow        bool // by its own word its disk is slow; likewise
}

// View is what a controller sees of etcd, maybe late.
type View struct {
	Heads                   []mq.Head
	Nodes                   []Member // whose leases live
	Flagged, Asked, Opening []mq.SegmentID
	// Forced are the wishes of operators that stand.
	Forced map[mq.PartitionID]*Force
	// Copied says which stores report which segments, that somebody copies, as whole.
	Copied map[mq.StoreID]map[mq.SegmentID]bool
}

// Force is an operator's word that a partition goes on with what is left.
type Force = seal.Force

// Host is the world around one reign of a controller. Nothing blocks; what is promised for later is called only while
// the reign lasts.
type Host struct {
	// Now is the time by a clock that only counts on: nothing of a controller goes by the one on the wall.
	Now   func() int64
	After func(d time.Duration, f func())
	View  func() View
	// Ask makes a node answer for a segment, at the address that it registered; id 0 only asks for a sign of life.
	// With seal it makes the flag durable first. done gets false after a time-out.
	Ask func(m Member, id mq.SegmentID, seal bool, done func(a Answer, ok bool))
	// Create makes a node write a replica.
	Create func(m Member, s mq.Segment, revision int64, done func(made bool))
	// NextID draws a segment id.
	NextID func(done func(id mq.SegmentID, ok bool))
	// Open is the transaction: it compares the head's revision and writes the head and, if there is one, the
	// displaced segment. known is false if its outcome is unknown.
	Open func(h mq.Head, displaced *mq.Segment, done func(opened, known bool, revision int64))
	// ChangeReplicas changes who holds a sealed segment, on what etcd has at that moment.
	ChangeReplicas func(p mq.PartitionID, id mq.SegmentID, change func(s *mq.Segment) bool)
	// Head is a linearizable read.
	Head     func(p mq.PartitionID, done func(h mq.Head, ok bool))
	TTL      time.Duration
	Mutation Mutation
}

// Mutation is a rule that this controller breaks; the zero value breaks none.
type Mutation struct {
	OneAnswerFewer bool // than |replicas| - q + 1
	LowestTail     bool // is the end
}

const (
	idle      = time.Second
	pulseRest = 100 * time.Millisecond
	grace     = 50 * time.Millisecond
	plans     = 3
	openings  = 3
)

// Controller is one reign.
type Controller struct {
	host     *Host
	book     map[mq.StoreID]page
	ended    []int64 // when leases ended, within the last second
	past     map[mq.PartitionID]seal.History
	moved    map[mq.PartitionID]int64
	calm     int64
	away     map[mq.StoreID]int64 // since when
	repaired int64
	suspect  map[mq.StoreID]bool
	busy     bool // a round is under way
	again    bool // something was asked for meanwhile
	asked    bool // for a pulse too
	pulsed   int64
	wake     int // of which timer is the newest
	why      string
}

// Why is why a partition that needed its next segment did not get it when that was tried last.
func (k *Controller) Why() string { return k.why }

type page struct {
	Member
	live bool
}

// Start begins a reign.
func Start(h *Host) *Controller {
	k := &Controller{host: h, book: map[mq.StoreID]page{}, past: map[mq.PartitionID]seal.History{}, moved: map[mq.PartitionID]int64{},
		suspect: map[mq.StoreID]bool{}, away: map[mq.StoreID]int64{}, calm: h.Now() + int64(h.TTL), asked: true}
	k.Changed()
	return k
}

// Changed says that the view changed.
func (k *Controller) Changed() {
	if k.again = true; !k.busy {
		k.round()
	}
}

// Look says that somebody sees a leader in trouble.
func (k *Controller) Look() {
	k.asked = true
	k.Changed()
}

// round is one turn of the controller's loop: a pulse if it is time, then every partition that needs something.
func (k *Controller) round() {
	k.busy, k.again = true, false
	now := k.host.Now()
	since := now - k.pulsed
	if k.asked && since >= int64(pulseRest) || since >= int64(idle) {
		k.asked, k.pulsed = false, now
		k.pulse(func() { k.partitions() })
		return
	}
	k.partitions()
}

// refresh takes the live nodes; after many leases ended together one TTL must pass.
func (k *Controller) refresh(v View) {
	now := k.host.Now()
	k.ended = slices.DeleteFunc(k.ended, func(t int64) bool { return now-t >= int64(time.Second) })
	live := map[mq.StoreID]Member{}
	for _, m := range v.Nodes {
		live[m.Incarnation.Store] = m
	}
	ended := false
	for store, p := range k.book {
		if _, ok := live[store]; p.live && !ok {
			p.live, ended = false, true
			k.book[store] = p
			k.ended = append(k.ended, now)
		}
	}
	for store, m := range live {
		k.book[store] = page{m, true}
	}
	if ended && 3*len(k.ended) > len(live)+len(k.ended) {
		k.calm = now + int64(k.host.TTL)
	}
}

// members are the pages by store, in a fixed order.
func (k *Controller) members() []page {
	out := make([]page, 0, len(k.book))
	for _, p := range k.book {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b page) int {
		if a.Incarnation.Store < b.Incarnation.Store {
			return -1
		}
		return 1
	})
	return out
}

func (k *Controller) pulse(then func()) {
	k.refresh(k.host.View())
	suspect := map[mq.StoreID]bool{}
	left := 1
	done := func() {
		if left--; left == 0 {
			k.suspect = suspect
			then()
		}
	}
	for _, m := range k.members() {
		if !m.live {
			continue
		}
		left++
		k.host.Ask(m.Member, 0, false, func(a Answer, ok bool) {
			if !ok || a.Node != m.Incarnation {
				suspect[m.Incarnation.Store] = true
			}
			done()
		})
	}
	done()
}

// observe is what is known of the nodes now.
func (k *Controller) observe(v View) seal.Cluster {
	now := k.host.Now()
	c := seal.Cluster{Now: now, Alive: map[mq.StoreID]uint64{}, Suspect: k.suspect, Stormy: now < k.calm,
		Flagged: marks(v.Flagged), Asked: marks(v.Asked), Opening: marks(v.Opening), Moved: map[mq.PartitionID]bool{},
		Forced: v.Forced}
	for store, p := range k.book {
		if p.live {
			c.Alive[store] = p.Incarnation.Boot
			c.Takers++
		}
	}
	return c
}

func marks(ids []mq.SegmentID) map[mq.SegmentID]bool {
	m := map[mq.SegmentID]bool{}
	for _, id := range ids {
		m[id] = true
	}
	return m
}

// partitions moves what needs to be moved, one after the other, and sleeps until something is due.
func (k *Controller) partitions() {
	v := k.host.View()
	k.refresh(v)
	cluster := k.observe(v)
	k.suffixes(v.Heads, &cluster)
	k.repairs(v)
	var targets []seal.Target
	due := k.host.Now() + int64(idle)
	for _, h := range v.Heads {
		if at, ok := k.moved[h.Partition]; ok && h.Revision < at {
			cluster.Moved[h.Partition] = true
		}
		past := k.past[h.Partition].Watched(&h, &cluster)
		k.past[h.Partition] = past
		if need := seal.Look(&h, &cluster, past); need.Reason != seal.None {
			targets = append(targets, seal.Target{Head: h, Need: need})
		} else if need.Due > 0 {
			due = min(due, need.Due)
		}
	}
	if len(targets) > 0 {
		due = min(due, k.host.Now()+int64(100*time.Millisecond))
	}
	k.moveAll(v, cluster, targets, func() { k.sleep(due) })
}

func (k *Controller) moveAll(v View, c seal.Cluster, targets []seal.Target, then func()) {
	if len(targets) == 0 {
		then()
		return
	}
	m := &move{k: k, target: targets[0], cluster: c, loads: loadsOf(v.Heads), exclude: map[mq.StoreID]bool{}}
	m.done = func() { k.moveAll(v, c, targets[1:], then) }
	m.probe()
}

func (k *Controller) sleep(due int64) {
	k.busy = false
	if k.again && !k.asked {
		k.round()
		return
	}
	wait := max(int64(5*time.Millisecond), min(int64(idle), due-k.host.Now()))
	if k.asked {
		wait = min(wait, int64(pulseRest))
	}
	k.wake++
	mine := k.wake
	k.host.After(time.Duration(wait), func() {
		if mine == k.wake && !k.busy {
			k.round()
		}
	})
}

// loadsOf counts open segments and led ones per store.
func loadsOf(heads []mq.Head) map[mq.StoreID]placement.Node {
	out := map[mq.StoreID]placement.Node{}
	for _, h := range heads {
		if h.Open == nil {
			continue
		}
		for _, r := range h.Open.Replicas {
			n := out[r.Store]
			n.Segments++
			if r.Store == h.Open.Leader.Store {
				n.Leads++
			}
			out[r.Store] = n
		}
	}
	return out
}
