package replica

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
)

// Restore makes this store's damaged copy of the open segment what it was before the damage, if what is broken in it is intact on
// other replicas and the store knows how far the copy reached (store.Claim). Then it is no other copy than one that was never
// damaged: it answers the tail that it had, with the seal flag that it had. So it may have a say again in where the segment ends,
// though a damaged one has none (R3). Nothing behind its claim is taken, and nothing is answered before all of it is durable.
// A copy in which only a read has met damage since the start answers for what it acknowledged anyway, and is left alone.
// taken is as for Repair.
func (p *Partition) Restore(ctx context.Context, s *mq.Segment, taken func(ctx context.Context, bytes int) error) (err error) {
	if err := p.unstopped(ctx); err != nil {
		return err
	}
	if unknown, err := p.unknown(ctx, s.ID); err != nil || !unknown {
		return err
	}
	reach, cause := p.together(ctx, s, taken)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	claim, err := p.env.Store.Claim(s.ID)
	if err != nil {
		return fmt.Errorf("the copies of segment %d give it up to %s together: %w", s.ID, reach, errors.Join(err, cause))
	}
	if reach.Before(claim) {
		return fmt.Errorf("the copies of segment %d give it up to %s together, and this one had it up to %s: %w", s.ID, reach, claim, cause)
	}
	r, err := p.env.Store.Restore(s.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Abandon()) }()
	p.log.Warn("a damaged copy of the open segment is restored", "segment", s.ID, "claim", claim)
	if err := p.combine(ctx, until(s, claim), r, taken); err != nil {
		return err
	}
	if err := r.Commit(claim); err != nil {
		return err
	}
	if err := p.holdRestored(ctx, s.ID); err != nil {
		return err
	}
	p.env.Metrics.Restored.Inc()
	p.log.Warn("a damaged copy of the open segment is what it was again", "segment", s.ID, "tail", claim)
	return nil
}

// holdRestored takes up a copy that the store has restored.
func (p *Partition) holdRestored(ctx context.Context, id mq.SegmentID) error {
	return p.inOrder(ctx, func() {
		h := p.copies[id]
		info, ok := p.env.Store.Segment(id)
		if h == nil || !h.damaged || !ok || info.Damaged || p.fault != nil {
			return // it was removed meanwhile, or the partition was stopped
		}
		now := heldAs(&info)
		if end := h.copy.End(); end != nil { // decided behind the commit; the store hears of it in a moment
			if _, err := now.copy.SetEnd(*end); err != nil {
				p.stop(err)
				return
			}
		}
		if h.copy.Sealing() { // somebody counts on it that nothing is taken any more
			now.copy.Seal()
		}
		h.damaged, h.together = false, mq.Position{}
		h.copy, h.index, h.late, h.ended = now.copy, now.index, now.late, h.ended || now.ended
		p.settle(h)
	})
}

// until is a segment for those who read it up to a position.
func until(s *mq.Segment, end mq.Position) *mq.Segment {
	out := *s
	out.Sealed, out.End, out.Held = true, end, nil
	return &out
}

// together is up to where a segment can be put together, entry by entry, out of this copy and those of the replicas that answer,
// and why not beyond that. What was found is told to those who look for what is left (State.Together).
func (p *Partition) together(ctx context.Context, s *mq.Segment, taken func(ctx context.Context, bytes int) error) (mq.Position, error) {
	from, err := p.env.Store.Intact(s.ID)
	if errors.Is(err, store.ErrUnknownSegment) {
		from, err = s.Base, nil
	}
	if err != nil {
		return s.Base, err
	}
	end := mq.Position{Offset: math.MaxUint64, Seq: math.MaxUint32}
	if s.Sealed {
		end = s.DataEnd()
	}
	c := segment.NewCourse(until(s, end), maxPosition(from, s.Base), func(e *mq.Entry) error {
		return taken(ctx, mq.EntryHeaderSize+len(e.Records))
	})
	err = p.through(ctx, c)
	p.post(func() {
		if h := p.copies[s.ID]; h != nil {
			h.together = c.At()
		}
	})
	return c.At(), err
}

// unknown says whether this store's copy of a segment is there and answers nobody who looks for its end.
func (p *Partition) unknown(ctx context.Context, id mq.SegmentID) (bool, error) {
	var damaged bool
	if err := p.inOrder(ctx, func() { damaged = p.copies[id] != nil && p.copies[id].damaged }); err != nil {
		return false, err
	}
	return damaged, nil
}

// Together answers up to where a damaged copy's segment could be put together out of all copies when that was tried last, the zero
// position if it was not.
func (p *Partition) Together(id mq.SegmentID, answer func(State)) {
	p.ask(answer, func() State {
		if h := p.copies[id]; h != nil {
			return State{Together: h.together}
		}
		return State{}
	})
}
