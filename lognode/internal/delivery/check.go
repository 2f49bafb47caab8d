package delivery

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// Check tests the invariants of the package comment, at the cost of walking all that is out. Nil if they hold.
// For tests, and for a debug call to a node that is in doubt.
func (m *Machine) Check() error {
	messages, spans, leased := 0, 0, map[*grant]int{}
	for id, g := range m.groups {
		if g.ID != id {
			return fmt.Errorf("group %d is kept as %d", g.ID, id)
		}
		if err := g.check(leased); err != nil {
			return fmt.Errorf("group %d: %w", id, err)
		}
		messages += len(g.out)
		for l := range g.early {
			spans += len(g.early[l].spans)
		}
	}
	if messages != m.messages || spans != m.spans || len(leased) != m.grants {
		return fmt.Errorf("%d messages, %d spans, %d grants are counted as %d, %d, %d",
			messages, spans, len(leased), m.messages, m.spans, m.grants)
	}
	deadlines := map[*grant]bool{}
	for _, d := range m.deadlines.items {
		if d.grant != nil && d.grant.id == d.id {
			deadlines[d.grant] = true
		}
	}
	for gr, n := range leased {
		if gr.id == 0 || gr.left != n || !deadlines[gr] {
			return fmt.Errorf("grant %d leases %d messages, counted as %d; deadline %v", gr.id, n, gr.left, deadlines[gr])
		}
	}
	if err := m.checkHoles(); err != nil {
		return err
	}
	if err := m.checkCarried(); err != nil {
		return err
	}
	return m.checkCaller()
}

// checkCaller tests what the caller is told.
func (m *Machine) checkCaller() error {
	refs := 0
	for _, x := range m.texts.all {
		refs += len(x.s) + textOverhead
	}
	if refs != m.texts.bytes {
		return fmt.Errorf("texts have %d bytes, counted as %d", refs, m.texts.bytes)
	}
	for stream, of := range m.unconfirmed {
		for delivery, gr := range of {
			for ; gr != nil; gr = gr.sibling {
				if gr.id == 0 || !gr.unconfirmed || gr.stream != stream || gr.delivery != delivery {
					return fmt.Errorf("grant %d is kept as delivery %d of stream %d", gr.id, delivery, stream)
				}
			}
		}
	}
	if !m.leading {
		return nil
	}
	if len(m.picked) > 0 {
		return fmt.Errorf("%d picked messages are left over", len(m.picked))
	}
	if len(m.open.marks) > 0 || len(m.touched)+len(m.trims) > 0 {
		return fmt.Errorf("%d marks and %d groups are left over from a call", len(m.open.marks), len(m.touched))
	}
	for _, d := range m.deadlines.items {
		if m.holds(d) && (m.timer.ID == 0 || m.timer.Due > d.due) {
			return fmt.Errorf("a deadline at %d has no timer (armed: %d at %d)", d.due, m.timer.ID, m.timer.Due)
		}
	}
	return nil
}

func (g *group) check(leased map[*grant]int) error {
	var count [states]int
	var inLane [mq.Lanes][states]int
	again, waits := map[uint64]mq.Lane{}, map[uint64]int64{}
	for l := range g.again {
		for _, off := range g.again[l].items {
			again[off] = mq.Lane(l)
		}
	}
	for _, d := range g.m.deadlines.items {
		if d.grant == nil && d.id == uint64(g.ID) && g.m.holds(d) {
			waits[d.off] = d.due
		}
	}
	exported := 0
	for off, x := range g.out {
		count[x.state]++
		if x.exported {
			exported++
		}
		inLane[x.lane][x.state]++
		lane, inHeap := again[off]
		if x.grant != nil {
			leased[x.grant]++
		}
		switch {
		case off < g.Start || g.isFresh(g.m.lanes.of(off), off):
			return fmt.Errorf("offset %d is out but fresh (from %d)", off, g.fresh)
		case off >= g.m.lanes.base && x.lane != g.m.lanes.of(off):
			return fmt.Errorf("offset %d of lane %s is out in lane %s", off, g.m.lanes.of(off), x.lane)
		case (x.state == StateLeased) != (x.grant != nil), x.grant != nil && x.grant.group != g:
			return fmt.Errorf("offset %d is %s, grant %v", off, x.state, x.grant)
		case g.keyed == nil && (x.inAgain != (inHeap && lane == x.lane) || x.state == StateReady && !x.inAgain):
			return fmt.Errorf("offset %d is %s, to be handed out again %v, in the heap %v", off, x.state, x.inAgain, inHeap)
		case x.state == StateWaiting && waits[off] != x.until:
			return fmt.Errorf("offset %d waits until %d, its deadline is %d", off, x.until, waits[off])
		case x.exported && x.state != StateDead:
			return fmt.Errorf("offset %d is %s and exported as dead", off, x.state)
		case x.state == StateAcked:
			return fmt.Errorf("offset %d is acked and out", off)
		case x.state != StateDead && off < g.lowest:
			return fmt.Errorf("offset %d is %s, and nothing is unsettled below %d", off, x.state, g.lowest)
		}
	}
	if exported != g.exported {
		return fmt.Errorf("%d exported dead letters are counted as %d", exported, g.exported)
	}
	if count != g.count || inLane != g.inLane {
		return fmt.Errorf("states %v, %v are counted as %v, %v", count, inLane, g.count, g.inLane)
	}
	if err := g.checkLimits(); err != nil {
		return err
	}
	if err := g.checkKeys(); err != nil {
		return err
	}
	return g.checkFresh()
}

func (g *group) checkFresh() error {
	for l := range mq.Lane(mq.Lanes) {
		at := g.fresh[l]
		if at > g.m.committed {
			return fmt.Errorf("lane %s is fresh from %d, beyond %d", l, at, g.m.committed)
		}
		for _, s := range g.early[l].spans {
			// Between two spans, and before the first, lies something fresh.
			if s.from <= at || s.to <= s.from || s.to > g.m.committed || g.m.unknown == 0 && g.m.lanes.count(l, at, s.from) == 0 {
				return fmt.Errorf("early span %d to %d after %d in lane %s", s.from, s.to, at, l)
			}
			at = s.to
		}
		if n := g.freshBelow(l, g.m.committed); g.m.unknown == 0 && n != g.left[l] {
			return fmt.Errorf("%d are fresh in lane %s, counted as %d", n, l, g.left[l])
		}
	}
	if low := g.lowFresh(); g.lowest > low && g.m.unknown == 0 {
		return fmt.Errorf("nothing is unsettled below %d, but %d is fresh", g.lowest, low)
	}
	return nil
}
