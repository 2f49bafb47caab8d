package replica

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// held is one segment of the partition in this node's store.
type held struct {
	copy    *segment.Replica
	damaged bool // answers unknown, which is never an empty tail (R3)
	// together is up to where the segment of a damaged one could be put together out of all copies; see Partition.together.
	together mq.Position
	// ack answers the leader on the stream that entries last came by; nil before any did.
	ack func(frame.Ack)
	// settled are those who wait for everything given to the disk to be durable: a seal, a copy.
	settled []func()
	// tries is how often entries were taken back that the store had no room for.
	tries uint64
	// ended: the decided end is on disk, so that the store takes copies up to it; ending are those who wait for that.
	ended  bool
	ending []func()
	// index derives the footer as entries become durable; nil where it can't, and for a segment that is indexed whole.
	index *indexing
	// late is set for a copy that had entries when this process began: see Partition.catchUp.
	late *lateEntries
}

// Adopt takes up a segment that the store holds: at start, or after Create.
func (p *Partition) Adopt(info store.SegmentInfo) {
	p.post(func() {
		if p.copies[info.Segment.ID] != nil {
			return
		}
		h := heldAs(&info)
		h.damaged = info.Damaged
		p.copies[info.Segment.ID] = h
		p.lookForLead()
	})
}

// heldAs is a copy as the store has it.
func heldAs(info *store.SegmentInfo) *held {
	h := &held{ended: info.End != nil, copy: segment.NewReplica(info.Segment, info.Tail, info.Last, info.SealFlag, info.End)}
	if info.Tail == info.Segment.Base {
		h.index = newIndexing(&info.Segment)
	} else if !info.SealFlag {
		h.late = &lateEntries{}
	}
	return h
}

// Drop forgets a segment that was removed from the store.
func (p *Partition) Drop(id mq.SegmentID) {
	p.post(func() { delete(p.copies, id) })
	p.env.Kept.drop(id)
}

// Offer takes entries from a leader's stream. ack answers on that stream and never blocks. The CRC of each
// entry was checked.
func (p *Partition) Offer(from mq.Incarnation, id mq.SegmentID, entries []mq.Entry, raw [][]byte, ack func(frame.Ack)) {
	p.post(func() {
		h := p.copies[id]
		if h == nil || h.damaged {
			ack(frame.Ack{Segment: id, State: frame.AckUnknown})
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
				ack(frame.Ack{Segment: id, Tail: h.copy.Queued(), State: frame.AckGap})
				return
			case segment.Sealed:
				ack(frame.Ack{Segment: id, Tail: h.copy.Acknowledged(), State: frame.AckSealed})
				return
			case segment.Refused:
				ack(frame.Ack{Segment: id, State: frame.AckRefused})
				return
			case segment.Differs:
				p.stop(h.copy.Differs(&entries[i]))
				ack(frame.Ack{Segment: id, State: frame.AckUnknown})
				return
			}
		}
		if h.copy.Tail() == h.copy.Queued() { // all of it was here already
			ack(frame.Ack{Segment: id, Tail: h.copy.Acknowledged()})
		}
	})
}

// write gives an entry to the store.
func (p *Partition) write(h *held, e *mq.Entry, raw []byte) {
	id, w := h.copy.Segment().ID, written{e.At, e.Next(), raw, h.tries}
	err := p.env.Store.Append(store.Append{Segment: id, At: w.at, Next: w.next, Data: raw, Done: func(err error) {
		p.post(func() { p.durable(id, w, err) })
	}})
	if err != nil {
		p.notWritten(h, w, err)
	}
}

// notWritten takes the queue back to an entry that the store had no room for: it is as if it and the ones
// behind it had not come, and the leader is told to send from there.
func (p *Partition) notWritten(h *held, w written, err error) {
	if w.try != h.tries {
		return // of a try before this one
	}
	if !full(err) {
		p.log.Error("an entry could not be made durable", "segment", h.copy.Segment().ID, "err", err)
	}
	if !h.copy.Unqueue(w.at) {
		return
	}
	h.tries++
	if ack := h.ack; ack != nil && full(err) {
		time.AfterFunc(retryGive, func() {
			p.post(func() {
				ack(frame.Ack{Segment: h.copy.Segment().ID, Tail: h.copy.Queued(), State: frame.AckGap})
			})
		})
	}
	p.settle(h)
}

// copyDurable moves a copy's tail and acknowledges it, but for what was copied.
func (p *Partition) copyDurable(h *held, next mq.Position) {
	if err := h.copy.Durable(next); err != nil {
		if h.copy.End() != nil && h.copy.End().Before(next) {
			return // written before the cut was decided; the store cuts it
		}
		p.stop(err)
		return
	}
	if h.ack != nil {
		state := frame.AckOK
		if h.copy.Flagged() {
			state = frame.AckSealed
		}
		h.ack(frame.Ack{Segment: h.copy.Segment().ID, Tail: h.copy.Acknowledged(), State: state})
	}
	p.settle(h)
}

// settle tells those who wait for a seal to be answerable, or a copy to be durable.
func (p *Partition) settle(h *held) {
	if !h.copy.Settled() {
		return
	}
	waiting := h.settled
	h.settled = nil
	for _, f := range waiting {
		f()
	}
}

