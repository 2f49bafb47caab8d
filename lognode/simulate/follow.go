package simulate

import (
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

type (
	ackFrame     = frame.Ack
	askFrame     = frame.Ask
	entriesFrame = frame.Entries
)

// offer is replica.Partition.Offer.
func (p *partition) offer(from mq.Incarnation, id mq.SegmentID, entries []mq.Entry, raw [][]byte, ack func(ackFrame)) {
	p.post(func() {
		h := p.copies[id]
		if h == nil || h.damaged {
			ack(ackFrame{Segment: id, State: frame.AckUnknown})
			return
		}
		h.ack = ack
		for i := range entries {
			switch h.copy.Offer(&entries[i], from) {
			case segment.Take:
				p.write(h, &entries[i], raw[i])
			case segment.Have:
				continue
			case segment.Gap:
				ack(ackFrame{Segment: id, Tail: h.copy.Queued(), State: frame.AckGap})
				return
			case segment.Sealed:
				ack(ackFrame{Segment: id, Tail: h.copy.Acknowledged(), State: frame.AckSealed})
				return
			case segment.Refused:
				ack(ackFrame{Segment: id, State: frame.AckRefused})
				return
			case segment.Differs:
				p.stop(h.copy.Differs(&entries[i]))
				ack(ackFrame{Segment: id, State: frame.AckUnknown})
				return
			}
		}
		if h.copy.Tail() == h.copy.Queued() {
			ack(ackFrame{Segment: id, Tail: h.copy.Acknowledged()})
		}
	})
}

func (p *partition) write(h *held, e *mq.Entry, raw []byte) {
	id, next := h.copy.Segment().ID, e.Next()
	if p.node.disk.append(id, e, raw, func(err error) { p.post(func() { p.durable(id, next, err) }) }) {
		return
	}
	if !h.copy.Unqueue(e.At) {
		return
	}
	if ack := h.ack; ack != nil {
		p.node.host.After(retryGive, func() {
			p.post(func() { ack(ackFrame{Segment: id, Tail: h.copy.Queued(), State: frame.AckGap}) })
		})
	}
	p.settle(h)
}

func (p *partition) copyDurable(h *held, next mq.Position, err error) {
	if err != nil {
		return
	}
	if err := h.copy.Durable(next); err != nil {
		if h.copy.End() != nil && h.copy.End().Before(next) {
			return
		}
		p.stop(err)
		return
	}
	if h.ack != nil {
		state := frame.AckOK
		if h.copy.Flagged() {
			state = frame.AckSealed
		}
		h.ack(ackFrame{Segment: h.copy.Segment().ID, Tail: h.copy.Acknowledged(), State: state})
	}
	p.settle(h)
}

// settle tells those who wait for a seal to be answerable, or a copy to be durable.
func (p *partition) settle(h *held) {
	if !h.copy.Settled() {
		return
	}
	waiting := h.settled
	h.settled = nil
	for _, f := range waiting {
		f()
	}
}

// ask is replica.Partition.Ask.
func (p *partition) ask(from mq.Incarnation, id mq.SegmentID, ack func(ackFrame)) {
	p.post(func() {
		h := p.copies[id]
		switch {
		case h == nil || h.damaged:
			ack(ackFrame{Segment: id, State: frame.AckUnknown})
		case h.copy.Segment().Leader != from:
			ack(ackFrame{Segment: id, State: frame.AckRefused})
		case h.copy.Sealing():
			ack(ackFrame{Segment: id, Tail: h.copy.Acknowledged(), State: frame.AckSealed})
		default:
			p.outrunBy(h.copy.Segment())
			h.ack = ack
			ack(ackFrame{Segment: id, Tail: h.copy.Queued(), State: frame.AckGap})
			if h.copy.Tail() == h.copy.Queued() { // or what it acknowledged on a stream that broke would count only with the next entry
				ack(ackFrame{Segment: id, Tail: h.copy.Acknowledged()})
			}
		}
	})
}

// beginSeal is replica.Partition.BeginSeal.
func (p *partition) beginSeal(id mq.SegmentID, settled func(known bool)) {
	p.post(func() {
		h := p.copies[id]
		if h == nil || h.damaged {
			if h != nil {
				h.copy.Seal() // should it be restored
			}
			settled(false)
			return
		}
		if l := p.lead; l != nil && l.seg.Segment().ID == id {
			l.seg.Seal()
			p.awaitNext(l)
		}
		h.copy.Seal()
		if h.copy.Settled() || p.node.host.Mutation.AnswerBeforeQueue {
			settled(true)
			return
		}
		h.settled = append(h.settled, func() { settled(true) })
	})
}

// State is what a node knows of a segment; see mqpb.SegmentState. Of a damaged one Tail is up to where there is something to go on with,
// for an operator.
type State struct {
	Known, Damaged, Sealed, Leads, Committing, Remade bool
	Tail                                              mq.Position
}

// said is an answer about a copy as the server's states make it of what the partition says, the zero State for a damaged copy. Until an
// end is decided a copy may answer for what it acknowledged, though a read has met damage since.
func (p *partition) said(id mq.SegmentID, st State) State {
	s := p.node.disk.segments[id]
	switch {
	case s == nil:
		return State{}
	case !s.Damaged || st.Known && s.End == nil:
		return st
	}
	left := s.upTo()
	if h := p.copies[id]; h != nil && left.Before(h.together) {
		left = h.together
	}
	return State{Damaged: true, Tail: left}
}

func (p *partition) state(h *held) State {
	s := State{Known: true, Sealed: h.copy.Flagged(), Tail: h.copy.Tail(), Remade: h.copy.Segment().Compared == 0}
	if l := p.lead; l != nil && l.seg.Segment().ID == h.copy.Segment().ID && !l.seg.Sealed() {
		s.Leads = true
		s.Committing = p.quorate(l) && l.seg.Commits(l.followers)
	}
	return s
}

// copyEntries is replica.Partition.Copy.
func (p *partition) copyEntries(id mq.SegmentID, end mq.Position, raw [][]byte, done func(known bool, tail mq.Position)) {
	p.post(func() {
		h := p.copies[id]
		if h == nil || h.damaged || !p.decideEnd(h, end, func() { p.take(h, raw, done) }) {
			done(false, mq.Position{})
		}
	})
}

func (p *partition) take(h *held, raw [][]byte, done func(bool, mq.Position)) {
	for _, b := range raw {
		e, err := mq.ParseEntry(b)
		if err != nil {
			p.stop(err)
			return
		}
		if v := h.copy.Copied(&e); v == segment.Take {
			p.write(h, &e, b)
		} else if v != segment.Have {
			break
		}
	}
	h.settled = append(h.settled, func() { done(true, h.copy.Tail()) })
	p.settle(h)
}

// decideEnd is replica.Partition.decideEnd. A leader that hears the end of its segment before its head says so stops
// placing: its own copy takes nothing any more.
func (p *partition) decideEnd(h *held, end mq.Position, then func()) bool {
	first := h.copy.End() == nil
	if _, err := h.copy.SetEnd(end); err != nil {
		p.stop(err)
		return false
	}
	if l := p.lead; l != nil && l.seg.Segment().ID == h.copy.Segment().ID {
		l.seg.Seal()
	}
	if h.ended {
		if then != nil {
			then()
		}
		return true
	}
	if then != nil {
		h.ending = append(h.ending, then)
	}
	if first {
		p.storeEnd(h, end)
	}
	return true
}

// storeEnd makes the end durable, and tries again until it is.
func (p *partition) storeEnd(h *held, end mq.Position) {
	d, id := p.node.disk, h.copy.Segment().ID
	taken := d.add(func() error {
		if s := d.segments[id]; s != nil {
			s.cut(end)
		}
		return nil
	}, func(err error) {
		if err != nil {
			return // until the next start nothing gets onto this disk
		}
		p.post(func() {
			h.ended = true
			if s := d.segments[id]; h.damaged && s != nil && !s.Damaged && !p.fault { // mended: it is whole up to the end
				h.damaged, h.copy = false, segment.NewReplica(s.Segment, s.Tail, s.Last, s.Flag, s.End)
			}
			ending := h.ending
			h.ending = nil
			for _, f := range ending {
				f()
			}
		})
	})
	if !taken {
		p.node.host.After(retryGive, func() { p.storeEnd(h, end) })
	}
}
