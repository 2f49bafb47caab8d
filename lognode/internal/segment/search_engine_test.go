package segment

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/splashdam/splashdam/shared/mq"
)

// step is one thing that may happen next: who does what to which segment.
type step struct {
	kind          uint8
	slot, node, x uint8
}

func (s step) pack() uint32 { return binary.LittleEndian.Uint32([]byte{s.kind, s.slot, s.node, s.x}) }

func unpack(v uint32) step {
	return step{uint8(v), uint8(v >> 8), uint8(v >> 16), uint8(v >> 24)}
}

// hashes is a set of the hashes of states. Two states of the same 64 bits would be taken as one; with a few
// million states that is less likely than a failing memory.
type hashes struct {
	slots []uint64
	n     int
}

func (h *hashes) add(v uint64) bool {
	if v == 0 {
		v = 1
	}
	if 2*h.n >= len(h.slots) {
		old := h.slots
		h.slots, h.n = make([]uint64, max(1<<12, 2*len(old))), 0
		for _, v := range old {
			if v != 0 {
				h.add(v)
			}
		}
	}
	for i := v & uint64(len(h.slots)-1); ; i = (i + 1) & uint64(len(h.slots)-1) {
		switch h.slots[i] {
		case v:
			return false
		case 0:
			h.slots[i] = v
			h.n++
			return true
		}
	}
}

// search visits states breadth first, so that the first violation has a shortest way to it.
type search struct {
	rules
	most int // states
	seed maphash.Seed
	seen hashes
	// How each state was reached, in the order of discovery; the states themselves are kept while they wait.
	parents []int32
	steps   []uint32
	waiting [][]byte
	depth   int
	buf     []byte
	arena   []byte
	answers map[mq.StoreID]mq.Position // scratch of ended
	holders []Found                    // scratch of lose

	scratch world
	found   string // the violation
	foundAt int32
	every   bool // all states were visited, not only the first ones
}

// first is the world in which the search begins.
func (s *search) first() *world {
	if s.lacking {
		return lackingWorld()
	}
	return firstWorld()
}

func newSearch(r rules, most int) *search {
	return &search{rules: r, most: most, seed: maphash.MakeSeed(), answers: map[mq.StoreID]mq.Position{}}
}

// next is a copy of a world to be changed and emitted.
func (s *search) next(w *world) *world {
	w.copyTo(&s.scratch)
	return &s.scratch
}

func (s *search) keep(b []byte) []byte {
	if len(s.arena) < len(b) {
		s.arena = make([]byte, 1<<20)
	}
	n := copy(s.arena, b)
	out := s.arena[:n:n]
	s.arena = s.arena[n:]
	return out
}

// run returns the violation, or "" if there was none among the states visited.
func (s *search) run() string {
	s.buf = encode(s.first(), s.buf)
	s.seen.add(maphash.Bytes(s.seed, s.buf))
	s.parents, s.steps = []int32{-1}, []uint32{0}
	s.waiting = [][]byte{s.keep(s.buf)}
	index := int32(0)
	var w world
	for len(s.waiting) > 0 {
		level := s.waiting
		s.waiting = nil
		for i, b := range level {
			if level[i] = nil; len(s.parents) >= s.most {
				return ""
			}
			decode(b, &w)
			s.successors(&w, func(y *world, st step) bool { return s.visit(y, st, index) })
			if index++; s.found != "" {
				return s.found
			}
		}
		s.depth++
	}
	s.every = true
	return ""
}

// visit takes up a state that can follow state number parent; false ends the search.
func (s *search) visit(y *world, st step, parent int32) bool {
	if s.found != "" {
		return false
	}
	s.buf = encode(y, s.buf)
	if !s.seen.add(maphash.Bytes(s.seed, s.buf)) && y.broken == "" {
		return true
	}
	s.parents = append(s.parents, parent)
	s.steps = append(s.steps, st.pack())
	s.waiting = append(s.waiting, s.keep(s.buf))
	if s.found = s.violation(y); s.found != "" {
		s.foundAt = int32(len(s.parents) - 1)
		return false
	}
	return true
}

// trace tells the steps to the violation.
func (s *search) trace() (lines []string) {
	var way []step
	for i := s.foundAt; i > 0; i = s.parents[i] {
		way = append([]step{unpack(s.steps[i])}, way...)
	}
	w := s.first()
	for i, st := range way {
		text := s.describe(w, st)
		taken := false
		s.successors(w, func(y *world, have step) bool {
			if have == st {
				var z world
				y.copyTo(&z)
				w, taken = &z, true
				w.bind()
			}
			return !taken
		})
		if !taken {
			panic("the way to the violation can't be walked again: " + text)
		}
		lines = append(lines, fmt.Sprintf("%2d. %s", i+1, text))
	}
	return lines
}

func (s *search) report() string {
	return s.found + "\n" + strings.Join(s.trace(), "\n")
}
