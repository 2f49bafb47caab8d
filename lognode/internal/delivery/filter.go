package delivery

import (
	"github.com/splashdam/splashdam/shared/mq"
)

// A group with a filter gets only messages whose headers match. The machine knows no headers: before it hands out what
// is fresh it asks for a look ahead (WhyUnseen, Unseen), and is told which messages of a range are wanted (Seen). The
// others are settled at once, with one record for many, so that what does not match costs a look and no lease
// (museum 33). Up to where the filter has looked is not in the journal: the next leader looks again at what is fresh,
// which is little, since what was looked at and not wanted is settled.

// Range is offsets in a row.
type Range struct{ First, Count uint64 }

// Window is what a filter has to look at: the messages from From (inclusive) to (exclusive).
type Window struct {
	Filter     mq.Filter
	From, To   uint64
	version    uint64
	generation uint64
}

// Unseen is what the filter of a group has not looked at; false if that is nothing, or the group has none, or can
// be given nothing fresh.
func (m *Machine) Unseen(id mq.GroupID) (Window, bool) {
	g := m.groups[id]
	if g == nil || g.full() || !g.unseen() {
		return Window{}, false
	}
	return Window{Filter: g.Settings.Filter, From: g.lookFrom(), To: m.committed, version: g.Version, generation: g.generation}, true
}

// Seen says which messages of a window are wanted, by ascending offset; w.To may have been lowered to where the look
// ended. It settles the others. A window that was overtaken by other settings, a seek or another look is a no-op.
func (m *Machine) Seen(now int64, id mq.GroupID, w Window, wanted []Range) {
	g := m.groups[id]
	if !m.leading || g == nil || g.Version != w.version || g.generation != w.generation || w.From > g.lookFrom() || w.To <= g.seen {
		return
	}
	for _, s := range g.unwanted(max(w.From, g.seen), min(w.To, m.committed), wanted) {
		m.note(g, now, outFiltered, now, "", mark{first: s.from, count: s.to - s.from})
		g.skip(s.from, s.to-s.from)
	}
	g.seen = min(w.To, m.committed)
	g.more = true
	m.touch(g)
	m.done()
}

// unwanted are the fresh offsets of a range that are not among the wanted ones.
func (g *group) unwanted(from, to uint64, wanted []Range) (out []span) {
	add := func(from, to uint64) {
		if n := len(out); n > 0 && out[n-1].to == from {
			out[n-1].to = to
		} else if from < to {
			out = append(out, span{from, to})
		}
	}
	g.eachFresh(from, to, func(s span) bool {
		for len(wanted) > 0 && wanted[0].First < s.to {
			w := wanted[0]
			if end := w.First + w.Count; end > s.from {
				add(s.from, max(w.First, s.from))
				s.from = max(s.from, end)
			}
			if w.First+w.Count > s.to {
				return true // it reaches into the next one
			}
			wanted = wanted[1:]
		}
		if s.from < s.to {
			add(s.from, s.to)
		}
		return true
	})
	return out
}

// skip settles the fresh messages of a range as not wanted.
func (g *group) skip(first, count uint64) {
	to := min(first+count, g.m.committed)
	for l := range mq.Lane(mq.Lanes) {
		g.tally.filtered += g.takeRange(l, first, to)
	}
	g.m.touch(g)
}

// lookFrom is where the filter has to look next.
func (g *group) lookFrom() uint64 { return max(g.seen, g.lowFresh()) }

// unseen says whether the filter has something to look at.
func (g *group) unseen() bool {
	return len(g.Settings.Filter) > 0 && g.seen < g.m.committed && g.seenCount() < g.freshCount()
}

// looks says whether the filter should look ahead before n messages are handed out.
func (g *group) looks(n int) bool {
	return len(g.Settings.Filter) > 0 && !g.full() && g.unseen() && uint64(g.count[StateReady])+g.seenCount() < uint64(n)
}

// limit is the offset from which on what is fresh may not be handed out.
func (g *group) limit() uint64 {
	if len(g.Settings.Filter) == 0 {
		return g.m.committed
	}
	return min(g.seen, g.m.committed)
}

// seenIn is how many fresh messages of a lane may be handed out.
func (g *group) seenIn(l mq.Lane) uint64 {
	if len(g.Settings.Filter) == 0 {
		return g.left[l]
	}
	return g.freshBelow(l, g.seen)
}

// seenCount is seenIn over all lanes.
func (g *group) seenCount() uint64 {
	if len(g.Settings.Filter) == 0 {
		return g.freshCount()
	}
	n := uint64(0)
	for l := range mq.Lane(mq.Lanes) {
		n += g.seenIn(l)
	}
	return n
}
