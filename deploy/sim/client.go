package sim

import (
	"fmt"

	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// client is a gateway with the producers and consumers behind it.
type client struct {
	*process
	sim    *Sim
	watch  *watcher
	view   *view
	leader map[mq.PartitionID]string // what a refusal said, until the view says more
	stream uint64
	hand   uint64
}

const (
	requestTimeout = 3 * second
	retryPause     = 100 * millisecond
)

func (s *Sim) newClients() {
	for i := range 2 {
		c := &client{process: s.newProcess(fmt.Sprintf("gateway-%d", i+1)), sim: s, leader: map[mq.PartitionID]string{}}
		s.clients = append(s.clients, c)
		c.watch = s.etcd.watch(c.process, func(v *view) {
			c.view = v
			clear(c.leader)
		})
		c.process.start()
		c.stream = uint64(i+1) << 32
		for j := range partitions {
			p := mq.PartitionID{Topic: topic, Number: uint32(j)}
			(&producer{client: c, partition: p, name: fmt.Sprintf("%d.%d", i, j)}).next()
			for _, g := range s.groups {
				(&consumer{client: c, partition: p, group: g.ID}).ask()
			}
		}
	}
}

// target is the node that leads a partition, as far as this gateway knows, or nil.
func (c *client) target(p mq.PartitionID) *node {
	if name := c.leader[p]; name != "" {
		return c.sim.byName(name)
	}
	if c.view == nil {
		return nil
	}
	for i := range c.view.heads {
		if h := &c.view.heads[i]; h.Partition == p && h.Open != nil {
			return c.sim.byName(h.Open.LeaderNode())
		}
	}
	return nil
}

// request asks a partition's leader. done hears the error, nil with the answer, and whether the leader may have done
// it.
func (c *client) request(p mq.PartitionID, run func(n *lognode.Node, reply func(any, error)), done func(res any, err error, unsure bool)) {
	type answer struct {
		res any
		err error
	}
	n := c.target(p)
	if n == nil {
		c.sim.in(retryPause, c.process, func() { done(nil, mqerr.New(mqerr.NoLeader, "none is known"), false) })
		return
	}
	c.sim.net.call(c.process, n.process, requestTimeout, func(reply func(any)) {
		run(n.run, func(res any, err error) { reply(answer{res, err}) })
	}, func(res any, ok bool) {
		if !ok {
			c.sim.look()
			done(nil, mqerr.New(mqerr.OutcomeUnknown, "no answer"), true)
			return
		}
		a := res.(answer)
		e := mqerr.Of(a.err)
		if e != nil && e.Code == mqerr.NotLeader && e.Leader != "" {
			c.leader[p] = e.Leader
		}
		done(a.res, a.err, e != nil && e.Code == mqerr.OutcomeUnknown)
	})
}

// producer publishes one batch after the other and tries again until it is acknowledged.
type producer struct {
	*client
	partition mq.PartitionID
	name      string
	made      int
	tries     int
	later     bool // what is published next is scheduled
}

func (p *producer) next() {
	s := p.sim
	if s.calm {
		return
	}
	p.made++
	p.tries = 0
	count := 1 + s.rng.IntN(3)
	p.later = s.uses.has[useTimes] && s.uses.chance(25)
	s.in(s.between(5*millisecond, 400*millisecond), p.process, func() { p.publish(count) })
}

// batch makes messages that nobody has sent before.
func (p *producer) batch(count int) (body []byte, values []string) {
	p.tries++
	var b mq.BatchBuilder
	values = make([]string, count)
	for i := range values {
		values[i] = fmt.Sprintf("%s/%d/%d/%d", p.name, p.made, i, p.tries)
		m, t := p.sim.uses.message(values[i])
		t.sent = p.sim.now
		p.sim.check.traits[values[i]] = t
		b.Add(&m)
	}
	return b.AppendTo(nil, "producer", p.client.name, mq.CodecNone, nil), values
}

func (p *producer) publish(count int) {
	if p.later {
		p.schedule(count)
		return
	}
	body, values := p.batch(count)
	p.request(p.partition, func(n *lognode.Node, reply func(any, error)) {
		n.Append(p.partition, body, count, func(a lognode.Appended, err error) { reply(a, err) })
	}, func(res any, err error, _ bool) {
		if err != nil {
			p.sim.in(retryPause, p.process, func() { p.publish(count) })
			return
		}
		p.sim.check.acknowledged(p.partition, res.(lognode.Appended), values)
		p.next()
	})
}
