package delivery

import "fmt"

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
		spans += len(g.early.spans)
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
	if len(m.open.marks) > 0 || len(m.touched) > 0 {
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
	again, waits := map[uint64]bool{}, map[uint64]int64{}
	for _, off := range g.again.items {
		again[off] = true
	}
	for _, d := range g.m.deadlines.items {
		if d.grant == nil && d.id == uint64(g.ID) && g.m.holds(d) {
			waits[d.off] = d.due
		}
	}
	for off, x := range g.out {
		count[x.state]++
		if x.grant != nil {
			leased[x.grant]++
		}
		switch {
		case off < g.Start || off >= g.fresh && !g.early.has(off):
			return fmt.Errorf("offset %d is out but fresh (from %d)", off, g.fresh)
		case (x.state == StateLeased) != (x.grant != nil), x.grant != nil && x.grant.group != g:
			return fmt.Errorf("offset %d is %s, grant %v", off, x.state, x.grant)
		case x.inAgain != again[off], x.state == StateReady && !x.inAgain:
			return fmt.Errorf("offset %d is %s, to be handed out again %v, in the heap %v", off, x.state, x.inAgain, again[off])
		case x.state == StateWaiting && waits[off] != x.until:
			return fmt.Errorf("offset %d waits until %d, its deadline is %d", off, x.until, waits[off])
		case x.state == StateAcked:
			return fmt.Errorf("offset %d is acked and out", off)
		}
	}
	if count != g.count {
		return fmt.Errorf("states %v are counted as %v", count, g.count)
	}
	at, total := g.fresh, uint64(0)
	for _, s := range g.early.spans {
		if s.from <= at || s.to <= s.from || s.to > g.m.committed {
			return fmt.Errorf("early span %d to %d after %d", s.from, s.to, at)
		}
		total += s.to - s.from
		at = s.to
	}
	if total != g.early.count || g.lowest > g.fresh {
		return fmt.Errorf("%d early offsets are counted as %d; lowest %d, fresh %d", total, g.early.count, g.lowest, g.fresh)
	}
	return nil
}
