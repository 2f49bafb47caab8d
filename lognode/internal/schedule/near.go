package schedule

import (
	"container/heap"
	"math"

	"github.com/splashdam/splashdam/shared/mq"
)

// nearHeap is what was taken out of the order by due time, the first due first, equal ones by number. What was
// cancelled, re-timed or released since is skipped when it comes up.
type nearHeap []mq.Schedule

func (h nearHeap) Len() int { return len(h) }
func (h nearHeap) Less(i, j int) bool {
	return h[i].Due < h[j].Due || h[i].Due == h[j].Due && h[i].Number < h[j].Number
}
func (h nearHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *nearHeap) Push(x any)   { *h = append(*h, x.(mq.Schedule)) }
func (h *nearHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// Take moves what is due by until, the first due first and at most limit, out of the order by due time into the near
// ones, and appends it to dst: the caller reads its messages ahead.
func (b *Book) Take(until int64, limit int, dst []Wanted) []Wanted {
	for ; limit > 0 && len(b.order) > 0 && b.order[0].min <= until; limit-- {
		p := b.order[0]
		for n, due := range p.due {
			if due != p.min || p.isNear(p.idx[n]) {
				continue
			}
			s := mq.Schedule{Number: p.number(n), Due: due}
			dst = append(dst, Wanted{s, p.placeOf(n)})
			p.setNear(p.idx[n], true)
			heap.Push(&b.near, s)
			b.taken++
			break
		}
		p.measure()
		b.order.fix(p)
	}
	return dst
}

// Untake gives a near one back to the order, because its message could not be read now.
func (b *Book) Untake(number uint64) {
	if p, i := b.find(number); p != nil && p.isNear(p.idx[i]) {
		b.taken--
		p.setNear(p.idx[i], false)
		p.measure()
		b.order.fix(p)
	}
}

// NearDue is the first due time of the near ones, or math.MaxInt64.
func (b *Book) NearDue() int64 {
	b.skip()
	if len(b.near) == 0 {
		return math.MaxInt64
	}
	return b.near[0].Due
}

// Due takes the first of the near ones that are due by now; false if there is none. It stays pending: the caller
// releases it, or keeps it until it can, and then asks Holds.
func (b *Book) Due(now int64) (mq.Schedule, bool) {
	b.skip()
	if len(b.near) == 0 || b.near[0].Due > now {
		return mq.Schedule{}, false
	}
	return heap.Pop(&b.near).(mq.Schedule), true
}

// Undue gives back what Due gave: it is not due after all, as the time was wrong.
func (b *Book) Undue(s mq.Schedule) { heap.Push(&b.near, s) }

// Holds says whether a near schedule is pending still, due when it was.
func (b *Book) Holds(s mq.Schedule) bool {
	p, i := b.find(s.Number)
	return p != nil && p.isNear(p.idx[i]) && p.due[i] == s.Due
}

// skip drops what is stale from the top, and everything stale once that is most of the heap.
func (b *Book) skip() {
	if len(b.near) > 2*b.taken+1024 {
		kept := b.near[:0]
		for _, s := range b.near {
			if b.Holds(s) {
				kept = append(kept, s)
			}
		}
		b.near = kept
		heap.Init(&b.near)
	}
	for len(b.near) > 0 && !b.Holds(b.near[0]) {
		heap.Pop(&b.near)
	}
}
