package replica

import (
	"context"
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

// Repair makes this store's copy of a sealed segment whole: it takes from the other replicas what lies between
// the copy's tail and the end. A copy that is missing is made anew, and one that is damaged is replaced (see replace); that is safe
// because the end is decided: a copy never counts as an acknowledgement (R1), and nobody asks for this segment's tail
// any more to find an end.
// taken is called with the bytes of each piece before the next one is asked for, to keep to a rate.
func (p *Partition) Repair(ctx context.Context, s *mq.Segment, taken func(ctx context.Context, bytes int) error) error {
	info, ok := p.env.Store.Segment(s.ID)
	if ok && info.Damaged {
		return p.replace(ctx, s, taken)
	}
	if !ok {
		if err := p.recreate(s); err != nil {
			return err
		}
	}
	for {
		info, ok = p.env.Store.Segment(s.ID)
		switch {
		case !ok || info.Damaged:
			return fmt.Errorf("the copy of segment %d was lost or damaged again", s.ID)
		case !info.Tail.Before(s.DataEnd()):
			return nil
		}
		raw, err := p.fetch(ctx, s, info.Tail)
		if err != nil {
			return err
		}
		bytes := 0
		for _, b := range raw {
			bytes += len(b)
		}
		if err := p.copyHere(ctx, s, raw); err != nil {
			return err
		}
		after, _ := p.env.Store.Segment(s.ID)
		if !info.Tail.Before(after.Tail) {
			return fmt.Errorf("the copy of segment %d stays at %s, short of %s", s.ID, after.Tail, s.DataEnd())
		}
		p.env.Metrics.Repaired.Add(float64(bytes))
		if err := taken(ctx, bytes); err != nil {
			return err
		}
	}
}

// What copies that no controller had made say of the revision that they were compared with.
const (
	copyAnew  = int64(0)  // there was one before, which is gone: what this one lacks says nothing
	copyFirst = int64(-1) // there was none: the store becomes a replica of a sealed segment
)

// recreate makes an empty copy that takes only copies.
func (p *Partition) recreate(s *mq.Segment) error {
	compared := copyAnew
	if s.ReplicaIndex(p.env.Store.Identity().Store) < 0 {
		compared = copyFirst
	}
	fresh := asNew(s, compared)
	if err := p.env.Store.CreateSegments([]mq.Segment{fresh}); err != nil {
		return err
	}
	if err := p.env.Store.SealSegments([]mq.SegmentID{s.ID}); err != nil {
		return err
	}
	if err := p.env.Store.SetEnd(s.ID, s.End); err != nil {
		return err
	}
	return p.holdAnew(s.ID, newIndexing(&fresh))
}

// asNew is the creation record of a sealed segment's new copy.
func asNew(s *mq.Segment, compared int64) mq.Segment {
	fresh := *s
	fresh.Sealed, fresh.End, fresh.Held, fresh.Adding, fresh.Compared = false, mq.Position{}, nil, nil, compared
	return fresh
}

// holdAnew takes up a new copy that the store has, in the place of what was held of the segment before, if anything was.
func (p *Partition) holdAnew(id mq.SegmentID, index *indexing) error {
	info, ok := p.env.Store.Segment(id)
	if !ok {
		return fmt.Errorf("segment %d was not made", id)
	}
	return p.inOrder(p.ctx, func() {
		h := p.copies[id]
		if h == nil {
			h = &held{}
			p.copies[id] = h
		}
		h.damaged, h.ended, h.index, h.late, h.together = p.fault != nil, true, index, nil, mq.Position{}
		h.copy = segment.NewReplica(info.Segment, info.Tail, info.Last, true, info.End)
		p.settle(h)
	})
}

// inOrder runs f on the partition's goroutine and waits until it has.
func (p *Partition) inOrder(ctx context.Context, f func()) error {
	done := make(chan struct{})
	p.post(func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
