package delivery

import "slices"

// Drop removes what lies below base from every group, because retention has removed the messages. What was not settled
// is counted as dropped and says so in the trace.
func (m *Machine) Drop(now int64, base uint64) {
	if !m.leading {
		return
	}
	base = min(base, m.committed)
	for _, g := range m.sorted() {
		for _, s := range g.unsettledBelow(base) {
			x := mark{first: s.from, count: s.to - s.from}
			m.note(g, now, outDropped, now, "", x)
			g.drop(x.first, x.count)
		}
	}
	m.done()
}

// drop forgets the messages from first on.
func (g *group) drop(first, count uint64) {
	to, fresh := first+count, g.fresh
	untouched := first <= fresh && fresh < to
	forget := func(off uint64, x *message) {
		g.leave(x)
		g.remove(off, x)
		if !untouched || off < fresh { // the others are counted with the fresh ones
			g.dropped++
		}
	}
	if count > uint64(len(g.out)) {
		for off, x := range g.out {
			if off >= first && off < to {
				forget(off, x)
			}
		}
	} else {
		for off := first; off < to; off++ {
			if x := g.out[off]; x != nil {
				forget(off, x)
			}
		}
	}
	if untouched {
		g.dropped += to - fresh
		g.setFresh(to)
	}
	g.lowest = max(g.lowest, min(to, g.fresh))
	g.m.touch(g)
}

// unsettledBelow is the spans below base that are not settled, in order.
func (g *group) unsettledBelow(base uint64) (out []span) {
	offsets := g.offsets(func(off uint64, x *message) bool { return off < base })
	add := func(from, to uint64) {
		if n := len(out); n > 0 && out[n-1].to == from {
			out[n-1].to = to
		} else if from < to {
			out = append(out, span{from, to})
		}
	}
	fresh := g.fresh
	untouched := func(to uint64) {
		for fresh < min(to, base) {
			n := g.untouched(fresh, min(to, base)-fresh)
			add(fresh, fresh+n)
			fresh = g.skipEarly(fresh + n)
		}
	}
	for _, off := range offsets {
		untouched(off)
		add(off, off+1)
	}
	untouched(base)
	return out
}

// offsets are those of the messages that are out and wanted, in order.
func (g *group) offsets(want func(off uint64, x *message) bool) []uint64 {
	var out []uint64
	for off, x := range g.out {
		if want(off, x) {
			out = append(out, off)
		}
	}
	slices.Sort(out)
	return out
}
