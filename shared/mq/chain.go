package mq

import "fmt"

// CheckChain is invariant I5: the positions of a partition's segments neither overlap nor leave a gap, but for recorded
// holes. sealed are the sealed segments that exist, in order, as they were read with the head, whose Last is the newest of
// them; what retention removed before them is not looked at. Nil if it holds. It takes no time to speak of, and whoever reads
// a chain may ask.
func (h *Head) CheckChain(sealed []Segment) error {
	for i := range sealed {
		s := &sealed[i]
		if s.End.Before(s.Base) || s.Held != nil && (s.Held.Before(s.Base) || s.End.Before(*s.Held)) {
			return fmt.Errorf("%s ends at %s, with entries to %s", s, s.End, s.DataEnd())
		}
		if !h.covers(s.DataEnd(), s.End) {
			return fmt.Errorf("%s has entries to %s and ends at %s, and what is between is no recorded hole", s, s.DataEnd(), s.End)
		}
		next := h.Open
		if i+1 < len(sealed) {
			next = &sealed[i+1]
		}
		if next != nil && !h.covers(s.End, next.Base) {
			return fmt.Errorf("%s ends at %s and %s begins at %s, which is no recorded hole", s, s.End, next, next.Base)
		}
	}
	return nil
}

// covers says whether the chain goes on from one position to another over recorded holes only, one after the other; or
// they are the same.
func (h *Head) covers(from, to Position) bool {
	for range len(h.Holes) + 1 {
		if from == to {
			return true
		}
		next := from
		for _, x := range h.Holes {
			if x.From == from && from.Before(x.To) {
				next = x.To
			}
		}
		if next == from {
			return false
		}
		from = next
	}
	return false
}

// Keeps is invariant I1 of one segment: what was known as committed when it ended is before its end, or in a hole that
// was recorded behind that, because an operator went on with what was left (rule R6).
func (h *Head) Keeps(end, committed Position) bool {
	if !end.Before(committed) {
		return true
	}
	for _, x := range h.Holes {
		if x.From == end && !x.To.Before(committed) {
			return true
		}
	}
	return false
}
