package sim

import (
	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// consumer asks for messages of one group and does with them what consumers do: it acks, fails, takes longer, or dies.
type consumer struct {
	*client
	partition mq.PartitionID
	group     mq.GroupID
}

func (c *consumer) ask() {
	s := c.sim
	c.hand++
	hand, stream := c.hand, c.stream
	most := 1 + s.rng.IntN(4)
	lease := s.between(1500*millisecond, 4*second)
	c.request(c.partition, func(n *lognode.Node, reply func(any, error)) {
		n.Receive(c.partition, c.group, most, lease, stream, hand, func(r lognode.Received, err error) { reply(r, err) })
	}, func(res any, err error, _ bool) {
		r, _ := res.(lognode.Received)
		if err != nil || len(r.Messages) == 0 {
			s.in(s.between(50*millisecond, 250*millisecond), c.process, c.ask)
			return
		}
		if stream == c.stream { // else what it brought has been given back
			c.confirm(stream, hand)
		}
		s.check.answered(c.group, r.Messages)
		for _, m := range r.Messages {
			s.check.handed(c.group, m, r.Decided, stream)
			c.handle(m)
		}
		s.in(s.between(5*millisecond, 150*millisecond), c.process, c.ask)
	})
}

func (c *consumer) confirm(stream, hand uint64) {
	if n := c.target(c.partition); n != nil {
		c.sim.net.send(c.process, n.process, func() { n.run.Confirm(c.partition, stream, hand) })
	}
}

// handle works on one message.
func (c *consumer) handle(m lognode.Delivered) {
	s := c.sim
	work := s.between(millisecond, 200*millisecond)
	fate := s.rng.IntN(100)
	if s.calm {
		fate = 0
	}
	later := func(d int64, o lognode.Outcome) {
		s.in(d, c.process, func() { c.settle(m, s.check.trying(c.group, m, o), 0) })
	}
	switch {
	case fate < 70:
		later(work, lognode.Ack)
	case fate < 78:
		later(work, lognode.Nack)
	case fate < 84:
		later(work, lognode.Extend)
		later(work+s.between(500*millisecond, 4*second), lognode.Ack)
	case fate < 92: // the lease may be over by then
		later(s.between(2*second, 6*second), lognode.Ack)
	case fate < 94 && c.group == 2:
		later(work, lognode.Reject)
	case fate < 95:
		later(work, lognode.Release)
	default: // it dies
	}
}

func (c *consumer) settle(m lognode.Delivered, t *try, tries int) {
	s := c.sim
	item := lognode.SettleItem{Receipt: m.Receipt, Outcome: t.outcome, Delay: -1, Reason: "it failed"}
	c.request(c.partition, func(n *lognode.Node, reply func(any, error)) {
		n.Settle(c.partition, []lognode.SettleItem{item}, func(r []lognode.SettleResult, err error) { reply(r, err) })
	}, func(res any, err error, _ bool) {
		r, _ := res.([]lognode.SettleResult)
		if err != nil || len(r) != 1 {
			if tries < 30 {
				s.in(retryPause, c.process, func() { c.settle(m, t, tries+1) })
			}
			return
		}
		s.check.settled(c.group, m, t, r[0].Code)
	})
}
