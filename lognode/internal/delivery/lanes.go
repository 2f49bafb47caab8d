package delivery

import (
	"math"

	"github.com/splashdam/splashdam/shared/mq"
)

// catalog says in which lane each offset is. While every message is in the normal lane it holds nothing and
// answers without looking; with the first other one it holds a bitmap for each lane. It is not state of the journal's
// records but of its messages: who loads a checkpoint fills it (UnknownLanes) from the segments.
//
// Offsets that it was not told of are normal.
type catalog struct {
	used  bool
	lanes [mq.Lanes]offsetSet
	// base and end are what it covers: the lowest offset that is kept, and the next one to be added.
	base, end uint64
	// holes hold no messages, in no lane; see holes.go.
	holes []span
}

// add takes the lanes of the messages from first on, in ascending order of calls; nil if all are normal.
func (c *catalog) add(first, count uint64, lanes []mq.Lane) {
	if first < c.end { // told already: a checkpoint that is ahead of its journal
		skip := min(c.end-first, count)
		first, count = first+skip, count-skip
		if lanes != nil {
			lanes = lanes[skip:]
		}
	}
	if !c.used && lanes != nil && count > 0 {
		c.used = true
		c.around(c.base, c.end, c.lanes[mq.LaneNormal].add)
	}
	if c.used {
		c.fill(first, count, lanes)
	}
	c.end = max(c.end, first+count)
}

func (c *catalog) fill(first, count uint64, lanes []mq.Lane) {
	c.around(max(c.end, c.base), first, c.lanes[mq.LaneNormal].add)
	if lanes == nil {
		c.lanes[mq.LaneNormal].add(first, first+count)
		return
	}
	for i := uint64(0); i < count; {
		n := i + 1
		for n < count && lanes[n] == lanes[i] {
			n++
		}
		c.lanes[lanes[i]].add(first+i, first+n)
		i = n
	}
}

// learnt takes what was put into the lanes other than the normal one by offset, while the catalog did not look at them: all else
// up to next, or to the last one of them, is normal.
func (c *catalog) learnt(next uint64) {
	_, to := c.special()
	c.end = max(c.end, next, to)
	if c.used = to > 0; !c.used {
		return
	}
	normal := &c.lanes[mq.LaneNormal]
	c.around(c.base, c.end, normal.add)
	for l := range c.lanes {
		if mq.Lane(l) != mq.LaneNormal {
			normal.yield(&c.lanes[l])
		}
	}
	normal.compact()
}

// of is the lane of an offset.
func (c *catalog) of(off uint64) mq.Lane {
	if !c.used {
		return mq.LaneNormal
	}
	return c.find(off)
}

func (c *catalog) find(off uint64) mq.Lane {
	for l := range mq.Lane(mq.Lanes) {
		if l != mq.LaneNormal && c.lanes[l].has(off) {
			return l
		}
	}
	return mq.LaneNormal
}

// next is the lowest offset of a lane at or above off.
func (c *catalog) next(l mq.Lane, off uint64) (uint64, bool) {
	if len(c.holes) > 0 {
		return c.nextAround(l, off)
	}
	return c.nextOf(l, off)
}

func (c *catalog) nextOf(l mq.Lane, off uint64) (uint64, bool) {
	if !c.used {
		return off, l == mq.LaneNormal
	}
	if l == mq.LaneNormal && (off < c.base || off >= c.end) {
		return off, true
	}
	if at, ok := c.lanes[l].next(off); ok {
		return at, true
	}
	return c.end, l == mq.LaneNormal
}

// prev is the highest offset of a lane below off.
func (c *catalog) prev(l mq.Lane, off uint64) (uint64, bool) {
	if len(c.holes) > 0 {
		return c.prevAround(l, off)
	}
	return c.prevOf(l, off)
}

func (c *catalog) prevOf(l mq.Lane, off uint64) (uint64, bool) {
	if !c.used || l == mq.LaneNormal && (off <= c.base || off > c.end) {
		return off - 1, l == mq.LaneNormal && off > 0
	}
	if at, ok := c.lanes[l].prev(off); ok {
		return at, true
	}
	return c.base - 1, l == mq.LaneNormal && c.base > 0
}

// run is how many offsets of a lane follow one another from off on, which is in it, at most n. It may say less.
func (c *catalog) run(l mq.Lane, off, n uint64) uint64 {
	if len(c.holes) > 0 {
		return c.runAround(l, off, n)
	}
	return c.runOf(l, off, n)
}

func (c *catalog) runOf(l mq.Lane, off, n uint64) uint64 {
	switch {
	case !c.used || off >= c.end:
		return n
	case off < c.base:
		return min(n, c.base-off)
	}
	return c.lanes[l].run(off, n)
}

// count is how many offsets from (inclusive) to (exclusive) are in a lane.
func (c *catalog) count(l mq.Lane, from, to uint64) uint64 {
	if len(c.holes) > 0 {
		return c.countAround(l, from, to)
	}
	return c.countOf(l, from, to)
}

func (c *catalog) countOf(l mq.Lane, from, to uint64) uint64 {
	if from >= to {
		return 0
	}
	if !c.used {
		if l == mq.LaneNormal {
			return to - from
		}
		return 0
	}
	n := c.lanes[l].count(from, min(to, c.end))
	if l == mq.LaneNormal { // what it was not told of
		n += max(to, c.end) - max(from, c.end) + min(to, c.base) - min(from, c.base)
	}
	return n
}

// counts is count for every lane.
func (c *catalog) counts(from, to uint64) (n [mq.Lanes]uint64) {
	if !c.used {
		n[mq.LaneNormal] = to - min(from, to) - c.lostIn(from, to)
		return n
	}
	for l := range mq.Lane(mq.Lanes) {
		n[l] = c.count(l, from, to)
	}
	return n
}

// trim forgets what lies below base.
func (c *catalog) trim(base uint64) {
	base = min(base, c.end)
	if base <= c.base {
		return
	}
	c.base = base
	if !c.used {
		return
	}
	for l := range c.lanes {
		c.lanes[l].trim(base)
	}
	if from, to := c.special(); from == to {
		*c = catalog{base: c.base, end: c.end, holes: c.holes}
	}
}

// special is the range of offsets outside of which all are normal; empty if all are.
func (c *catalog) special() (from, to uint64) {
	from = math.MaxUint64
	for l := range mq.Lane(mq.Lanes) {
		if l == mq.LaneNormal {
			continue
		}
		if off, ok := c.lanes[l].next(0); ok {
			from = min(from, off)
			last, _ := c.lanes[l].prev(math.MaxUint64)
			to = max(to, last+1)
		}
	}
	return min(from, to), to
}
