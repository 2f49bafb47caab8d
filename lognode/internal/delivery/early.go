package delivery

import "slices"

// span is the offsets from (inclusive) to (exclusive).
type span struct{ from, to uint64 }

// early is a sorted list of spans that neither overlap nor touch: the offsets at or above a group's fresh pointer
// that are not fresh. It is empty but for a while after a failover, and bounded by what the leader before
// had out when it died.
type early struct {
	spans []span
	count uint64
}

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

func (e *early) has(off uint64) bool {
	if len(e.spans) == 0 {
		return false
	}
	i := e.at(off)
	return i < len(e.spans) && e.spans[i].from <= off
}

// add takes an offset that it does not have.
func (e *early) add(off uint64) {
	i := e.at(off)
	e.count++
	before := i > 0 && e.spans[i-1].to == off
	after := i < len(e.spans) && e.spans[i].from == off+1
	switch {
	case before && after:
		e.spans[i-1].to = e.spans[i].to
		e.spans = slices.Delete(e.spans, i, i+1)
	case before:
		e.spans[i-1].to++
	case after:
		e.spans[i].from--
	default:
		e.spans = slices.Insert(e.spans, i, span{off, off + 1})
	}
}

// advance forgets what is below fresh and returns fresh moved over the span that begins there.
func (e *early) advance(fresh uint64) uint64 {
	n := 0
	for n < len(e.spans) && e.spans[n].from <= fresh {
		s := e.spans[n]
		e.count -= s.to - s.from
		fresh = max(fresh, s.to)
		n++
	}
	e.spans = slices.Delete(e.spans, 0, n)
	return fresh
}
