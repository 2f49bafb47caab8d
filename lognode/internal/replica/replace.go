package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
)

// replace makes a whole copy of a sealed segment beside the damaged one that this store has, out of what is intact here and on the
// others, entry by entry, and puts it in its place when all of it is durable. Until then the damaged one is kept and read, by
// the other replicas, too: what is intact of it may be what they lack. So copies that are damaged at different places
// all become whole, and where an entry is broken in all of them nothing changes.
//
// Everything that is broken here is read from the others before anything is written: a segment that can't be made whole is
// tried again and again, and must not be written as often.
func (p *Partition) replace(ctx context.Context, s *mq.Segment, taken func(ctx context.Context, bytes int) error) (err error) {
	if err := p.unstopped(ctx); err != nil {
		return err
	}
	if reach, err := p.together(ctx, s, taken); err != nil {
		return fmt.Errorf("the copies of segment %d give it only up to %s together: %w", s.ID, reach, err)
	}
	p.log.Warn("a damaged copy is replaced", "segment", s.ID)
	r, err := p.env.Store.Replace(asNew(s, copyAnew), s.End)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Abandon()) }()
	if err := p.combine(ctx, s, r, taken); err != nil {
		return err
	}
	err = r.Commit(s.DataEnd())
	if errors.Is(err, store.ErrAccount) && p.vouchedFor(ctx, s, r) {
		p.log.Warn("the account of a damaged copy was wrong: other whole copies have that of the new one", "segment", s.ID, "err", err)
		err = r.CommitVouched(s.DataEnd())
	}
	if err != nil {
		return err
	}
	return p.holdAnew(s.ID, nil) // its footer is there, or is derived later
}

// vouchedFor says whether another holder has the sealed segment whole, with the account of a new copy, and none that has it whole
// has another one. Then what the damaged copy says of itself is damaged, too.
func (p *Partition) vouchedFor(ctx context.Context, s *mq.Segment, r *store.Replacement) bool {
	x := suffix{p: p, self: p.env.Store.Identity().Store}
	q := p.inquire(ctx, p.others(s), func(ctx context.Context, r mq.Replica) segment.Found { return x.tailOf(ctx, s, r) })
	defer q.end()
	entries, sum := r.Account()
	agree := 0
	for _, f := range q.all() {
		switch {
		case !f.Known || f.Entries == 0 || f.Tail != s.DataEnd():
		case f.Entries == entries && f.Sum == sum:
			agree++
		default:
			return false
		}
	}
	return agree > 0
}

// combine fills a replacement.
func (p *Partition) combine(ctx context.Context, s *mq.Segment, r *store.Replacement, taken func(ctx context.Context, bytes int) error) error {
	var raw [][]byte
	size := 0
	add := func() error {
		if size == 0 {
			return nil
		}
		if err := r.Add(raw...); err != nil {
			return err
		}
		p.env.Metrics.Repaired.Add(float64(size))
		n := size
		raw, size = nil, 0
		return taken(ctx, n)
	}
	err := p.walk(ctx, s, s.Base, func(e *mq.Entry) error {
		b := e.AppendTo(nil)
		raw, size = append(raw, b), size+len(b)
		if size < fetchBytes {
			return nil
		}
		return add()
	})
	if err != nil {
		return err
	}
	return add()
}

// unstopped is nil unless the partition is stopped here: then what is on disk is to be looked at, as it is.
func (p *Partition) unstopped(ctx context.Context) error {
	var fault error
	if err := p.inOrder(ctx, func() { fault = p.fault }); err != nil {
		return err
	}
	return fault
}
