package push

import "time"

// verdict is what an attempt says about the endpoint as a whole.
type verdict uint8

const (
	wellOff verdict = iota // it works, or refuses this message only
	unwell                 // it can't be reached, does not answer, is overloaded, or has gone astray
)

// breaker is a circuit breaker. Closed, it lets everything through and counts failures in a row; at the limit it
// opens, and nothing is sent for a while; then one probe after the other decides. What the probes find does not
// count as attempts of their messages (the runner sees to that), so an outage of any length costs a message no more than
// what it had before the breaker opened. Pure: time and chance are arguments.
type breaker struct {
	failures int           // in a row at which it opens; 0: never
	open     time.Duration // for how long at first
	most     time.Duration // and at most

	row     int
	opened  int       // times in a row without a success between; 0: closed
	until   time.Time // when the next probe may go
	probing bool      // one is under way
}

// configure changes the limits; the state stays, unless there is no breaker any more.
func (b *breaker) configure(failures int, open, most time.Duration) {
	b.failures, b.open, b.most = failures, open, most
	if failures == 0 {
		b.row, b.opened, b.probing = 0, 0, false
	}
}

// closed says whether messages may be sent without being probes.
func (b *breaker) closed() bool { return b.opened == 0 }

// probe says whether one probe may be sent now. It must be followed by begin, or by nothing.
func (b *breaker) probe(now time.Time) bool {
	return b.opened > 0 && !b.probing && !now.Before(b.until)
}

// begin says that a probe goes out. Its result, or abandon, must follow.
func (b *breaker) begin() { b.probing = true }

// abandon says that a probe had no result.
func (b *breaker) abandon() { b.probing = false }

// result takes the outcome of an attempt; probe says that it was one. chance, from 0 to 1, spreads the next
// opening by a fifth either way, so that gateways and webhooks of one endpoint do not come back together. It says
// whether the breaker opened, or opened anew.
func (b *breaker) result(now time.Time, v verdict, probe bool, chance float64) bool {
	if probe {
		b.probing = false
	}
	if v == wellOff {
		b.row, b.opened = 0, 0
		return false
	}
	if b.failures == 0 {
		return false
	}
	b.row++
	if b.opened == 0 && b.row < b.failures || b.opened > 0 && !probe {
		return false // what was under way when it opened says nothing new
	}
	wait := b.open
	for range min(b.opened, 32) {
		wait = min(2*wait, b.most)
	}
	b.opened++
	b.until = now.Add(time.Duration(float64(wait) * (0.8 + 0.4*chance)))
	return true
}
