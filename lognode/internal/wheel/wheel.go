// Package wheel is a hierarchical timing wheel: many timers, one owner, no clock of its own.
//
// Goal. A node has millions of pending leases, retries and schedules, almost all of which are cancelled
// or moved before they are due. Insert and Cancel must be O(1), and the owner must be able to sleep
// until the next due time instead of ticking.
//
// Outline. Time is cut into ticks of 10 ms. Four levels of buckets (256 of one tick, then 64 of 2.56 s,
// 64 of 2.73 min and 64 of 2.91 h: 448 in all) hold doubly linked lists. A timer's level is the first one at which it
// shares its block with the present tick, so a level never holds what a lower one should, the next
// thing to do is the first set bit of a bitmap, and a timer moves down at most three times. What is due
// in the present tick (or earlier) is in a small heap ordered by due time: that is why nothing fires early
// within a tick, why a delay shorter than a tick does not wait for a turn of the wheel (museum 20), and
// why a timer may be cancelled while its bucket is being drained (museum 21). What is due beyond the
// last level (about 7.8 days) is parked in its furthest bucket and placed again from there.
//
// Rejected: a heap of all timers (10 million pending cost 24 comparisons and as many cache misses for each
// cancel), and levels chosen by distance (a bucket then holds two turns at once and NextDue can't be exact).
package wheel

import (
	"math"
	"math/bits"
)

// Tick is the width of the finest bucket in nanoseconds. Due times are kept exactly; the tick only decides
// how timers are sorted into buckets.
const Tick = 10_000_000

const (
	levels = 4
	fine   = 256 // buckets of level 0
	coarse = 64  // buckets of each other level
	// parked is how many buckets of the last level lie ahead; what is due later waits in the last of them.
	parked = coarse - 1
)

// shift of a level: a bucket of level l covers 1<<shift[l] ticks.
var shift = [levels + 1]uint{0, 8, 14, 20, 26}

// Timer is one thing that is due once. Its zero value is ready to Insert. It must not be copied while it
// is in a wheel. Only the owner of the wheel may touch it.
type Timer struct {
	// Due is when it fires, Unix nanoseconds; set by Insert, to be read only.
	Due int64
	// Owner is the caller's; the wheel does not look at it.
	Owner any

	next, prev *Timer
	// place is 0 when the timer is in no wheel, inHeap when it is in the heap at index, else 1 + its bucket.
	place int32
	index int32
}

const inHeap = math.MaxInt32

// Pending says whether the timer is in a wheel.
func (t *Timer) Pending() bool { return t.place != 0 }

type bucket struct {
	head *Timer
	// min is never after the first due time of the list, and always inside the bucket's own span of time
	// (a cancelled timer may leave it too early, which only makes the owner wake up to look).
	min int64
}

// Wheel holds timers. It is not safe for concurrent use: one goroutine owns it. Its memory is the timers'
// own; how many there may be is bounded by those who insert them.
type Wheel struct {
	// tick is the present one. Every timer of this tick or an earlier one is in near, every other in a bucket.
	tick    uint64
	near    []*Timer // min-heap by Due
	buckets [fine + (levels-1)*coarse]bucket
	// set has a bit for each bucket that is not empty: four words for level 0, one for each other level.
	set [fine/64 + levels - 1]uint64
	len int
}

// New makes an empty wheel whose present is now (Unix nanoseconds).
func New(now int64) *Wheel {
	w := &Wheel{tick: tickOf(now)}
	for i := range w.buckets {
		w.buckets[i].min = math.MaxInt64
	}
	return w
}

// Len is how many timers are pending.
func (w *Wheel) Len() int { return w.len }

func tickOf(ns int64) uint64 { return uint64(max(ns, 0)) / Tick }

// Insert makes t fire at due (Unix nanoseconds); a pending timer is moved. A due time that has passed is
// fired by the next Advance, or by the one that is running.
func (w *Wheel) Insert(t *Timer, due int64) {
	if t.place != 0 {
		w.Cancel(t)
	}
	t.Due = due
	w.len++
	w.put(t)
}

