package schedule

import (
	"fmt"
	"math"
	"slices"
)

// Check tests the invariants of the package comment, at the cost of walking all that is pending. Nil if they hold. For
// tests, and for a debug call to a node that is in doubt.
func (b *Book) Check() error {
	pending, taken, state := 0, 0, 0
	for key, p := range b.pages {
		near, err := p.check(key)
		if err != nil {
			return fmt.Errorf("page %d: %w", key, err)
		}
		if b.order[p.heap] != p {
			return fmt.Errorf("page %d is not at place %d of the order", key, p.heap)
		}
		if last := p.number(len(p.idx) - 1); last >= b.next {
			return fmt.Errorf("%d is pending, the next number is %d", last, b.next)
		}
		pending += len(p.idx)
		taken += near
		state += pageBytes(len(p.idx))
	}
	if pending != b.pending || taken != b.taken || state != b.state || len(b.order) != len(b.pages) {
		return fmt.Errorf("%d pending, %d near, %d bytes, %d pages are counted as %d, %d, %d, %d",
			pending, taken, state, len(b.pages), b.pending, b.taken, b.state, len(b.order))
	}
	for i, p := range b.order {
		if p.min < b.order[max(i-1, 0)/2].min {
			return fmt.Errorf("the order is broken at %d", i)
		}
	}
	for number, due := range b.retimed {
		if p, i := b.find(number); p == nil || p.due[i] != due {
			return fmt.Errorf("%d is re-timed to %d, and not pending so", number, due)
		}
	}
	for _, number := range b.cancelled.all() {
		if p, _ := b.find(number); p != nil || number >= b.next {
			return fmt.Errorf("%d is cancelled and pending, or not given", number)
		}
	}
	return nil
}

// check counts those that are near.
func (p *page) check(key uint64) (near int, err error) {
	n := len(p.idx)
	if p.key != key || n == 0 || len(p.where) != n || len(p.due) != n || len(p.at) > pageSize {
		return 0, fmt.Errorf("key %d, %d numbers, %d places of %d, %d due times", p.key, n, len(p.where), len(p.at), len(p.due))
	}
	if !slices.IsSorted(p.idx) || len(slices.Compact(slices.Clone(p.idx))) != n {
		return 0, fmt.Errorf("numbers %v", p.idx)
	}
	least, bits := int64(math.MaxInt64), 0
	for i := range pageSize {
		if p.isNear(uint8(i)) {
			bits++
		}
	}
	for i, due := range p.due {
		if int(p.where[i]) >= len(p.at) || p.placeOf(i).Before(p.low) {
			return 0, fmt.Errorf("place %d of %d, the lowest is %s", p.where[i], len(p.at), p.low)
		}
		if p.isNear(p.idx[i]) {
			near++
		} else {
			least = min(least, due)
		}
	}
	if near != bits || least != p.min {
		return 0, fmt.Errorf("%d near of %d marked, first due %d kept as %d", near, bits, least, p.min)
	}
	return near, nil
}
