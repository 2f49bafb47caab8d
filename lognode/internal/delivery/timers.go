package delivery

import (
	"math"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// TimerOp asks the owner of the node's wheel to set a timer, or to cancel one that was set. An ID is set once.
type TimerOp struct {
	ID     uint64
	Due    int64 // Unix nanoseconds
	Cancel bool
}

// reasonExpired is why an attempt failed whose lease ran out.
const reasonExpired = "the lease ran out"

// TakeTimers calls f with the timer operations since the last call, in order, and forgets them.
func (m *Machine) TakeTimers(f func(TimerOp)) {
	for _, op := range m.timerOps {
		f(op)
	}
	m.timerOps = m.timerOps[:0]
}

// holds says whether a deadline still means something.
func (m *Machine) holds(d deadline) bool {
	if d.grant != nil {
		return d.grant.id == d.id
	}
	g := m.groups[mq.GroupID(d.id)]
	if g == nil {
		return false
	}
	if d.off == noDead {
		return g.deadDue == d.due
	}
	x := g.out[d.off]
	return x != nil && x.state == StateWaiting && x.until == d.due
}

// arm sees to it that a timer is set for the first deadline. One that is set for an earlier moment is left: what it was
// for has been settled, and at that moment the next one is set. So a steady flow of leases that are settled
// in time sets one timer per lease time, not one per lease.
func (m *Machine) arm() {
	for len(m.deadlines.items) > 0 {
		d := m.deadlines.items[0]
		if m.timer.ID != 0 && m.timer.Due <= d.due {
			return
		}
		if m.holds(d) {
			m.setTimer(d.due)
			return
		}
		m.deadlines.pop()
	}
}

func (m *Machine) setTimer(due int64) {
	if m.timer.ID != 0 {
		m.timerOps = append(m.timerOps, TimerOp{ID: m.timer.ID, Cancel: true})
	}
	m.lastTimer++
	m.timer = TimerOp{ID: m.lastTimer, Due: due}
	m.timerOps = append(m.timerOps, m.timer)
}

// Fire says that a timer of this machine is due. Leases that have run out are failed attempts, waits that are over
// make their message ready. A timer that was cancelled or replaced is a no-op, and nothing is done early:
// a renewal that came before this call has moved the deadline (museum 27).
func (m *Machine) Fire(now int64, timer uint64) {
	if !m.leading || timer == 0 || timer != m.timer.ID {
		return
	}
	m.timer = TimerOp{}
	budget := fireBudget
	for budget > 0 && len(m.deadlines.items) > 0 && m.deadlines.items[0].due <= now {
		d := m.deadlines.pop()
		switch {
		case !m.holds(d):
		case d.grant != nil:
			budget -= d.grant.left
			m.expire(now, d.grant)
		case d.off == noDead:
			g := m.groups[mq.GroupID(d.id)]
			g.deadDue = 0
			m.wantTrim(g, now)
		default:
			budget--
			g := m.groups[mq.GroupID(d.id)]
			x := g.out[d.off]
			g.leave(x)
			g.makeReady(d.off, x)
		}
	}
	m.done()
}

// expire fails the attempts of all messages that gr leases still.
func (m *Machine) expire(now int64, gr *grant) {
	g := gr.group
	gr.each(func(off uint64, x *message) { m.failed(g, now, off, x.attempt, x.fence, outExpired, -1, reasonExpired) })
}

// failed decides what a failed attempt leads to, does it and writes it down: dead at max_attempts, else
// ready again after delay, or after the back-off for a negative one. It returns when.
func (m *Machine) failed(g *group, now int64, off uint64, attempt uint32, f fence, o outcome, delay int64, reason string) (State, int64) {
	most := g.Settings.MaxAttempts
	if o == outDead || most > 0 && int64(attempt) >= int64(most) {
		m.note(g, now, outDead, now, reason, mark{first: off, count: 1, attempt: attempt, fence: f, due: now})
		g.kill(off, attempt, f, now, reason)
		return StateDead, now
	}
	if delay < 0 {
		delay = backoff(g.Settings.Backoff, g.ID, off, attempt)
	}
	due := now + min(delay, int64(mq.MaxBackoff))
	m.note(g, now, o, now, reason, mark{first: off, count: 1, attempt: attempt, fence: f, due: due})
	g.fail(off, attempt, f, due, now, reason)
	if due <= now {
		return StateReady, now
	}
	return StateWaiting, due
}

// backoff is how long a message waits after this attempt, in nanoseconds. The jitter is a hash of whose wait it
// is: spread over messages, and the same on every machine.
func backoff(b mq.Backoff, group mq.GroupID, off uint64, attempt uint32) int64 {
	if b.Initial <= 0 {
		return 0
	}
	wait := float64(time.Duration(b.Initial)) * math.Pow(b.Multiplier, float64(max(attempt, 1)-1))
	wait = min(wait, float64(time.Duration(b.Max)))
	h := mix(mix(mix(uint64(group))^off) ^ uint64(attempt))
	share := float64(h>>11)/(1<<52) - 1 // -1 to 1
	return int64(wait * (1 + b.Jitter*share))
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
