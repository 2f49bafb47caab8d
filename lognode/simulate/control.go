package simulate

import (
	"github.com/splashdam/splashdam/shared/mq"
)

// Probe answers what this node knows of a segment and changes nothing. fence is nil for a controller.
func (n *Node) Probe(id mq.SegmentID, fence *Fence, answer func(State)) {
	p := n.holder(id)
	if p == nil {
		answer(State{})
		return
	}
	p.post(func() {
		h := p.copies[id]
		switch {
		case h == nil || !n.follows(fence):
			answer(State{})
		case h.damaged:
			answer(p.said(id, State{}))
		default:
			answer(p.said(id, p.state(h)))
		}
	})
}

// Seal stops a copy from taking entries, makes its flag durable and answers its tail (R2). With a fence this store
// follows no earlier leader from then on.
func (n *Node) Seal(id mq.SegmentID, fence *Fence, answer func(State)) {
	if fence == nil {
		n.seal(id, answer)
		return
	}
	if !n.follows(fence) {
		answer(State{})
		return
	}
	n.disk.add(func() error { n.disk.raise(fence.Partition, fence.Named); return nil }, func(err error) {
		if err == nil {
			n.seal(id, answer)
		}
	})
}

func (n *Node) seal(id mq.SegmentID, answer func(State)) {
	p := n.holder(id)
	if p == nil {
		answer(State{})
		return
	}
	p.beginSeal(id, func(known bool) {
		if h := p.copies[id]; known && n.host.Mutation.AnswerBeforeQueue {
			h.copy.SetFlagged()
			answer(p.state(h))
		}
		if s := n.disk.segments[id]; !known && (s == nil || !s.Damaged) {
			answer(State{})
			return
		}
		flag := func() error { // of a damaged copy, too: it may count where an operator goes on with what is left
			if s := n.disk.segments[id]; s != nil {
				s.Flag = true
			}
			return nil
		}
		n.disk.add(flag, func(err error) { // a full queue answers nothing: the controller asks again
			if err != nil {
				return
			}
			p.post(func() {
				h := p.copies[id]
				switch {
				case h == nil:
				case !known:
					answer(p.said(id, State{}))
				default:
					h.copy.SetFlagged()
					answer(p.said(id, p.state(h)))
				}
			})
		})
	})
}

// Create makes a replica of a new segment durable. It serves only when etcd names it. made is false if this node saw
// a later segment (R7).
func (n *Node) Create(seg mq.Segment, revision int64, answer func(made bool)) {
	said := mq.Named{Number: seg.Number, Revision: revision}
	if seg.ReplicaIndex(n.self.Store) < 0 || !n.disk.named[seg.Partition].Follows(said) {
		answer(false)
		return
	}
	seg.Compared = revision
	d := n.disk
	write := func() error {
		if d.segments[seg.ID] == nil {
			d.segments[seg.ID] = &Stored{Segment: seg, Tail: seg.Base, Last: seg.Base, mark: seg.Base}
			d.ids = append(d.ids, seg.ID)
			d.raise(seg.Partition, said)
		}
		return nil
	}
	d.add(write, func(err error) {
		if err != nil {
			answer(false)
			return
		}
		n.adopt(d.segments[seg.ID])
		n.partition(seg.Partition).foresee(&seg, revision, func() { answer(true) })
	})
}

// Tidy is rule R5 for every copy that the view does not name: removed only when a linearizable read shows the
// partition's key beyond the revision that its creation was compared against, and its chain without it.
func (n *Node) Tidy() {
	for _, s := range n.disk.Segments() {
		id, part, compared := s.Segment.ID, s.Segment.Partition, s.Segment.Compared
		n.host.Chain(part, func(h mq.Head, sealed []mq.Segment, ok bool) {
			if !ok || h.Revision <= compared || h.Open != nil && h.Open.ID == id {
				return
			}
			for i := range sealed {
				if sealed[i].ID == id {
					return
				}
			}
			p := n.partition(part)
			n.disk.add(func() error { delete(n.disk.segments, id); return nil }, func(error) {
				p.post(func() { delete(p.copies, id) })
			})
		})
	}
}

// Opening are the open segments named by heads that this node leads and does not serve yet; for its report.
func (n *Node) Opening(heads []mq.Head) (out []mq.SegmentID) {
	for _, h := range heads {
		if p := n.parts[h.Partition]; h.Open != nil && p != nil && p.lead != nil && !p.lead.serving && p.lead.seg.Segment().ID == h.Open.ID {
			out = append(out, h.Open.ID)
		}
	}
	return out
}

// Flags are the open segments named by heads on whose copies here a seal flag is; for the node's report.
func (n *Node) Flags(heads []mq.Head) (out []mq.SegmentID) {
	for _, h := range heads {
		if h.Open == nil {
			continue
		}
		if s := n.disk.segments[h.Open.ID]; s != nil && s.Flag {
			out = append(out, h.Open.ID)
		}
	}
	return out
}
