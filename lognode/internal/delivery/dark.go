package delivery

import (
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// The dark range. Lanes are learnt from the segments. Where retention has removed one since the checkpoint was made, nobody
// knows the lanes of its messages any more, so nobody can say which of those that are not out were fresh in the
// checkpoint. The records that follow can: one that names such a message is about one that was fresh, since nothing is
// written about what is settled and a checkpoint's leader had nothing left to write. So in replay a dark offset is as in a hole until a record
// names it. All of it is below what is kept: the first Drop of the new leader ends it. What nobody has named till then, as
// the leader before has not lived to write what it dropped, is gone without being counted.

// darken makes the offsets whose lanes could not be learnt dark, when the journal that is left begins at first.
func (m *Machine) darken(first uint64) {
	c := &m.lanes
	if m.dark.to = min(first, m.unknown); m.dark.to <= m.dark.from {
		m.dark = span{}
		return
	}
	c.around(m.dark.from, m.dark.to, func(from, to uint64) { c.holes = append(c.holes, span{from, to}) })
	slices.SortFunc(c.holes, func(a, b span) int {
		if a.from < b.from {
			return -1
		}
		return 1
	})
	for _, g := range m.groups {
		g.settled = slices.Min(g.fresh[:])
		for l := range mq.Lane(mq.Lanes) {
			spans := g.early[l].spans
			m.spans -= len(spans)
			g.early[l].spans = nil
			g.takeSpans(l, spans)
		}
	}
}

// takeSpans takes what is fresh of a lane in some spans. What lies between two may be lost by now, so they are taken one by
// one.
func (g *group) takeSpans(l mq.Lane, spans []span) {
	for _, s := range spans {
		for off, ok := g.nextFresh(l, s.from); ok && off < s.to; off, ok = g.nextFresh(l, off) {
			g.takeFresh(l, off, g.freshRun(l, off, s.to-off))
		}
	}
}

// isDark says whether a message that is not out is one of which only a record can say that it was fresh.
func (g *group) isDark(off uint64) bool {
	d := &g.m.dark
	return d.has(off) && off >= max(g.settled, g.Start)
}

// darkIn is how many offsets of a range are so.
func (g *group) darkIn(first, to uint64) (n uint64) {
	for off := max(first, g.m.dark.from); off < min(to, g.m.dark.to); off++ {
		if g.isDark(off) && g.out[off] == nil {
			n++
		}
	}
	return n
}

// endDark forgets the dark range, once all of it is below what is kept.
func (m *Machine) endDark(base uint64) {
	if m.dark.to > 0 && base >= m.dark.to {
		m.dark = span{}
	}
}
