package archive

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A message that was scheduled is known by its number, which says nothing of where it is. So each block of an object lists the
// numbers that its entries are about, and a search reads the footers of a partition's objects once.

const (
	// maxNumbers bounds the lists of one object, in bytes. A block beyond that lists nothing and may be about any schedule.
	maxNumbers = 6 << 20
	// maxSpans bounds the objects of which is remembered what schedules they are about: a few MiB. At the bound all is forgotten.
	maxSpans = 100_000
	// searchWait is how long one search may read footers, searchers how many at once. What was read is remembered: the next
	// search goes on behind it.
	searchWait, searchers = 5 * time.Second, 8
)

// appendNumbers appends numbers, which it sorts, as runs. Form: each run's distance from the end of the one before, and its length.
func appendNumbers(b []byte, numbers []uint64) []byte {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	last := uint64(0)
	for i := 0; i < len(numbers); {
		n := 1
		for i+n < len(numbers) && numbers[i+n] == numbers[i]+uint64(n) {
			n++
		}
		b = binary.AppendUvarint(b, numbers[i]-last)
		b = binary.AppendUvarint(b, uint64(n))
		last = numbers[i] + uint64(n)
		i += n
	}
	return b
}

// eachRun calls f with the runs of a list, from included and to not, until it answers false. False for what appendNumbers did not write.
func eachRun(list []byte, f func(from, to uint64) bool) bool {
	r := mq.NewReader(list)
	last := uint64(0)
	for r.Len() > 0 {
		distance, n := r.Uvarint(), r.Uvarint()
		if r.Err() != nil || n == 0 || distance > math.MaxUint64-last || n > math.MaxUint64-last-distance {
			return false
		}
		if !f(last+distance, last+distance+n) {
			return true
		}
		last += distance + n
	}
	return r.Err() == nil
}

// names says whether entries of a block may be about a schedule.
func (b *block) names(number uint64) bool {
	found := false
	ok := eachRun(b.Schedules, func(from, to uint64) bool {
		found = from <= number && number < to
		return number >= to
	})
	return b.AnySchedule || found || !ok
}

// listNumbers puts what was gathered for the last block into it.
func (w *writer) listNumbers() {
	if len(w.footer.Blocks) == 0 || len(w.numbers) == 0 && !w.unlisted {
		return
	}
	b := &w.footer.Blocks[len(w.footer.Blocks)-1]
	b.Schedules = appendNumbers(nil, w.numbers)
	w.listed += len(b.Schedules)
	if w.unlisted || w.listed > maxNumbers {
		b.Schedules, b.AnySchedule = nil, true
	}
	w.numbers, w.unlisted = w.numbers[:0], false
}

// gatherNumbers gathers the schedules that an entry is about.
func (w *writer) gatherNumbers(e *mq.Entry) {
	if err := schedule.Numbers(e, func(n uint64) { w.numbers = append(w.numbers, n) }); err != nil {
		w.unlisted = true
	}
}

// span are the first and the last schedule that an object may be about; none when first is behind last.
type span struct{ first, last uint64 }

func (f *footer) span() span {
	s := span{first: math.MaxUint64}
	for i := range f.Blocks {
		b := &f.Blocks[i]
		ok := eachRun(b.Schedules, func(from, to uint64) bool {
			s.first, s.last = min(s.first, from), max(s.last, to-1)
			return true
		})
		if b.AnySchedule || !ok {
			return span{last: math.MaxUint64}
		}
	}
	return s
}

// spans remembers the spans of objects by their segments, whose numbers are never used again.
type spans struct {
	mu sync.Mutex
	of map[mq.SegmentID]span
}

func (s *spans) get(id mq.SegmentID) (span, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.of[id]
	return x, ok
}

func (s *spans) put(id mq.SegmentID, x span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= maxSpans {
		s.of = map[mq.SegmentID]span{}
	}
	s.of[id] = x
}

// NamingSchedule says for each object whether its entries may be about a schedule. With an error it says so of those whose footers
// could be read; the others are not among them.
func (a *Archive) NamingSchedule(ctx context.Context, list []Object, number uint64) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, searchWait)
	defer cancel()
	out := make([]bool, len(list))
	failed := make([]error, searchers)
	var next, read atomic.Int64
	var wg sync.WaitGroup
	for k := range searchers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				s, err := a.spanOf(ctx, &list[i])
				if err != nil {
					failed[k] = cmp.Or(failed[k], err)
					continue
				}
				read.Add(1)
				out[i] = s.first <= number && number <= s.last
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return out, mqerr.New(mqerr.ArchiveUnavailable, "of %d archived segments %d were looked at for schedule %d in time; the next call goes on there", len(list), read.Load(), number)
	}
	for _, err := range failed {
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (a *Archive) spanOf(ctx context.Context, o *Object) (span, error) {
	if s, ok := a.spans.get(o.Segment); ok {
		return s, nil
	}
	f, err := a.footer(ctx, o)
	if err != nil {
		return span{}, err
	}
	s := f.span()
	a.spans.put(o.Segment, s)
	return s, nil
}

// WalkSchedule calls f with the entries of those blocks of an object that may be about a schedule. An error of f ends it.
func (a *Archive) WalkSchedule(ctx context.Context, o *Object, number uint64, f func(*mq.Entry) error) error {
	footer, err := a.footer(ctx, o)
	if err != nil {
		return err
	}
	for i := range footer.Blocks {
		if !footer.Blocks[i].names(number) {
			continue
		}
		var stop error
		if err := a.walk(ctx, o, &footer.Blocks[i], func(e *mq.Entry, _ []byte) bool { stop = f(e); return stop == nil }); err != nil || stop != nil {
			return cmp.Or(stop, err)
		}
	}
	return nil
}
