package schedule

import (
	"math"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// pageSize is how many numbers a page covers.
const pageSize = 256

// page holds the pending ones of 256 numbers.
type page struct {
	key   uint64  // number / pageSize
	idx   []uint8 // number % pageSize, ascending
	where []uint8 // place in at, by idx
	due   []int64 // by idx
	// at are the places of the entries that hold the messages, each once, in no order. Some may be of no use any more.
	at  []packed
	low mq.Position // not after the lowest of those in use
	// near has a bit for each number that was taken out of the order by due time.
	near [pageSize / 64]uint64
	min  int64 // the earliest due time of those that are not near, or math.MaxInt64
	heap int   // place in the heap of pages
}

// packed is a position without the gap that a struct of it has: with ten million entries of one message each that is 40 MB.
type packed [3]uint32

func pack(p mq.Position) packed { return packed{uint32(p.Offset >> 32), uint32(p.Offset), p.Seq} }

func (p packed) position() mq.Position {
	return mq.Position{Offset: uint64(p[0])<<32 | uint64(p[1]), Seq: p[2]}
}

// placeOf is where the message of the number at place n is.
func (p *page) placeOf(n int) mq.Position { return p.at[p.where[n]].position() }

func newPage(key uint64) *page {
	return &page{key: key, min: math.MaxInt64, low: mq.Position{Offset: math.MaxUint64}}
}

// pageBytes is how many bytes a page takes in a checkpoint at most; see Book.appendPages.
func pageBytes(live int) int {
	if live == pageSize {
		return 4
	}
	return 4 + min(live, pageSize/8)
}

func (p *page) search(i uint8) (int, bool) {
	if n := len(p.idx); n == 0 || p.idx[n-1] < i { // the usual insert
		return n, false
	}
	return slices.BinarySearch(p.idx, i)
}

func (p *page) number(i int) uint64 { return p.key*pageSize + uint64(p.idx[i]) }

func (p *page) isNear(i uint8) bool { return p.near[i/64]&(1<<(i%64)) != 0 }

func (p *page) setNear(i uint8, near bool) {
	if near {
		p.near[i/64] |= 1 << (i % 64)
	} else {
		p.near[i/64] &^= 1 << (i % 64)
	}
}

// insert adds a number, or puts it to another place.
func (p *page) insert(i uint8, due int64, at mq.Position) {
	place := p.place(at)
	n, found := p.search(i)
	if found {
		p.due[n], p.where[n] = due, place
		p.measure()
		return
	}
	p.idx = slices.Insert(p.idx, n, i)
	p.where = slices.Insert(p.where, n, place)
	p.due = slices.Insert(p.due, n, due)
	p.setNear(i, false)
	p.min = min(p.min, due)
}

// place finds or makes the place of an entry. There is always room: at most 255 other numbers are in the page, and
// what none of them uses goes first.
func (p *page) place(at mq.Position) uint8 {
	is := pack(at)
	if n := len(p.at); n > 0 && p.at[n-1] == is {
		return uint8(n - 1)
	}
	if i := slices.Index(p.at, is); i >= 0 {
		return uint8(i)
	}
	if len(p.at) == pageSize {
		p.compact()
	}
	p.at = append(p.at, is)
	if at.Before(p.low) {
		p.low = at
	}
	return uint8(len(p.at) - 1)
}

// compact forgets the places that nothing uses.
func (p *page) compact() {
	var to [pageSize]int
	for i := range to {
		to[i] = -1
	}
	old := p.at
	p.at = make([]packed, 0, min(len(old), len(p.idx)+1))
	p.low = mq.Position{Offset: math.MaxUint64}
	for i, w := range p.where {
		if to[w] < 0 {
			to[w] = len(p.at)
			p.at = append(p.at, old[w])
			if at := old[w].position(); at.Before(p.low) {
				p.low = at
			}
		}
		p.where[i] = uint8(to[w])
	}
}

// remove takes out the number at place n. Memory is given back as the page empties.
func (p *page) remove(n int) {
	was := !p.isNear(p.idx[n]) && p.due[n] == p.min
	p.setNear(p.idx[n], false)
	p.idx = slices.Delete(p.idx, n, n+1)
	p.where = slices.Delete(p.where, n, n+1)
	p.due = slices.Delete(p.due, n, n+1)
	if live := len(p.idx); cap(p.due) > 16 && live <= cap(p.due)/4 {
		p.idx, p.where, p.due = slices.Clone(p.idx), slices.Clone(p.where), slices.Clone(p.due)
		p.compact()
	}
	if was {
		p.measure()
	}
}

// measure finds the earliest due time of those that are not near.
func (p *page) measure() {
	p.min = math.MaxInt64
	for n, due := range p.due {
		if due < p.min && !p.isNear(p.idx[n]) {
			p.min = due
		}
	}
}

// pageHeap is the pages by their earliest due time; each knows its place.
type pageHeap []*page

func (h *pageHeap) push(p *page) {
	p.heap = len(*h)
	*h = append(*h, p)
	h.up(p.heap)
}

func (h *pageHeap) fix(p *page) {
	h.down(p.heap)
	h.up(p.heap)
}

func (h *pageHeap) remove(p *page) {
	last := len(*h) - 1
	i := p.heap
	moved := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	if i == last {
		return
	}
	(*h)[i] = moved
	moved.heap = i
	h.fix(moved)
}

func (h pageHeap) up(i int) {
	for p := h[i]; i > 0; {
		parent := (i - 1) / 2
		if h[parent].min <= p.min {
			return
		}
		h[i], h[parent] = h[parent], p
		h[i].heap, p.heap = i, parent
		i = parent
	}
}

func (h pageHeap) down(i int) {
	for p := h[i]; ; {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].min < h[child].min {
			child++
		}
		if p.min <= h[child].min {
			return
		}
		h[i], h[child] = h[child], p
		h[i].heap, p.heap = i, child
		i = child
	}
}
