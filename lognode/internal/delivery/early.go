package delivery

import "slices"

// span is the offsets from (inclusive) to (exclusive).
type span struct{ from, to uint64 }

// early is a sorted list of spans that do not overlap: the offsets of one lane at or above a group's fresh pointer for
// it that are not fresh. Only offsets of that lane count: between two spans lies at least one of them that is
// fresh. It is empty but after a failover, where it is bounded by what the leader before had out when it died, and
// in groups that order by key, where it is bounded by the messages that wait behind their key.
type early struct{ spans []span }

// at is the index of the first span that ends after off.
func (e *early) at(off uint64) int {
	i, _ := slices.BinarySearchFunc(e.spans, off, func(s span, off uint64) int {
		if s.to <= off {
			return -1
		}
		return 1
	})
	return i
}

func (e *early) has(off uint64) bool { return len(e.spans) > 0 && e.over(off) != off }

// over is off, or the end of the span that has it.
func (e *early) over(off uint64) uint64 {
	if len(e.spans) == 0 {
		return off
	}
	if i := e.at(off); i < len(e.spans) && e.spans[i].from <= off {
		return e.spans[i].to
	}
	return off
}

// room is how many of n offsets from off on, which it has not, lie before the next span.
func (e *early) room(off, n uint64) uint64 {
	if len(e.spans) == 0 {
		return n
	}
	if i := e.at(off); i < len(e.spans) {
		n = min(n, e.spans[i].from-off)
	}
	return n
}

// add takes offsets that it does not have. before is the offset of the lane that comes before from, after the one
// that comes at or after to (from and to themselves if there are none).
func (e *early) add(from, to, before, after uint64) {
	i := e.at(from)
	joinsBefore := i > 0 && e.spans[i-1].to > before
	joinsAfter := i < len(e.spans) && e.spans[i].from <= after
	switch {
	case joinsBefore && joinsAfter:
		e.spans[i-1].to = e.spans[i].to
		e.spans = slices.Delete(e.spans, i, i+1)
	case joinsBefore:
		e.spans[i-1].to = to
	case joinsAfter:
		e.spans[i].from = from
	default:
		e.spans = slices.Insert(e.spans, i, span{from, to})
	}
}

// shift takes the first span.
func (e *early) shift() span {
	s := e.spans[0]
	e.spans = slices.Delete(e.spans, 0, 1)
	return s
}
