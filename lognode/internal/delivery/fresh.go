package delivery

import "github.com/splashdam/splashdam/shared/mq"

// What is fresh (committed and untouched) in a group. Each lane has a pointer of its own, so that a group which handed
// out ten million urgent messages in front of others remembers five numbers: an offset of lane l is fresh if it is
// committed, at or above fresh[l], and not early. left counts them.

// nextFresh is the lowest fresh offset of a lane at or above off.
func (g *group) nextFresh(l mq.Lane, off uint64) (uint64, bool) {
	off = max(off, g.fresh[l])
	for {
		var ok bool
		if off, ok = g.m.lanes.next(l, off); !ok || off >= g.m.committed {
			return 0, false
		}
		to := g.early[l].over(off)
		if to == off {
			return off, true
		}
		off = to
	}
}

// freshRun is how many fresh offsets of a lane follow one another from off on, which is one, at most n.
func (g *group) freshRun(l mq.Lane, off, n uint64) uint64 {
	n = min(n, g.m.committed-off)
	n = g.early[l].room(off, n)
	return g.m.lanes.run(l, off, n)
}

// isFresh says whether an offset of lane l is fresh, if it is committed.
func (g *group) isFresh(l mq.Lane, off uint64) bool {
	return off >= g.fresh[l] && !g.early[l].has(off) && !g.m.lanes.lost(off)
}

// takeFresh marks n fresh offsets of a lane in a row as fresh no more.
func (g *group) takeFresh(l mq.Lane, off, n uint64) {
	g.left[l] -= min(n, g.left[l])
	if first, ok := g.m.lanes.next(l, g.fresh[l]); !ok || first >= off {
		g.setFresh(l, off+n)
		return
	}
	before, hasBefore := g.m.lanes.prev(l, off)
	after, hasAfter := g.m.lanes.next(l, off+n)
	g.m.spans -= len(g.early[l].spans)
	if !hasBefore {
		before = off
	}
	if !hasAfter {
		after = off + n
	}
	g.early[l].add(off, off+n, before, after)
	g.m.spans += len(g.early[l].spans)
}

// setFresh moves a lane's pointer, and on over what is early there.
func (g *group) setFresh(l mq.Lane, off uint64) {
	g.fresh[l] = off
	e := &g.early[l]
	if len(e.spans) == 0 {
		return
	}
	g.m.spans -= len(e.spans)
	for len(e.spans) > 0 {
		if first, ok := g.m.lanes.next(l, g.fresh[l]); ok && first < e.spans[0].from {
			break
		}
		g.fresh[l] = max(g.fresh[l], e.shift().to)
	}
	g.m.spans += len(e.spans)
}

// rejoin makes one of early spans between which nothing is fresh any more, because what was is in a hole now.
func (g *group) rejoin() {
	for l := range mq.Lane(mq.Lanes) {
		e := &g.early[l]
		g.m.spans -= len(e.spans)
		kept := e.spans[:0]
		at := g.fresh[l]
		for _, s := range e.spans {
			switch n := len(kept); {
			case g.m.lanes.count(l, at, s.from) > 0:
				kept = append(kept, s)
			case n > 0:
				kept[n-1].to = s.to
			default:
				g.fresh[l] = s.to
			}
			at = s.to
		}
		e.spans = kept
		g.m.spans += len(kept)
	}
}

// freshBelow is how many fresh offsets of a lane lie below to.
func (g *group) freshBelow(l mq.Lane, to uint64) uint64 {
	to = min(to, g.m.committed)
	n := g.m.lanes.count(l, g.fresh[l], to)
	for _, s := range g.early[l].spans {
		if s.from >= to {
			break
		}
		n -= g.m.lanes.count(l, max(s.from, g.fresh[l]), min(s.to, to))
	}
	return n
}

// recount counts what is fresh anew: after the lanes below were learnt, or the pointers were set.
func (g *group) recount() {
	for l := range mq.Lane(mq.Lanes) {
		g.left[l] = g.freshBelow(l, g.m.committed)
	}
}

// lowFresh is the lowest fresh offset of any lane, or the end of what is committed.
func (g *group) lowFresh() uint64 {
	low := g.m.committed
	for l := range mq.Lane(mq.Lanes) {
		if g.left[l] == 0 {
			continue
		}
		if off, ok := g.nextFresh(l, 0); ok {
			low = min(low, off)
		}
	}
	return low
}

// freshCount is how many committed messages of g are untouched.
func (g *group) freshCount() (n uint64) {
	for _, left := range g.left {
		n += left
	}
	return n
}

// eachFresh calls f with runs of fresh offsets from (inclusive) to (exclusive) over all lanes, in order, until it
// returns false.
func (g *group) eachFresh(from, to uint64, f func(span) bool) {
	for from < to {
		low, lane := to, mq.Lane(mq.Lanes)
		for l := range mq.Lane(mq.Lanes) {
			if g.left[l] == 0 {
				continue
			}
			if off, ok := g.nextFresh(l, from); ok && off < low {
				low, lane = off, l
			}
		}
		if lane == mq.Lanes {
			return
		}
		from = low + g.freshRun(lane, low, to-low)
		if !f(span{low, from}) {
			return
		}
	}
}

// advance makes the messages below next visible.
func (m *Machine) advance(next uint64) {
	if next <= m.committed {
		return
	}
	n := m.lanes.counts(m.committed, next)
	m.committed = next
	for _, g := range m.groups {
		for l := range n {
			g.left[l] += n[l]
		}
	}
}
