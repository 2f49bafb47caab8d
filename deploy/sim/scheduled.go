package sim

import (
	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// wish is one scheduled message, as its sender knows it.
type wish struct {
	value     string
	partition mq.PartitionID
	number    uint64
	// due is the earliest time that may be right by the journal's clock, 0 while that is not known; earliest the same by
	// the true one, if no clock is wrong.
	due, earliest int64
	stored        bool  // it was acknowledged
	cancelled     bool  // and so was the end of it
	unsure        bool  // somebody asked for its end, and may have been heard
	seen          bool  // a consumer got it
	stamp         int64 // that it had then
}

// slack is how far two clocks drift apart in a run.
const slack = 30 * millisecond

// setClocks says that clocks were set in this run.
func (s *Sim) setClocks() bool { return s.faults["clock jump"]+s.faults["clock jump by an hour"] > 0 }

// trueClocks says that what happens by the journal's clock happens by the true one: no clock was set.
func (s *Sim) trueClocks() bool { return !s.setClocks() }

// schedule is publish for messages that are due later.
func (p *producer) schedule(count int) {
	s := p.sim
	body, values := p.batch(count)
	times := make([]int64, count)
	wishes := make([]*wish, count)
	for i, v := range values {
		d := s.uses.between(millisecond, 5*second)
		w := &wish{value: v, partition: p.partition, earliest: s.now + d}
		if times[i] = -d; s.uses.chance(50) {
			w.due = epoch + s.now + d
			times[i] = w.due
		}
		s.check.wishes[v] = w
		wishes[i] = w
	}
	p.request(p.partition, func(n *lognode.Node, reply func(any, error)) {
		n.Schedule(p.partition, body, times, func(a lognode.Scheduled, err error) { reply(a, err) })
	}, func(res any, err error, _ bool) {
		if err != nil {
			s.in(retryPause, p.process, func() { p.publish(count) })
			return
		}
		a := res.(lognode.Scheduled)
		for i, w := range wishes {
			w.number = a.First + uint64(i)
			s.check.scheduled(w, a.Dues[i])
			p.changeMind(w)
		}
		p.next()
	})
}

// changeMind may cancel a schedule later, or give it another time.
func (c *client) changeMind(w *wish) {
	s := c.sim
	mind, after := s.uses.rng.IntN(100), s.uses.between(0, 5*second)
	switch {
	case mind < 20:
		s.in(after, c.process, func() { c.cancel(w, 0) })
	case mind < 30:
		s.in(after, c.process, func() { c.retime(w, s.now+s.uses.between(millisecond, 3*second), 0) })
	}
}

func (c *client) cancel(w *wish, tries int) {
	w.unsure = true
	c.change(w, tries, func(n *lognode.Node, reply func(lognode.ScheduleCode, error)) { n.Cancel(w.partition, w.number, reply) },
		func(code lognode.ScheduleCode) { c.sim.check.cancelled(w, code) }, func() { c.cancel(w, tries+1) })
}

func (c *client) retime(w *wish, at int64, tries int) {
	w.due, w.earliest = min(w.due, epoch+at), min(w.earliest, at)
	c.change(w, tries, func(n *lognode.Node, reply func(lognode.ScheduleCode, error)) {
		n.Retime(w.partition, w.number, epoch+at, reply)
	},
		func(code lognode.ScheduleCode) { c.sim.check.retimed(w, at, code) }, func() { c.retime(w, at, tries+1) })
}

func (c *client) change(w *wish, tries int, ask func(*lognode.Node, func(lognode.ScheduleCode, error)), heard func(lognode.ScheduleCode), again func()) {
	c.request(w.partition, func(n *lognode.Node, reply func(any, error)) {
		ask(n, func(code lognode.ScheduleCode, err error) { reply(code, err) })
	}, func(res any, err error, _ bool) {
		switch code, _ := res.(lognode.ScheduleCode); {
		case err == nil:
			heard(code)
		case tries < 30:
			c.sim.in(retryPause, c.process, again)
		}
	})
}

// scheduled is an acknowledged schedule, due by the journal's clock.
func (c *checker) scheduled(w *wish, due int64) {
	w.stored = true
	at := place{w.partition, w.number}
	if other, ok := c.numbers[at]; ok && other != w.value { // not even if that was given up: its sender may still name it
		c.s.fail("%q is schedule %d of partition %d, and so was %q", w.value, w.number, w.partition.Number, other)
	}
	c.numbers[at] = w.value
	if w.due == 0 {
		w.due = due
	} else if w.due != due {
		c.s.fail("%q was scheduled for %d, and is answered to be due at %d", w.value, w.due, due)
	}
	c.early(w)
	if at, ok := c.where[w.value]; ok {
		c.acked[at] = true
	}
}

// early checks what a consumer got against what is known of its time.
func (c *checker) early(w *wish) {
	if w.seen && w.stamp < w.due && !c.given[w.partition] {
		c.s.fail("%q was given out with the time %.3f, and was due at %.3f", w.value, float64(w.stamp-epoch)/1e9, float64(w.due-epoch)/1e9)
	}
}

// came is a delivery of a scheduled message.
func (c *checker) came(w *wish, m lognode.Delivered, decided int64) {
	if w.cancelled && !c.given[w.partition] {
		c.s.fail("%q, schedule %d of partition %d, was cancelled and is given out", w.value, w.number, w.partition.Number)
	}
	if c.s.trueClocks() && decided < w.earliest-slack {
		c.s.fail("%q was given out at %.3fs, and was due at %.3fs", w.value, float64(decided)/1e9, float64(w.earliest)/1e9)
	}
	if !w.seen {
		w.seen, w.stamp = true, m.Stamp
		c.early(w)
	}
	if w.stored {
		c.acked[placeOf(m)] = true
	}
}

func (c *checker) cancelled(w *wish, code lognode.ScheduleCode) {
	c.known(w, code)
	switch {
	case code == lognode.ScheduleReleased:
		w.unsure = false
	case code == lognode.ScheduleOK:
		if w.cancelled = true; w.seen && !c.given[w.partition] {
			c.s.fail("%q, schedule %d of partition %d, was given out and then cancelled", w.value, w.number, w.partition.Number)
		}
	}
}

func (c *checker) retimed(w *wish, at int64, code lognode.ScheduleCode) {
	c.known(w, code)
	if code == lognode.ScheduleOK {
		w.due, w.earliest = epoch+at, at
		c.early(w)
	}
}

// known: what was acknowledged is, as long as nobody gave up a part of the journal.
func (c *checker) known(w *wish, code lognode.ScheduleCode) {
	if code == lognode.ScheduleUnknown && !c.given[w.partition] {
		c.s.fail("%q, schedule %d of partition %d, was acknowledged and is not known", w.value, w.number, w.partition.Number)
	}
}

// awaited says of a schedule that consumers must get it, and have not yet.
func (c *checker) awaited(w *wish) bool {
	return w.stored && !w.unsure && !w.seen && !c.given[w.partition] && !c.mayExpire(w.value)
}

// dueAll says whether everything that was scheduled has come. Where clocks were set, when it does is theirs to say.
func (c *checker) dueAll() bool {
	for _, w := range c.wishes {
		if c.awaited(w) && !c.s.setClocks() {
			return false
		}
	}
	return true
}

// scheduledLeft checks that what has not come is pending still, and what was cancelled is not.
func (c *checker) scheduledLeft(p mq.PartitionID, pending map[uint64]int64) {
	for _, w := range c.wishes {
		if w.partition != p || c.given[p] {
			continue
		}
		_, waits := pending[w.number]
		switch {
		case c.awaited(w) && !waits:
			c.s.fail("lost: %q, schedule %d of partition %d, was acknowledged, did not come and is not pending", w.value, w.number, p.Number)
		case w.cancelled && waits:
			c.s.fail("%q, schedule %d of partition %d, was cancelled and is pending", w.value, w.number, p.Number)
		case w.stored && w.seen && waits:
			c.s.fail("%q, schedule %d of partition %d, was given out and is pending", w.value, w.number, p.Number)
		}
	}
}
