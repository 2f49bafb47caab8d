package simulate

import (
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

// Repair makes the copies of the last sealed segments whole that a view of etcd says this node has; with all, those of
// all sealed segments. See lognode's repair.
func (n *Node) Repair(heads []mq.Head, all bool) {
	for _, h := range heads {
		if h.Last != nil {
			n.repairOne(h.Last)
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

// repair is replica.Partition.Repair.
func (p *partition) repair(s mq.Segment, done func()) {
	switch have := p.node.disk.segments[s.ID]; {
	case have == nil:
		p.recreate(s, done)
	case !have.Damaged:
		p.pull(&s, have.Tail, done)
	default: // it may be all that is left of what is intact in it
		x := &suffix{p: p}
		all := s.Holders()
		x.ask(all, func(r mq.Replica, found func(segment.Found)) { x.tailOf(&s, r, found) }, func(found []segment.Found, left int) {
			if left > 0 {
				return
			}
			for i, f := range found {
				if all[i].Store != p.node.self.Store && f.Whole(s.DataEnd()) {
					p.recreate(s, done)
					return
				}
			}
			done()
		})
	}
}

func (p *partition) recreate(s mq.Segment, done func()) {
	d, end := p.node.disk, s.End
	fresh := s
	fresh.Sealed, fresh.End, fresh.Held, fresh.Adding, fresh.Compared = false, mq.Position{}, nil, nil, 0
	if s.ReplicaIndex(d.Store) < 0 && d.segments[s.ID] == nil && !d.gaveUp[s.ID] {
		fresh.Compared = -1
	}
	p.post(func() { delete(p.copies, s.ID) })
	queued := d.add(func() error {
		if d.segments[s.ID] == nil {
			d.ids = append(d.ids, s.ID)
		} else {
			d.gaveUp[s.ID] = true
		}
		d.segments[s.ID] = &Stored{Segment: fresh, Tail: s.Base, Last: s.Base, mark: s.Base, Flag: true, End: &end}
		return nil
	}, func(err error) {
		if err != nil {
			done()
			return
		}
		p.post(func() {
			p.copies[s.ID] = &held{ended: true, copy: segment.NewReplica(fresh, s.Base, s.Base, true, &end)}
		})
		p.pull(&s, s.Base, done)
	})
	if !queued {
		done()
	}
}

// pull takes what a copy lacks from the other replicas.
func (p *partition) pull(s *mq.Segment, tail mq.Position, done func()) {
	p.readRemote(*s, tail, func(entries []mq.Entry, _ error) {
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
