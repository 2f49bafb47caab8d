// Package replay reads committed messages of a topic without a group: one partition by offset, or all
// of them merged by time. A Reader is used for one request; between requests its state travels in a cursor.
//
// From and To bound the range whichever way it is read: From is its lower end (inclusive), To its upper end
// (exclusive). A backward read answers the newest first.
package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Fetch asks a partition's leader. It must be usable by several goroutines.
type Fetch func(context.Context, *frame.Read) (*frame.ReadDone, error)

// Query is what to read.
type Query struct {
	Topic    mq.TopicID
	From, To frame.Place // Where 0: no bound
	Backward bool
	All      bool // all partitions, those that are added later too
	Archived bool // what is in the archive too
	Unpack   Unpack
}

const (
	// fetchBytes is about how much one round of fetches asks for, over all partitions.
	fetchBytes = 4 << 20
	// minFetchBytes is what a single partition is asked for at least.
	minFetchBytes = 64 << 10
	// fetchers is how many partitions are asked at once.
	fetchers = 16
)

// Reader goes through the messages of a query. It belongs to one goroutine.
//
// Its buffers hold at most what one fetch of each partition answered: about fetchBytes, and at least one
// stored batch of each partition, so callers bound partitions x batch size.
type Reader struct {
	q     Query
	fetch Fetch
	sides []*side
}

// side is one partition's part in the merge. The messages not answered yet are items, then what the leader
// has from next on (backward: below next).
type side struct {
	number uint32
	next   frame.Place
	bound  frame.Place // the far end of the range; Latest becomes an offset with the first answer
	items  []Item
	dry    bool // the leader had nothing more when it was asked; Again asks again
	over   bool // the range is done for ever
}

// New makes a reader of the given partitions.
func New(q Query, numbers []uint32, fetch Fetch) *Reader {
	r := &Reader{q: q, fetch: fetch}
	for _, n := range numbers {
		r.sides = append(r.sides, &side{number: n, next: r.start(), bound: r.bound()})
	}
	return r
}

// bound is the far end of the range as it was asked for.
func (r *Reader) bound() frame.Place {
	if r.q.Backward {
		return r.q.From
	}
	return r.q.To
}

func (r *Reader) start() frame.Place {
	p := r.q.From
	if r.q.Backward {
		p = r.q.To
	}
	if p.Where == 0 {
		p.Where = frame.Earliest
		if r.q.Backward {
			p.Where = frame.Latest
		}
	}
	return p
}

// Page answers the next messages: up to limit, and until their values have maxBytes. Fewer than that come
// only at the end, where Dry or Over is true.
func (r *Reader) Page(ctx context.Context, limit, maxBytes int) ([]Item, error) {
	return r.page(ctx, limit, maxBytes, func() {})
}

// PageStates is Page with the state (AppendState) behind each message, so that a caller can go on behind any of them.
func (r *Reader) PageStates(ctx context.Context, limit, maxBytes int) (items []Item, states [][]byte, err error) {
	items, err = r.page(ctx, limit, maxBytes, func() { states = append(states, r.AppendState(nil)) })
	return items, states, err
}

// page calls after behind each message.
func (r *Reader) page(ctx context.Context, limit, maxBytes int, after func()) ([]Item, error) {
	var out []Item
	size := 0
	for len(out) < limit && (size < maxBytes || len(out) == 0) {
		if err := r.fill(ctx, limit-len(out)); err != nil {
			if e := mqerr.Of(err); len(out) > 0 && e.Code.Retryable() && !errors.Is(ctx.Err(), context.Canceled) {
				break // what there is, now; who goes on is told then
			}
			return nil, err
		}
		s := r.first()
		if s == nil {
			break
		}
		out = append(out, s.items[0])
		size += s.items[0].Message.Size()
		s.items = s.items[1:]
		after()
	}
	return out, nil
}

// Dry says that the leaders had nothing more when they were asked.
func (r *Reader) Dry() bool {
	return !slices.ContainsFunc(r.sides, func(s *side) bool { return len(s.items) > 0 || !s.dry && !s.over })
}

// Over says that the range is done: nothing will ever be added to it.
func (r *Reader) Over() bool {
	return !slices.ContainsFunc(r.sides, func(s *side) bool { return len(s.items) > 0 || !s.over })
}

// Again makes a dry reader ask the leaders of these partitions (ascending) again.
func (r *Reader) Again(partitions []uint32) {
	for _, s := range r.sides {
		if _, ok := slices.BinarySearch(partitions, s.number); ok {
			s.dry = false
		}
	}
}

// Partitions are the numbers of the partitions that are read.
func (r *Reader) Partitions() []uint32 {
	out := make([]uint32, len(r.sides))
	for i, s := range r.sides {
		out[i] = s.number
	}
	return out
}

// first is the side whose message comes next, or nil.
func (r *Reader) first() *side {
	var best *side
	for _, s := range r.sides {
		if len(s.items) > 0 && (best == nil || r.before(&s.items[0], &best.items[0])) {
			best = s
		}
	}
	return best
}