// Ask answers the tail of a segment to its leader, after a stream began anew.
func (p *Partition) Ask(from mq.Incarnation, id mq.SegmentID, ack func(frame.Ack)) {
	p.post(func() {
		h := p.copies[id]
		switch {
		case h == nil || h.damaged:
			ack(frame.Ack{Segment: id, State: frame.AckUnknown})
		case h.copy.Segment().Leader != from:
			ack(frame.Ack{Segment: id, State: frame.AckRefused})
		case h.copy.Sealing():
			ack(frame.Ack{Segment: id, Tail: h.copy.Acknowledged(), State: frame.AckSealed})
		default:
			p.outrunBy(h.copy.Segment())
			h.ack = ack
			ack(frame.Ack{Segment: id, Tail: h.copy.Queued(), State: frame.AckGap})
			if h.copy.Tail() == h.copy.Queued() { // its acknowledgement may have been lost with the stream before
				ack(frame.Ack{Segment: id, Tail: h.copy.Acknowledged()})
			}
		}
	})
}

// BeginSeal stops the copy from taking entries, also as its leader, and calls settled once every entry
// written before is durable; known is false if this store can't say: a damaged copy, which stays sealed when it is restored. The caller makes the flags
// durable, then calls Flagged, then answers the tail.
func (p *Partition) BeginSeal(id mq.SegmentID, settled func(known bool)) {
	ok := p.post(func() {
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
		if h.copy.Settled() {
			settled(true)
			return
		}
		h.settled = append(h.settled, func() { settled(true) })
	})
	if !ok {
		settled(false)
	}
}

// State is what this store knows of a segment.
type State struct {
	Known, Sealed, Leads, Committing bool
	Tail                             mq.Position
	// Remade: a repair made the copy anew; see segment.Found.
	Remade bool
	// Together is for a damaged copy; see Partition.Together.
	Together mq.Position
}

// Flagged says that the seal flag is durable, and answers the tail that goes with it.
func (p *Partition) Flagged(id mq.SegmentID, answer func(State)) {
	p.ask(answer, func() State {
		h := p.copies[id]
		if h == nil {
			return State{}
		}
		h.copy.SetFlagged()
		return p.state(h)
	})
}

// Probe answers what this store knows of a segment and changes nothing.
func (p *Partition) Probe(id mq.SegmentID, answer func(State)) {
	p.ask(answer, func() State {
		h := p.copies[id]
		switch {
		case h == nil:
			return State{}
		case h.damaged:
			return State{Together: h.together}
		}
		return p.state(h)
	})
}

func (p *Partition) ask(answer func(State), f func() State) {
	if !p.post(func() { answer(f()) }) {
		answer(State{})
	}
}

func (p *Partition) state(h *held) State {
	s := State{Known: true, Sealed: h.copy.Flagged(), Tail: h.copy.Tail(), Remade: h.copy.Segment().Compared == copyAnew, Together: h.together}
	if l := p.lead; l != nil && l.seg.Segment().ID == h.copy.Segment().ID && !l.seg.Sealed() {
		s.Leads = true
		s.Committing = p.quorate(l) && l.seg.Commits(l.followers)
	}
	return s
}

// Copy takes entries of a sealed segment that another replica gave (rule R1: never an acknowledgement).
// done answers the tail once they are durable.
func (p *Partition) Copy(id mq.SegmentID, end mq.Position, entries []mq.Entry, raw [][]byte, done func(known bool, tail mq.Position)) {
	ok := p.post(func() {
		h := p.copies[id]
		if h == nil || h.damaged || !p.decideEnd(h, end, func() { p.take(h, entries, raw, done) }) {
			done(false, mq.Position{})
		}
	})
	if !ok {
		done(false, mq.Position{})
	}
}

// take writes copies in order and answers the tail once they are durable.
func (p *Partition) take(h *held, entries []mq.Entry, raw [][]byte, done func(bool, mq.Position)) {
	for i := range entries {
		if v := h.copy.Copied(&entries[i]); v == segment.Take {
			p.write(h, &entries[i], raw[i])
		} else if v != segment.Have {
			break
		}
	}
	h.settled = append(h.settled, func() { done(true, h.copy.Tail()) })
	p.settle(h)
}

// decideEnd records a decided end, on disk too, cuts what is longer, and then runs then (nil for nothing). It is false
// if another end was decided before, which no controller may do.
func (p *Partition) decideEnd(h *held, end mq.Position, then func()) bool {
	if l := p.lead; l != nil && l.seg.Segment().ID == h.copy.Segment().ID {
		l.seg.Seal() // the end may come with copies before the head does
	}
	first := h.copy.End() == nil
	if _, err := h.copy.SetEnd(end); err != nil {
		p.stop(err)
		return false
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

// storeEnd makes the end durable beside the partition, and tries again until it is.
func (p *Partition) storeEnd(h *held, end mq.Position) {
	id := h.copy.Segment().ID
	p.beside(func(ctx context.Context) {
		err := p.env.Store.SetEnd(id, end)
		p.post(func() {
			if err != nil {
				p.log.Error("the decided end could not be recorded", "segment", id, "err", err)
				time.AfterFunc(retryEnd, func() {
					p.post(func() {
						if p.copies[id] == h { // not removed meanwhile
							p.storeEnd(h, end)
						}
					})
				})
				return
			}
			h.ended = true
			p.mended(h)
			p.endIndex(h)
			ending := h.ending
			h.ending = nil
			for _, f := range ending {
				f()
			}
		})
	})
}

// mended takes up a damaged copy of which the end is decided where it is intact: it is a whole one now.
func (p *Partition) mended(h *held) {
	info, ok := p.env.Store.Segment(h.copy.Segment().ID)
	if !h.damaged || !ok || info.Damaged || p.fault != nil {
		return
	}
	h.damaged, h.index = false, nil
	h.copy = segment.NewReplica(info.Segment, info.Tail, info.Last, info.SealFlag, info.End)
}

// retryEnd is when an end that could not be recorded is tried again.
const retryEnd = time.Second
