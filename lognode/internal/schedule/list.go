package schedule

import (
	"math"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// before orders by due time, then number.
func before(a, b mq.Schedule) bool {
	return a.Due < b.Due || a.Due == b.Due && a.Number < b.Number
}

// List is the pending schedules behind after, by due time and number, at most limit. It looks at all that is pending:
// some 10 ms for ten million.
func (b *Book) List(after mq.Schedule, limit int) []Wanted {
	if limit <= 0 {
		return nil
	}
	var kept []Wanted // sorted and cut whenever it is twice the limit
	bound := mq.Schedule{Due: math.MaxInt64, Number: math.MaxUint64}
	cut := func() {
		slices.SortFunc(kept, func(a, b Wanted) int {
			if before(a.Schedule, b.Schedule) {
				return -1
			}
			return 1
		})
		if len(kept) >= limit {
			kept = kept[:limit]
			bound = kept[limit-1].Schedule
		}
	}
	for _, p := range b.pages {
		for n, due := range p.due {
			s := mq.Schedule{Number: p.number(n), Due: due}
			if before(after, s) && before(s, bound) {
				kept = append(kept, Wanted{s, p.placeOf(n)})
			}
		}
		if len(kept) >= 2*limit+pageSize {
			cut()
		}
	}
	cut()
	return kept
}

// Oldest is the lowest place of a message that is pending; with none pending, the zero position.
func (b *Book) Oldest() mq.Position {
	lowest := mq.Position{Offset: math.MaxUint64}
	for _, p := range b.pages {
		if p.low.Before(lowest) {
			p.compact() // it may be of one that is finished
			if p.low.Before(lowest) {
				lowest = p.low
			}
		}
	}
	if b.pending == 0 {
		return mq.Position{}
	}
	return lowest
}

// Before appends up to limit pending schedules whose messages are in entries before end, by place and number.
func (b *Book) Before(end mq.Position, limit int, dst []Wanted) []Wanted {
	for _, p := range b.pages {
		if !p.low.Before(end) {
			continue
		}
		for n := range p.idx {
			if at := p.placeOf(n); at.Before(end) {
				dst = append(dst, Wanted{mq.Schedule{Number: p.number(n), Due: p.due[n]}, at})
			}
		}
		if len(dst) >= limit {
			break
		}
	}
	slices.SortFunc(dst, func(a, b Wanted) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return int(int64(a.Number) - int64(b.Number))
	})
	return dst[:min(limit, len(dst))]
}