// before orders by time, then partition, then offset. Stamps of a partition never go back, so the order
// within it is that of its offsets.
func (r *Reader) before(a, b *Item) bool {
	if r.q.Backward {
		a, b = b, a
	}
	if a.Stamp != b.Stamp {
		return a.Stamp < b.Stamp
	}
	if a.ID.Partition != b.ID.Partition {
		return a.ID.Partition.Number < b.ID.Partition.Number
	}
	return a.Offset < b.Offset
}

// fill fetches for each side whose buffer is empty: the merge needs the first message of all of them.
func (r *Reader) fill(ctx context.Context, want int) error {
	var g *errgroup.Group
	gctx := ctx
	limit := uint32(want)
	if n := len(r.sides); n > 1 {
		limit = uint32(2*want/n + 16)
	}
	for _, s := range r.sides {
		if len(s.items) > 0 || s.dry || s.over {
			continue
		}
		if g == nil {
			g, gctx = errgroup.WithContext(ctx)
			g.SetLimit(fetchers)
		}
		g.Go(func() error { return r.fetchSide(gctx, s, limit) })
	}
	if g == nil {
		return nil
	}
	return g.Wait()
}

func (r *Reader) fetchSide(ctx context.Context, s *side, limit uint32) error {
	f := &frame.Read{Partition: mq.PartitionID{Topic: r.q.Topic, Number: s.number}, From: s.next, To: s.bound,
		Limit: limit, MaxBytes: uint32(max(fetchBytes/len(r.sides), minFetchBytes)), Backward: r.q.Backward, Archived: r.q.Archived}
	if r.q.Backward {
		f.From, f.To = s.bound, s.next
		if f.From.Where == 0 {
			f.From.Where = frame.Earliest
		}
	} else if f.To.Where == 0 {
		f.To.Where = frame.Latest
	}
	done, err := r.fetch(ctx, f)
	if err != nil {
		return err
	}
	if err := r.checkEnds(f, done); err != nil {
		return err
	}
	items, err := appendItems(nil, f.Partition, done.Chunks, r.q.Unpack)
	if err != nil {
		return err
	}
	if r.q.Backward {
		slices.Reverse(items)
	}
	return r.advance(s, f, done, items)
}

// checkEnds refuses a start beyond either end. The leader does too; an answer that went on regardless
// would hide what is missing.
func (r *Reader) checkEnds(f *frame.Read, done *frame.ReadDone) error {
	if f.From.Where != frame.AtOffset {
		return nil
	}
	switch from := f.From.Value; {
	case from < done.First:
		return mqerr.New(mqerr.OffsetExpired, "offset %d of partition %d is no longer kept; the first one kept is %d",
			from, f.Partition.Number, done.First)
	case from > done.End:
		return mqerr.New(mqerr.OffsetOutOfRange, "offset %d of partition %d does not exist yet; the next one is %d",
			from, f.Partition.Number, done.End)
	}
	return nil
}

// advance moves a side past what was answered.
func (r *Reader) advance(s *side, f *frame.Read, done *frame.ReadDone, items []Item) error {
	if r.q.Backward {
		s.items = items
		s.over = len(items) == 0
		if !s.over {
			s.next = at(items[len(items)-1].Offset)
			s.over = s.next.Value <= done.First || s.bound.Where == frame.AtOffset && s.next.Value <= s.bound.Value
		}
		return nil
	}
	if s.bound.Where == frame.Latest {
		s.bound = at(done.End) // "up to the latest" is meant as it was at the first look
	}
	if len(items) > 0 {
		s.items = items
		s.next = at(max(done.Next, items[len(items)-1].Offset+1))
	} else if err := s.skip(f, done); err != nil {
		return err
	}
	s.dry = len(items) == 0 || s.next.Value >= done.End
	switch s.bound.Where {
	case frame.AtOffset:
		s.over = s.next.Where == frame.AtOffset && s.next.Value >= s.bound.Value
	case frame.AtTime:
		// Stamps never go back: with messages above the upper end nothing is added below it.
		s.over = len(items) == 0 && done.Next < done.End
	case frame.Earliest:
		s.over = true
	}
	return nil
}

// skip moves a side whose leader had no message of the range.
func (s *side) skip(f *frame.Read, done *frame.ReadDone) error {
	switch f.From.Where {
	case frame.Earliest, frame.Latest:
		s.next = at(done.End) // whatever comes from now on comes after the place that was meant
		if f.To.Where != frame.Latest {
			s.next = at(max(done.Next, done.First))
		}
	case frame.AtOffset:
		if done.Next < f.From.Value {
			return fmt.Errorf("replay: a read of partition %d from %d went back to %d", s.number, f.From.Value, done.Next)
		}
		s.next = at(done.Next) // nothing is there up to Next: a range recorded as lost
	}
	return nil
}

// resumeAt is the place before which (backward: at or above which) everything has been answered.
func (s *side) resumeAt(backward bool) frame.Place {
	switch {
	case len(s.items) == 0:
		return s.next
	case backward:
		return at(s.items[0].Offset + 1)
	}
	return at(s.items[0].Offset)
}

// Passed says that the range's upper end is a time before now: only messages that are late could be added.
func (r *Reader) Passed(now time.Time) bool {
	return !r.q.Backward && r.q.To.Where == frame.AtTime && time.Unix(0, int64(r.q.To.Value)).Before(now)
}