// put links t where it belongs, seen from the present tick.
func (w *Wheel) put(t *Timer) {
	at := tickOf(t.Due)
	if at <= w.tick {
		w.push(t)
		return
	}
	min := t.Due
	var b int
	switch {
	case at>>shift[1] == w.tick>>shift[1]:
		b = int(at % fine)
	case at>>shift[2] == w.tick>>shift[2]:
		b = fine + int(at>>shift[1])%coarse
	case at>>shift[3] == w.tick>>shift[3]:
		b = fine + coarse + int(at>>shift[2])%coarse
	default:
		block := at >> shift[3]
		if last := w.tick>>shift[3] + parked; block > last {
			block = last
			min = int64(block << shift[3] * Tick) // to be placed again then
		}
		b = fine + 2*coarse + int(block%coarse)
	}
	w.link(t, b, min)
}

func (w *Wheel) link(t *Timer, b int, min int64) {
	l := &w.buckets[b]
	t.place, t.prev, t.next = int32(b+1), nil, l.head
	if l.head != nil {
		l.head.prev = t
	}
	l.head = t
	if min < l.min {
		l.min = min
	}
	w.set[b/64] |= 1 << (b % 64)
}

// Cancel takes t out and reports whether it was pending. It may be called from fire, for any timer.
func (w *Wheel) Cancel(t *Timer) bool {
	switch t.place {
	case 0:
		return false
	case inHeap:
		w.remove(int(t.index))
	default:
		b := int(t.place - 1)
		if t.next != nil {
			t.next.prev = t.prev
		}
		if t.prev != nil {
			t.prev.next = t.next
		} else if w.buckets[b].head = t.next; t.next == nil {
			w.empty(b)
		}
		t.next, t.prev = nil, nil
	}
	t.place = 0
	w.len--
	return true
}

func (w *Wheel) empty(b int) {
	w.buckets[b] = bucket{min: math.MaxInt64}
	w.set[b/64] &^= 1 << (b % 64)
}

// Advance makes now the present and fires what is due, in order of due time. fire may insert and cancel
// any timer, its own too; what it inserts that is due by now is fired by this same call. It must not call
// Advance. A now before the present only fires what is already near.
func (w *Wheel) Advance(now int64, fire func(*Timer)) {
	target := tickOf(now)
	for {
		for len(w.near) > 0 && w.near[0].Due <= now {
			t := w.near[0]
			w.remove(0)
			t.place = 0
			w.len--
			fire(t)
		}
		if w.tick >= target {
			return
		}
		b, at := w.nextBucket()
		if b < 0 || at > target {
			w.tick = target // nothing lies between, so no timer changes its place
			continue
		}
		w.tick = at
		t := w.buckets[b].head
		w.empty(b)
		for t != nil {
			next := t.next
			t.next, t.prev = nil, nil
			w.put(t)
			t = next
		}
	}
}

// nextBucket is the first bucket ahead with something in it and the tick at which it begins, or -1.
func (w *Wheel) nextBucket() (int, uint64) {
	if i := nextBit(w.set[:fine/64], int(w.tick%fine)+1); i >= 0 {
		return i, w.tick&^(fine-1) | uint64(i)
	}
	for l := 1; l < levels-1; l++ {
		i := nextBit(w.set[fine/64+l-1:fine/64+l], int(w.tick>>shift[l]%coarse)+1)
		if i >= 0 {
			return fine + (l-1)*coarse + i, w.tick>>shift[l+1]<<shift[l+1] | uint64(i)<<shift[l]
		}
	}
	here := w.tick >> shift[3]
	turned := bits.RotateLeft64(w.set[len(w.set)-1], -int(here%coarse))
	if turned == 0 {
		return -1, 0
	}
	block := here + uint64(bits.TrailingZeros64(turned))
	return fine + 2*coarse + int(block%coarse), block << shift[3]
}

// nextBit is the first set bit at or after from, or -1.
func nextBit(set []uint64, from int) int {
	for i := from / 64; i < len(set); i++ {
		word := set[i]
		if i == from/64 {
			word = word >> (from % 64) << (from % 64)
		}
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// NextDue is when Advance should be called next: the first due time, or a moment before it at which timers must
// be sorted further; never after it. It is false when nothing is pending.
func (w *Wheel) NextDue() (int64, bool) {
	if len(w.near) > 0 {
		return w.near[0].Due, true
	}
	b, _ := w.nextBucket()
	if b < 0 {
		return 0, false
	}
	return w.buckets[b].min, true
}
