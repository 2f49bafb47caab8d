package delivery

import (
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// A hole is a range of offsets that hold no messages and never will, because it was lost and is recorded as such in the
// partition's chain (replication rule R6). To a group it is as if the range were not there: no offset in it is fresh,
// handed out, counted or listed. Holes are known from the chain, neither from records nor from checkpoints, so whoever
// loads the journal says which there are before anything is applied.

// Hole says that the offsets from (inclusive) to (exclusive) are a hole. Call it for every hole of the chain before
// entries are applied, or UnknownLanes asked for; one that is known is passed over. What groups had out of the range
// is forgotten.
func (m *Machine) Hole(from, to uint64) {
	c := &m.lanes
	if from >= to || to <= c.base {
		return
	}
	c.addHole(span{from, to})
	for _, g := range m.groups {
		for _, off := range g.offsets(func(off uint64, _ *message) bool { return from <= off && off < to }) {
			x := g.out[off]
			g.leave(x)
			g.remove(off, x)
		}
		if m.unknown == 0 {
			g.rejoin()
			g.recount()
		}
		if g.keyed != nil {
			g.rekey()
		}
		m.touch(g)
	}
	m.done()
}

// addHole adds a hole, joined with those that it touches.
func (c *catalog) addHole(s span) {
	out := c.holes[:0:0]
	for _, h := range c.holes {
		if h.to < s.from || s.to < h.from {
			out = append(out, h)
		} else {
			s = span{min(s.from, h.from), max(s.to, h.to)}
		}
	}
	c.holes = append(out, s)
	slices.SortFunc(c.holes, func(a, b span) int {
		if a.from < b.from {
			return -1
		}
		return 1
	})
}

// lost says whether an offset lies in a hole.
func (c *catalog) lost(off uint64) bool {
	for _, h := range c.holes {
		if h.from <= off && off < h.to {
			return true
		}
	}
	return false
}

// lostIn is how many offsets from (inclusive) to (exclusive) lie in holes.
func (c *catalog) lostIn(from, to uint64) (n uint64) {
	for _, h := range c.holes {
		if a, b := max(from, h.from), min(to, h.to); a < b {
			n += b - a
		}
	}
	return n
}

// around calls f with the pieces of a range that lie between holes, in order.
func (c *catalog) around(from, to uint64, f func(from, to uint64)) {
	for _, h := range c.holes {
		if h.to <= from || to <= h.from {
			continue
		}
		if from < h.from {
			f(from, h.from)
		}
		from = h.to
	}
	if from < to {
		f(from, to)
	}
}

// nextAround is next where there are holes.
func (c *catalog) nextAround(l mq.Lane, off uint64) (uint64, bool) {
	for _, h := range c.holes {
		at, ok := c.nextOf(l, off)
		if !ok || at < h.from {
			return at, ok
		}
		if off = at; at < h.to {
			off = h.to
		}
	}
	return c.nextOf(l, off)
}

// prevAround is prev where there are holes.
func (c *catalog) prevAround(l mq.Lane, off uint64) (uint64, bool) {
	for _, h := range slices.Backward(c.holes) {
		at, ok := c.prevOf(l, off)
		if !ok || at >= h.to {
			return at, ok
		}
		if off = at + 1; at >= h.from {
			off = h.from
		}
	}
	return c.prevOf(l, off)
}

// runAround is run where there are holes.
func (c *catalog) runAround(l mq.Lane, off, n uint64) uint64 {
	for _, h := range c.holes {
		if off < h.from {
			n = min(n, h.from-off)
			break
		}
	}
	return c.runOf(l, off, n)
}

// countAround is count where there are holes.
func (c *catalog) countAround(l mq.Lane, from, to uint64) (n uint64) {
	c.around(from, to, func(from, to uint64) { n += c.countOf(l, from, to) })
	return n
}

// forgetHoles takes the holes below base out of the catalog, because the segments before them are gone.
func (c *catalog) forgetHoles(base uint64) {
	for len(c.holes) > 0 && c.holes[0].to <= base {
		c.holes = c.holes[1:]
	}
}

// checkHoles tests that the holes are in order and hold nothing.
func (m *Machine) checkHoles() error {
	at := uint64(0)
	for i, h := range m.lanes.holes {
		if h.to <= h.from || i > 0 && h.from <= at {
			return fmt.Errorf("hole %d to %d after %d", h.from, h.to, at)
		}
		at = h.to
	}
	for _, g := range m.groups {
		for off := range g.out {
			if m.lanes.lost(off) {
				return fmt.Errorf("offset %d of group %d lies in a hole and is out", off, g.ID)
			}
		}
	}
	return nil
}
