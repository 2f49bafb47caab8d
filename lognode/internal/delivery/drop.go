package delivery

import (
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Drop removes what lies below base and was not carried from every group, because retention has removed the messages. What was not settled
// is counted as dropped and says so in the trace.
func (m *Machine) Drop(now int64, base uint64) {
	if !m.leading {
		return
	}
	base = min(base, m.committed)
	for _, g := range m.sorted() {
		spans := g.unsettledBelow(base)
		for _, s := range spans {
			x := mark{first: s.from, count: s.to - s.from}
			m.note(g, now, outDropped, now, "", x)
			g.drop(x.first, x.count)
		}
		if len(spans) > 0 && g.keyed != nil {
			g.rekey()
		}
		for l := range g.fresh { // so that no pointer stays where the lanes are no longer known
			if g.fresh[l] < base {
				g.setFresh(mq.Lane(l), base)
			}
		}
	}
	m.lanes.forgetHoles(base)
	m.lanes.trim(base)
	m.done()
}

// drop forgets the messages from first on, but for those that were carried.
func (g *group) drop(first, count uint64) {
	to := min(first+count, g.m.committed)
	forget := func(off uint64, x *message) {
		if _, carried := g.m.carried[off]; carried {
			return
		}
		g.leave(x)
		g.remove(off, x)
		g.tally.dropped++
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
	for l := range mq.Lane(mq.Lanes) {
		g.tally.dropped += g.takeRange(l, first, to)
	}
	if len(g.m.carried) == 0 { // else one of them may be unsettled, and cursor finds out
		g.lowest = max(g.lowest, min(to, g.lowFresh()))
	}
	g.m.touch(g)
}

// takeRange takes the fresh messages of a lane from first (inclusive) to (exclusive) and says how many there were.
func (g *group) takeRange(l mq.Lane, first, to uint64) (taken uint64) {
	if low, ok := g.nextFresh(l, 0); g.left[l] == 0 || !ok || low >= to {
		return 0
	} else if low >= first { // nothing below: the pointer moves over all of it
		n := g.freshBelow(l, to)
		g.left[l] -= n
		g.setFresh(l, to)
		return n
	}
	for off, ok := g.nextFresh(l, first); ok && off < to; off, ok = g.nextFresh(l, off) {
		n := g.freshRun(l, off, to-off)
		taken += n
		g.takeFresh(l, off, n)
	}
	return taken
}

// maxDropSpans is how many spans a Drop writes at most for a group. The last one then reaches to the end: it says the
// same, because only what is not settled is dropped, but a trace of what was settled in it would say so too.
const maxDropSpans = 1000

// unsettledBelow is the spans below base that are not settled, in order.
func (g *group) unsettledBelow(base uint64) (out []span) {
	offsets := g.offsets(func(off uint64, x *message) bool {
		_, carried := g.m.carried[off]
		return off < base && !carried
	})
	add := func(s span) bool {
		if n := len(out); n > 0 && out[n-1].to == s.from {
			out[n-1].to = s.to
		} else if n == maxDropSpans {
			out[n-1].to = base
		} else {
			out = append(out, s)
		}
		return out[len(out)-1].to < base
	}
	from := uint64(0)
	for _, off := range offsets {
		g.eachFresh(from, off, add)
		if !add(span{off, off + 1}) {
			return out
		}
		from = off + 1
	}
	g.eachFresh(from, base, add)
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
