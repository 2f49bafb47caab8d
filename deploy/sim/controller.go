package sim

import (
	"time"

	coordinator "github.com/splashdam/splashdam/coordinator/simulate"
	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// candidate is a coordinator's machine. It reigns while it believes that the lease is its own, which may be longer
// than it is.
type candidate struct {
	*process
	sim     *Sim
	index   int
	reign   *coordinator.Controller
	life    *process // of the reign: what it waits for ends with it
	until   int64    // it believes, by true time
	usurper int64    // until then it reigns whatever the lease says
	view    *view
	watch   *watcher
}

func (s *Sim) newCandidate(i int) *candidate {
	c := &candidate{process: s.newProcess([]string{"coordinator-1", "coordinator-2"}[i]), sim: s, index: i}
	c.life = &process{id: c.id, name: c.name}
	c.watch = s.etcd.watch(c.process, func(v *view) {
		c.view = v
		if c.reign != nil {
			c.reign.Changed()
		}
	})
	return c
}

func (c *candidate) boot() {
	c.process.start()
	c.reign, c.until, c.view = nil, 0, nil
	c.watch.seen, c.watch.next = -1, 0
	c.campaign()
}

func (c *candidate) crash() {
	if c.up {
		c.process.end()
		c.resign()
	}
}

func (c *candidate) campaign() {
	s := c.sim
	s.in(400*millisecond, c.process, c.campaign)
	if c.reign != nil && c.until <= s.now && c.usurper <= s.now {
		c.resign()
	}
	began := s.now
	s.etcd.do(c.process, func() any { return s.etcd.campaign(c.index) }, func(res any, ok bool) {
		if ok && res.(int) == c.index {
			c.until = began + leaseTTL
			c.rule()
		}
	})
}

func (c *candidate) rule() {
	if c.reign == nil && c.view != nil {
		c.life.start()
		c.reign = coordinator.Start(c.host())
	}
}

func (c *candidate) resign() {
	c.life.end()
	c.reign = nil
}

// living makes a callback that is dropped when the reign is over.
func (c *candidate) living(f func()) func() {
	gen := c.life.gen
	return func() {
		if c.life.gen == gen {
			f()
		}
	}
}

func (c *candidate) host() *coordinator.Host {
	s := c.sim
	return &coordinator.Host{
		Now:    func() int64 { return s.steady(c.process) },
		After:  func(d time.Duration, f func()) { s.in(int64(d), c.process, c.living(f)) },
		View:   c.see,
		Ask:    c.ask,
		Create: c.create,
		NextID: c.nextID,
		Open:   c.open,
		ChangeReplicas: func(p mq.PartitionID, id mq.SegmentID, change func(*mq.Segment) bool) {
			s.etcd.do(c.process, func() any { s.etcd.changeReplicas(p, id, change); return nil }, func(any, bool) {})
		},
		Head:     c.head,
		TTL:      time.Duration(leaseTTL),
		Mutation: s.Controller,
	}
}

func (c *candidate) see() coordinator.View {
	v := coordinator.View{Heads: append([]mq.Head(nil), c.view.heads...), Nodes: c.view.nodes,
		Copied: map[mq.StoreID]map[mq.SegmentID]bool{}}
	for _, r := range c.view.reports {
		v.Flagged = append(v.Flagged, r.flagged...)
		v.Asked = append(v.Asked, r.asked...)
		v.Opening = append(v.Opening, r.opening...)
		v.Copied[r.store] = map[mq.SegmentID]bool{}
		for _, id := range r.copied {
			v.Copied[r.store][id] = true
		}
	}
	v.Forced = map[mq.PartitionID]*coordinator.Force{}
	for _, h := range v.Heads {
		if f, ok := c.view.forces[h.Partition]; ok && h.Open != nil && h.Open.ID == f.segment {
			v.Forced[h.Partition] = &f.Force
		}
	}
	return v
}

func (c *candidate) ask(m coordinator.Member, id mq.SegmentID, seal bool, done func(coordinator.Answer, bool)) {
	s := c.sim
	n := s.byName(m.Name)
	timeout := 500 * millisecond
	if seal {
		timeout = 2 * second
	}
	gen := c.life.gen
	s.net.call(c.process, n.process, timeout, func(reply func(any)) {
		answer := func(st lognode.State) {
			reply(coordinator.Answer{Node: n.run.Identity(), Known: st.Known, Damaged: st.Damaged, Tail: st.Tail, Sealed: st.Sealed, Leads: st.Leads,
				Committing: st.Committing})
		}
		switch {
		case id == 0:
			answer(lognode.State{})
		case seal:
			n.run.Seal(id, nil, func(st lognode.State) {
				answer(st)
				s.crashBehind(n)
			})
		default:
			n.run.Probe(id, nil, answer)
		}
	}, func(res any, ok bool) {
		if c.life.gen == gen {
			a, _ := res.(coordinator.Answer)
			done(a, ok)
		}
	})
}

func (c *candidate) create(m coordinator.Member, seg mq.Segment, revision int64, done func(bool)) {
	n := c.sim.byName(m.Name)
	gen := c.life.gen
	c.sim.net.call(c.process, n.process, 2*second, func(reply func(any)) {
		n.run.Create(seg, revision, func(made bool) {
			reply(made && n.run.Identity() == m.Incarnation)
			c.sim.crashBehind(n)
		})
	}, func(res any, ok bool) {
		if c.life.gen == gen {
			made, _ := res.(bool)
			done(ok && made)
		}
	})
}

func (c *candidate) nextID(done func(mq.SegmentID, bool)) {
	e, gen := c.sim.etcd, c.life.gen
	e.do(c.process, func() any { e.nextID++; return e.nextID }, func(res any, ok bool) {
		if c.life.gen == gen {
			id, _ := res.(mq.SegmentID)
			done(id, ok)
		}
	})
}

func (c *candidate) open(h mq.Head, displaced *mq.Segment, done func(opened, known bool, revision int64)) {
	type answer struct {
		opened   bool
		revision int64
	}
	e, gen := c.sim.etcd, c.life.gen
	e.do(c.process, func() any {
		opened, revision := e.openSegment(h, displaced)
		return answer{opened, revision}
	}, func(res any, ok bool) {
		if c.life.gen == gen {
			a, _ := res.(answer)
			done(a.opened, ok, a.revision)
		}
	})
}

func (c *candidate) head(p mq.PartitionID, done func(mq.Head, bool)) {
	e, gen := c.sim.etcd, c.life.gen
	e.do(c.process, func() any { return *e.find(p) }, func(res any, ok bool) {
		if c.life.gen == gen {
			h, _ := res.(mq.Head)
			done(h, ok)
		}
	})
}
