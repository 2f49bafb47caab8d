package delivery

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// Moments are written down by the clock of the leader that decides, and each leader has its own (rule R8). So what is left of a
// lease is what counts: it goes over to the next clock. Nothing of this is written: who comes next finds the same
// records, and the checkpoint that a leader makes when it has opened is by its own clock.

// Resume makes a machine go by the clock of the node that is about to lead, at which it is now. last is the stamp of the
// journal's last entry. Call it once all is applied and before Lead.
//
// Leases go on from where the journal ends: the leader before may have been gone for long. A wait goes on during that time; but
// where the leader before had a clock that is ahead of this one, nobody waits for the difference.
//
// Stamps never go back, so they alone do not tell what that clock was: after one hour that was wrong they stand still for an
// hour. The times of the decisions do, and stamps what has passed since the last of them.
func (m *Machine) Resume(now, last int64) {
	ended := last
	if m.clock != 0 {
		ended = m.clock
		if m.stamp != 0 {
			ended += last - m.stamp
		}
	}
	by := now - ended
	m.moveLeases(by)
	if by < 0 {
		m.moveWaits(by)
	}
	m.deadlines.prune(m.holds)
}

const (
	// setBack is by how much the times of decisions may go back, one after the other, without a clock having been set.
	setBack = int64(2 * time.Second)
	// setForward is how far two leaders' clocks may seem apart without a difference being made: as long as a decision may wait
	// for its entry, where a disk hangs, which then has a later stamp.
	setForward = int64(time.Minute)
)

// decided takes the time of a decision that is replayed. Where another leader made it than the one before, its clock may be
// another one, and its checkpoint, which would have said what is left by it, may be lost with it. And a leader's clock may
// have been set: back shows by itself, forward looks like time that passed while stamps stood still.
func (m *Machine) decided(now int64, e *mq.Entry) {
	if m.ahead.has(now, m.clock, e.At) {
		return
	}
	if m.clock != 0 {
		by := now - (m.clock + e.Stamp - m.stamp)
		if now < m.clock-setBack || by > setForward && e.Segment != m.decider {
			m.move(by)
		}
	}
	m.clock, m.stamp, m.decider = now, e.Stamp, e.Segment
}

// ahead is what a checkpoint knows already of the journal behind it: the decisions whose records waited to be written when it
// was made, for as long as a disk hangs. They are all in one entry, the first one with decisions, and earlier than the checkpoint.
type ahead struct {
	found bool
	at    mq.Position // of that entry
}

// has says whether a decision in the entry at a position is one of them. Nil is no checkpoint.
func (a *ahead) has(now, clock int64, at mq.Position) bool {
	if a == nil {
		return false
	}
	if !a.found {
		a.found, a.at = true, at
	}
	return a.at == at && now < clock
}

// At says what time it is just before a checkpoint is made: what is left of leases is as of then.
func (m *Machine) At(now int64) { m.clock = now }

// Move says that the leader's clock was set, forward by a positive number: leases and waits last as long as they would have.
func (m *Machine) Move(by int64) {
	m.clock += by
	m.move(by)
	m.done()
}

func (m *Machine) move(by int64) {
	m.moveLeases(by)
	m.moveWaits(by)
	m.deadlines.prune(m.holds)
}

// moveLeases and moveWaits leave the heap of deadlines unordered, until it is pruned.
func (m *Machine) moveLeases(by int64) {
	for i := range m.deadlines.items {
		if d := &m.deadlines.items[i]; d.grant != nil && m.holds(*d) { // no grant has two that hold
			d.due += by
			d.grant.until += by
		}
	}
}

func (m *Machine) moveWaits(by int64) {
	for i := range m.deadlines.items {
		if d := &m.deadlines.items[i]; d.grant == nil && d.off != noDead {
			d.due += by // what does not hold goes along: it must not begin to
		}
	}
	for _, g := range m.groups {
		if g.count[StateWaiting] == 0 {
			continue
		}
		for _, x := range g.out {
			if x.state == StateWaiting {
				x.until += by
			}
		}
	}
}
