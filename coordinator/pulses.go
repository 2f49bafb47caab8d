package coordinator

import "time"

// pulseRest is the least time between two requests for which every node is asked whether it answers.
const pulseRest = 100 * time.Millisecond

// pulses says when every node is asked whether it answers: when somebody wants it, and when nobody has for a while. Many who see the
// same trouble want it at once; the first of them is served at once, the others together a little later.
type pulses struct {
	wanted bool
	last   time.Time // the last pulse
	served time.Time // the last one that somebody wanted
}

// wait is how long it is until the next pulse; 0 is now.
func (p *pulses) wait(now time.Time) time.Duration {
	next := p.last.Add(idle)
	if rested := p.served.Add(pulseRest); p.wanted && rested.Before(next) {
		next = rested
	}
	return max(0, next.Sub(now))
}

// done notes a pulse.
func (p *pulses) done(now time.Time) {
	p.last = now
	if p.wanted {
		p.wanted, p.served = false, now
	}
}
