package replica

import (
	"context"
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

// Repair makes this store's copy of a sealed segment whole: it takes from the other replicas what lies between
// the copy's tail and the end. A copy that is missing or damaged is made anew; that is safe because the end is decided: a
// copy never counts as an acknowledgement (R1), and nobody asks for this segment's tail any more to find an end.
// A damaged copy is kept until the other replicas have given all of the segment once: what is intact of it may be all that is
// left, and a copy that says that it is whole may have damage that nobody has met.
// taken is called with the bytes of each piece before the next one is asked for, to keep to a rate.
func (p *Partition) Repair(ctx context.Context, s *mq.Segment, taken func(ctx context.Context, bytes int) error) error {
	info, ok := p.env.Store.Segment(s.ID)
	if ok && info.Damaged {
		if !p.wholeElsewhere(ctx, s) {
			return fmt.Errorf("no other replica that answers has segment %d whole", s.ID)
		}
		if err := p.readElsewhere(ctx, s, taken); err != nil {
			return fmt.Errorf("the other replicas of segment %d don't give all of it: %w", s.ID, err)
		}
		p.log.Warn("a damaged copy is fetched anew", "segment", s.ID, "intact", info.Tail)
		p.Drop(s.ID)
		if err := p.env.Store.GiveUp(s.ID); err != nil {
			return err
		}
		ok = false
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

// wholeElsewhere says whether another holder of a sealed segment has all of it.
func (p *Partition) wholeElsewhere(ctx context.Context, s *mq.Segment) bool {
	x := suffix{p: p, self: p.env.Store.Identity().Store}
	q := p.inquire(ctx, s.Holders(), func(ctx context.Context, r mq.Replica) segment.Found {
		if r.Store == x.self {
			return segment.Found{}
		}
		return x.tailOf(ctx, s, r)
	})
	defer q.end()
	whole := func(found []segment.Found) bool {
		return slices.ContainsFunc(found, func(f segment.Found) bool { return f.Whole(s.DataEnd()) })
	}
	return whole(q.until(whole))
}

// readElsewhere reads all of a sealed segment from the other replicas and keeps nothing of it.
func (p *Partition) readElsewhere(ctx context.Context, s *mq.Segment, taken func(ctx context.Context, bytes int) error) error {
	return p.walkRemote(ctx, s, s.Base, func(e *mq.Entry) error { return taken(ctx, mq.EntryHeaderSize+len(e.Records)) })
}

// recreate makes an empty copy that takes only copies.
func (p *Partition) recreate(s *mq.Segment) error {
	fresh := *s
	compared := copyAnew
	if s.ReplicaIndex(p.env.Store.Identity().Store) < 0 && !p.env.Store.GaveUp(s.ID) {
		compared = copyFirst
	}
	fresh.Sealed, fresh.End, fresh.Held, fresh.Adding, fresh.Compared = false, mq.Position{}, nil, nil, compared
	if err := p.env.Store.CreateSegments([]mq.Segment{fresh}); err != nil {
		return err
	}
	if err := p.env.Store.SealSegments([]mq.SegmentID{s.ID}); err != nil {
		return err
	}
	if err := p.env.Store.SetEnd(s.ID, s.End); err != nil {
		return err
	}
	info, ok := p.env.Store.Segment(s.ID)
	if !ok {
		return fmt.Errorf("segment %d was not made", s.ID)
	}
	done := make(chan struct{})
	p.post(func() {
		defer close(done)
		p.copies[s.ID] = &held{ended: true, index: newIndexing(&info.Segment), copy: segment.NewReplica(info.Segment, info.Tail, info.Last, true, info.End)}
	})
	select {
	case <-done:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}
