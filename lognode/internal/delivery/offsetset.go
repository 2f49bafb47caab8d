package delivery

import (
	"math/bits"
	"slices"
)

// offsetSet is a set of message offsets: a sorted list of chunks of 4096, each a bitmap, or nothing but a mark if it
// is full. What it takes is bounded by 1 bit per offset of the range and 40 bytes per chunk. (A roaring bitmap takes
// less where a lane is very rare, but its search for the next and the next absent value, which is all that a hand-out
// asks, goes through the containers from the first one on.)
type offsetSet struct {
	chunks []chunk
	hint   int // the chunk that was looked at last
}

type chunk struct {
	key  uint64 // offset >> chunkShift
	n    int    // how many are in it
	bits *[chunkWords]uint64
}

const (
	chunkShift = 12
	chunkSize  = 1 << chunkShift
	chunkWords = chunkSize / 64
)

// at is the index of the first chunk that is not before off's, and whether it is that.
func (s *offsetSet) at(off uint64) (int, bool) {
	key := off >> chunkShift
	if s.hint < len(s.chunks) && s.chunks[s.hint].key == key {
		return s.hint, true
	}
	i, ok := slices.BinarySearchFunc(s.chunks, key, func(c chunk, key uint64) int {
		switch {
		case c.key < key:
			return -1
		case c.key > key:
			return 1
		}
		return 0
	})
	if ok {
		s.hint = i
	}
	return i, ok
}

// grow is the chunk of off, made if there is none.
func (s *offsetSet) grow(off uint64) *chunk {
	i, ok := s.at(off)
	if !ok {
		s.chunks = slices.Insert(s.chunks, i, chunk{key: off >> chunkShift, bits: new([chunkWords]uint64)})
	}
	return &s.chunks[i]
}

// set puts n bits of a chunk from low on to what v says.
func (c *chunk) set(low, n uint64, v bool) {
	if c.bits == nil && v {
		return
	}
	c.unmark()
	for n > 0 {
		w, b := low/64, low%64
		take := min(n, 64-b)
		m := ^uint64(0) >> (64 - take) << b
		before := bits.OnesCount64(c.bits[w])
		if v {
			c.bits[w] |= m
		} else {
			c.bits[w] &^= m
		}
		c.n += bits.OnesCount64(c.bits[w]) - before
		low, n = low+take, n-take
	}
	if c.n == chunkSize {
		c.bits = nil
	}
}

// unmark makes a bitmap of a mark.
func (c *chunk) unmark() {
	if c.bits != nil {
		return
	}
	c.bits = new([chunkWords]uint64)
	for i := range c.bits {
		c.bits[i] = ^uint64(0)
	}
}

// recount counts the bits anew after they were set one by one.
func (c *chunk) recount() {
	c.n = 0
	for _, w := range c.bits {
		c.n += bits.OnesCount64(w)
	}
	if c.n == chunkSize {
		c.bits = nil
	}
}

// yield gives what is in both chunks to o, which keeps nothing else.
func (c *chunk) yield(o *chunk) {
	c.unmark()
	o.unmark()
	for i := range c.bits {
		o.bits[i] &= c.bits[i]
		c.bits[i] &^= o.bits[i]
	}
	c.recount()
	o.recount()
}

// has says whether the bit at low is set.
func (c *chunk) has(low uint64) bool { return c.bits == nil || c.bits[low/64]>>(low%64)&1 == 1 }

// next is the first bit at or above low that is v, or chunkSize.
func (c *chunk) next(low uint64, v bool) uint64 {
	if c.bits == nil {
		if v {
			return low
		}
		return chunkSize
	}
	flip := uint64(0)
	if !v {
		flip = ^flip
	}
	for w := low / 64; w < chunkWords; w++ {
		x := c.bits[w] ^ flip
		if w == low/64 {
			x = x >> (low % 64) << (low % 64)
		}
		if x != 0 {
			return w*64 + uint64(bits.TrailingZeros64(x))
		}
	}
	return chunkSize
}

// prev is the last bit below low (up to chunkSize) that is set, or chunkSize.
func (c *chunk) prev(low uint64) uint64 {
	if low == 0 {
		return chunkSize
	}
	if c.bits == nil {
		return low - 1
	}
	w := (low - 1) / 64
	x := c.bits[w] << (63 - (low-1)%64) >> (63 - (low-1)%64)
	for x == 0 && w > 0 {
		w--
		x = c.bits[w]
	}
	if x == 0 {
		return chunkSize
	}
	return w*64 + 63 - uint64(bits.LeadingZeros64(x))
}

