package simulate

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// Repair makes the copies of the last sealed segments whole that a view of etcd says this node has; with all, those of
// all sealed segments. See lognode's repair.
func (n *Node) Repair(heads []mq.Head, all bool) {
	for _, h := range heads {
		if h.Last != nil {
			n.repairOne(h.Last)
		}
		if h.Open != nil {
			n.restoreOne(h.Open)
		}
		if p := n.parts[h.Partition]; p != nil {
			p.lookAtUnreadable()
		}
		if !all {
			continue
		}
		n.host.Chain(h.Partition, func(_ mq.Head, sealed []mq.Segment, ok bool) {
			for i := range sealed {
				n.repairOne(&sealed[i])
			}
		})
	}
}

// Copied are the last sealed segments of heads that somebody copies, and that this node has whole; for its report.
func (n *Node) Copied(heads []mq.Head) (out []mq.SegmentID) {
	for _, h := range heads {
		if s := h.Last; s != nil && len(s.Adding) > 0 && s.Holds(n.self.Store) && n.disk.resident(s) {
			out = append(out, s.ID)
		}
	}
	return out
}

func (n *Node) repairOne(s *mq.Segment) {
	if !s.Holds(n.self.Store) || n.repairing[s.ID] || n.disk.resident(s) {
		return
	}
	n.repairing[s.ID] = true
	n.partition(s.Partition).repair(*s, func() { delete(n.repairing, s.ID) })
}

// restoreOne restores the copy of an open segment that was damaged already when it was looked at before.
func (n *Node) restoreOne(s *mq.Segment) {
	p := n.holder(s.ID)
	if p == nil || p.fault || n.repairing[s.ID] {
		return
	}
	h := p.copies[s.ID]
	switch {
	case h == nil || !h.damaged:
	case !h.waited: // with enough whole replicas the controller has opened the next one by then
		h.waited = true
	default:
		n.repairing[s.ID] = true
		p.restore(*s, func() { delete(n.repairing, s.ID) })
	}
}

// repair is replica.Partition.Repair.
func (p *partition) repair(s mq.Segment, done func()) {
	switch have := p.node.disk.segments[s.ID]; {
	case have == nil:
		p.recreate(s, done)
	case !have.Damaged:
		p.pull(&s, have.Tail, done)
	default: // it may be all that is left of what is intact in it
		p.replace(s, done)
	}
}

func (p *partition) recreate(s mq.Segment, done func()) {
	d, end := p.node.disk, s.End
	fresh := asNew(&s, 0)
	if s.ReplicaIndex(d.Store) < 0 && !d.gaveUp[s.ID] {
		fresh.Compared = -1
	}
	queued := d.add(func() error {
		if d.segments[s.ID] == nil {
			d.ids = append(d.ids, s.ID)
			d.segments[s.ID] = asStored(fresh, nil)
			d.segments[s.ID].Flag, d.segments[s.ID].End = true, &end
		}
		return nil
	}, func(err error) {
		if err != nil {
			done()
			return
		}
		p.holdAnew(s.ID)
		p.pull(&s, s.Base, done)
	})
	if !queued {
		done()
	}
}

// pull takes what a copy lacks from the other replicas.
func (p *partition) pull(s *mq.Segment, tail mq.Position, done func()) {
	p.read(*s, tail, func(entries []mq.Entry, _ error) {
		raw := make([][]byte, len(entries)) // what came until somebody failed is of use too
		for k := range entries {
			raw[k] = entries[k].AppendTo(nil)
		}
		p.copyEntries(s.ID, s.End, raw, func(bool, mq.Position) { done() })
	})
}

// copy is the server's CopyEntries.
func (n *Node) copy(id mq.SegmentID, fence *Fence, end mq.Position, raw [][]byte, answer func(State)) {
	p := n.holder(id)
	if p == nil || !n.follows(fence) {
		answer(State{})
		return
	}
	p.copyEntries(id, end, raw, func(known bool, tail mq.Position) { answer(State{Known: known, Tail: tail}) })
}

// lostHere says that what was asked for is nowhere.
func lostHere(s *mq.Segment, from mq.Position) error {
	return fmt.Errorf("no replica gives segment %d from %s", s.ID, from)
}
