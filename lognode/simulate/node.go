package simulate

import (
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/slow"
	"github.com/splashdam/splashdam/lognode/internal/wheel"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// Node is one run of a log node. The scheduler's goroutine owns it; a crash is that nothing calls it any more.
type Node struct {
	host  *Host
	disk  *Disk
	self  mq.Incarnation
	parts map[mq.PartitionID]*partition
	order []*partition
	heard map[mq.StoreID]int64 // by the clock that never jumps
	clock nodeClock
	slow  slow.Disk

	repairing map[mq.SegmentID]bool

	wheel  *wheel.Wheel
	timers map[timerKey]*wheel.Timer
	armed  int64 // when the wheel looks next, by the node's clock; 0 for never
}

type timerKey struct {
	p  *partition
	id uint64
}

// Start begins a run on a disk.
func Start(h *Host, d *Disk) *Node {
	d.start(h)
	n := &Node{host: h, disk: d, self: mq.Incarnation{Store: d.Store, Boot: d.Boot}, parts: map[mq.PartitionID]*partition{},
		heard: map[mq.StoreID]int64{}, clock: newClock(h), repairing: map[mq.SegmentID]bool{}, wheel: wheel.New(h.Now()), timers: map[timerKey]*wheel.Timer{}}
	for _, s := range d.Segments() {
		n.adopt(s)
	}
	return n
}

// Identity is the run's incarnation.
func (n *Node) Identity() mq.Incarnation { return n.self }

func (n *Node) partition(id mq.PartitionID) *partition {
	p := n.parts[id]
	if p == nil {
		p = &partition{node: n, id: id, copies: map[mq.SegmentID]*held{}}
		n.parts[id] = p
		n.order = append(n.order, p)
	}
	return p
}

// adopt takes up a copy as the disk has it: at the start, or when it was created.
func (n *Node) adopt(s *Stored) {
	p := n.partition(s.Segment.Partition)
	p.post(func() {
		if p.copies[s.Segment.ID] != nil {
			return
		}
		p.copies[s.Segment.ID] = &held{damaged: s.Damaged, ended: s.End != nil,
			copy: segment.NewReplica(s.Segment, s.Tail, s.Last, s.Flag, s.End)}
		p.lookForLead()
	})
}

func (n *Node) holder(id mq.SegmentID) *partition {
	s := n.disk.segments[id]
	if s == nil {
		return nil
	}
	return n.parts[s.Segment.Partition]
}

// SetHead tells the node what its view of etcd says of a partition.
func (n *Node) SetHead(h mq.Head) {
	said, named := h.Named()
	if named && !n.disk.named[h.Partition].Follows(said) {
		return // etcd's word is older than what this store has seen (R7)
	}
	if n.parts[h.Partition] != nil || names(&h, n.self.Store) {
		n.partition(h.Partition).setHead(h)
		if n.disk.named[h.Partition].Less(said) { // a full queue: the next view comes
			n.disk.add(func() error { n.disk.raise(h.Partition, said); return nil }, func(error) {})
		}
		if h.Last != nil && len(h.Last.Adding) > 0 && h.Last.ReplicaIndex(n.self.Store) < 0 {
			n.repairOne(h.Last)
		}
	}
}

func names(h *mq.Head, store mq.StoreID) bool {
	return h.Open != nil && h.Open.ReplicaIndex(store) >= 0 || h.Last != nil && h.Last.Holds(store)
}

// Heard says that another node said something on either stream.
func (n *Node) Heard(from mq.StoreID) { n.heard[from] = n.host.Steady() }

// PeerUp says that the stream to a follower's node has been answered, PeerDown that it ended.
func (n *Node) PeerUp(id mq.StoreID) {
	for _, p := range n.order {
		p.post(func() { p.peerUp(id) })
	}
}

// PeerDown see PeerUp.
func (n *Node) PeerDown(id mq.StoreID) {
	for _, p := range n.order {
		p.post(func() { p.peerDown(id) })
	}
}

// FromLeader takes what another node sent on its stream; ack answers on it.
func (n *Node) FromLeader(from mq.Incarnation, m any, ack func(frame.Ack)) {
	n.Heard(from.Store)
	switch m := m.(type) {
	case frame.Entries:
		p := n.holder(m.Segment)
		if p == nil {
			ack(frame.Ack{Segment: m.Segment, State: frame.AckUnknown})
			return
		}
		entries := make([]mq.Entry, len(m.Entries))
		for i, raw := range m.Entries {
			var err error
			if entries[i], err = mq.ParseEntry(raw); err != nil {
				n.host.Fault(err) // the network of a simulation changes no bytes
				return
			}
		}
		p.offer(from, m.Segment, entries, m.Entries, ack)
	case frame.Ask:
		for _, id := range m.Segments {
			if p := n.holder(id); p != nil {
				p.ask(from, id, ack)
			} else {
				ack(frame.Ack{Segment: id, State: frame.AckUnknown})
			}
		}
	}
}

// FromFollower takes an acknowledgement from the stream to another node.
func (n *Node) FromFollower(from mq.StoreID, a frame.Ack) {
	n.Heard(from)
	if p := n.holder(a.Segment); p != nil {
		p.acked(from, a)
	}
}

// setTimers passes a machine's timers to the wheel.
func (n *Node) setTimers(p *partition, m *delivery.Machine) {
	changed := false
	m.TakeTimers(func(op delivery.TimerOp) {
		changed = true
		if key := (timerKey{p, op.ID}); op.Cancel {
			n.dropTimer(key)
		} else {
			n.setTimer(key, op.Due)
		}
	})
	if changed {
		n.arm()
	}
}

// setTimer gives a partition's timer to the wheel, in place of the one that it may have.
func (n *Node) setTimer(key timerKey, due int64) {
	n.dropTimer(key)
	x := &wheel.Timer{Owner: key}
	n.timers[key] = x
	n.wheel.Insert(x, due)
}

func (n *Node) dropTimer(key timerKey) {
	if x := n.timers[key]; x != nil {
		n.wheel.Cancel(x)
		delete(n.timers, key)
	}
}

func (n *Node) arm() {
	next, ok := n.wheel.NextDue()
	if !ok || n.armed != 0 && n.armed <= next {
		return
	}
	n.armed = next
	n.host.After(time.Duration(max(next-n.now(), 0)), func() {
		if n.armed != next {
			return
		}
		n.armed = 0
		var due []timerKey
		n.wheel.Advance(n.now(), func(x *wheel.Timer) {
			key := x.Owner.(timerKey)
			delete(n.timers, key)
			due = append(due, key)
		})
		for _, key := range due {
			key.p.post(func() {
				if key.id == scheduleTimer {
					key.p.schedulesDue()
					return
				}
				if l := key.p.lead; l != nil && l.machine != nil {
					l.machine.Fire(n.now(), key.id)
				}
			})
		}
		n.arm()
	})
}

func (n *Node) forgetTimers(p *partition) {
	for key, x := range n.timers {
		if key.p == p {
			n.wheel.Cancel(x)
			delete(n.timers, key)
		}
	}
}