// below is how many bits below low (up to chunkSize) are set.
func (c *chunk) below(low uint64) uint64 {
	if c.bits == nil {
		return low
	}
	n := 0
	for w := range low / 64 {
		n += bits.OnesCount64(c.bits[w])
	}
	if b := low % 64; b > 0 {
		n += bits.OnesCount64(c.bits[low/64] << (64 - b))
	}
	return uint64(n)
}

// add adds from (inclusive) to (exclusive).
func (s *offsetSet) add(from, to uint64) {
	for from < to {
		low := from % chunkSize
		n := min(to-from, chunkSize-low)
		if i, ok := s.at(from); n == chunkSize && !ok { // whole chunks are marks
			s.chunks = slices.Insert(s.chunks, i, chunk{key: from >> chunkShift, n: chunkSize})
		} else {
			s.grow(from).set(low, n, true)
		}
		from += n
	}
}

// addAll adds offsets that ascend.
func (s *offsetSet) addAll(offsets []uint64) {
	for len(offsets) > 0 {
		c := s.grow(offsets[0])
		n := 0
		if c.bits == nil { // it has them all
			for n < len(offsets) && offsets[n]>>chunkShift == c.key {
				n++
			}
		} else {
			for n < len(offsets) && offsets[n]>>chunkShift == c.key {
				c.bits[offsets[n]/64%chunkWords] |= 1 << (offsets[n] % 64)
				n++
			}
			c.recount()
		}
		offsets = offsets[n:]
	}
}

// yield gives what is in both sets to o, which keeps nothing else.
func (s *offsetSet) yield(o *offsetSet) {
	for i := range o.chunks {
		c := &o.chunks[i]
		if k, ok := s.at(c.key << chunkShift); ok {
			s.chunks[k].yield(c)
		} else {
			c.n = 0
		}
	}
	o.compact()
}

// compact forgets chunks that nothing is in.
func (s *offsetSet) compact() {
	s.chunks = slices.DeleteFunc(s.chunks, func(c chunk) bool { return c.n == 0 })
}

func (s *offsetSet) has(off uint64) bool {
	i, ok := s.at(off)
	return ok && s.chunks[i].has(off%chunkSize)
}

// next is the lowest one at or above off.
func (s *offsetSet) next(off uint64) (uint64, bool) {
	i, ok := s.at(off)
	low := off % chunkSize
	if !ok {
		low = 0
	}
	for ; i < len(s.chunks); i++ {
		if b := s.chunks[i].next(low, true); b < chunkSize {
			return s.chunks[i].key<<chunkShift + b, true
		}
		low = 0
	}
	return 0, false
}

// prev is the highest one below off.
func (s *offsetSet) prev(off uint64) (uint64, bool) {
	i, ok := s.at(off)
	low := off % chunkSize
	if !ok {
		i, low = i-1, chunkSize
	}
	for ; i >= 0; i-- {
		if b := s.chunks[i].prev(low); b < chunkSize {
			return s.chunks[i].key<<chunkShift + b, true
		}
		low = chunkSize
	}
	return 0, false
}

// run is how many follow one another from off on, which is one of them, at most n. It ends with a chunk.
func (s *offsetSet) run(off, n uint64) uint64 {
	i, ok := s.at(off)
	if !ok {
		return 0
	}
	low := off % chunkSize
	return min(n, s.chunks[i].next(low, false)-low)
}

// count is how many there are from (inclusive) to (exclusive).
func (s *offsetSet) count(from, to uint64) (n uint64) {
	if from >= to {
		return 0
	}
	for i, _ := s.at(from); i < len(s.chunks); i++ {
		c := &s.chunks[i]
		first := c.key << chunkShift
		if first >= to {
			break
		}
		switch {
		case from > first:
			n += c.below(min(to-first, chunkSize)) - c.below(from-first)
		case to-first < chunkSize:
			n += c.below(to - first)
		default:
			n += uint64(c.n)
		}
	}
	return n
}

// trim forgets those below base.
func (s *offsetSet) trim(base uint64) {
	i, ok := s.at(base)
	if ok {
		if s.chunks[i].set(0, base%chunkSize, false); s.chunks[i].n == 0 {
			i++
		}
	}
	// Copied, so that the memory of a long list is given back; once for each segment that is removed.
	s.chunks, s.hint = slices.Clone(s.chunks[i:]), 0
}
