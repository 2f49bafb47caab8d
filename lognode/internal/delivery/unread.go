package delivery

import "github.com/splashdam/splashdam/shared/mq"

// Unread takes messages of a hand-over back for a while, because they can't be read: they wait, so that those behind them
// can be handed out, and the attempt does not count. delay is in nanoseconds; reason is for who asks why they wait. What
// was given back, settled or confirmed meanwhile stays as it is.
func (m *Machine) Unread(now int64, stream, delivery uint64, offsets []uint64, delay int64, reason string) {
	if !m.leading {
		return
	}
	for gr := m.unconfirmed[stream][delivery]; gr != nil; {
		next, g := gr.sibling, gr.group // gr ends with its last message
		for _, off := range offsets {
			if x := g.out[off]; x != nil && x.grant == gr {
				m.postpone(g, now, off, x.attempt-min(x.attempt, 1), x.fence, delay, m.kept(reason, mq.MaxReasonBytes, otherReason))
			}
		}
		gr = next
	}
	m.done()
}
