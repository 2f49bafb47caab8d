package delivery

// Lapse settles messages of a hand-over that turned out to be past their TTL when they were read, so that they are not
// handed over. The attempt that was counted for it ends with them. What was given back, settled or confirmed
// meanwhile stays as it is: the next hand-over finds out.
func (m *Machine) Lapse(now int64, stream, delivery uint64, offsets []uint64) {
	if !m.leading {
		return
	}
	for gr := m.unconfirmed[stream][delivery]; gr != nil; {
		next, g := gr.sibling, gr.group // gr ends with its last message
		for _, off := range offsets {
			if x := g.out[off]; x != nil && x.grant == gr {
				m.note(g, now, outLapsed, now, "", mark{first: off, count: 1})
				g.lapse(off)
			}
		}
		gr = next
	}
	m.done()
}
