package sim

import (
	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// fault is a kind of trouble. Each seed has some of the kinds, so that runs differ in more than chance.
type fault struct {
	name   string
	weight int
	happen func(s *Sim)
}

// faults are all kinds. Only one node's disk, the victim's, forgets or changes what was durable by itself: two copies of
// two that are gone are gone. Where all may, an operator gives up what is lost.
var faults = []fault{
	{"crash of a node", 6, func(s *Sim) { s.restartLater(s.anyNode(), s.between(50*millisecond, 5*second)) }},
	{"crash of all nodes", 1, func(s *Sim) {
		for _, n := range s.nodes {
			s.restartLater(n, s.between(50*millisecond, 3*second))
		}
	}},
	{"crash behind a seal or a creation", 2, func(s *Sim) { s.sealCrash = s.now + s.between(second, 6*second) }},
	{"frozen node", 3, func(s *Sim) { s.anyNode().freeze(s.now + s.between(200*millisecond, 6*second)) }},
	{"frozen controller", 1, func(s *Sim) { s.ctls[s.rng.IntN(2)].freeze(s.now + s.between(200*millisecond, 6*second)) }},
	{"one-way cut", 5, func(s *Sim) {
		a, b := s.anyProcess(), s.anyProcess()
		s.net.cut[[2]int{a.id, b.id}] = s.now + s.between(300*millisecond, 8*second)
	}},
	{"node cut off", 2, func(s *Sim) {
		n, until := s.anyNode(), s.now+s.between(300*millisecond, 8*second)
		for _, p := range s.processes {
			s.net.cut[[2]int{n.id, p.id}], s.net.cut[[2]int{p.id, n.id}] = until, until
		}
	}},
	{"node cut off from etcd and controllers", 2, func(s *Sim) {
		n, until := s.anyNode(), s.now+s.between(300*millisecond, 8*second)
		for _, p := range []*process{s.etcd.proc, s.ctls[0].process, s.ctls[1].process} {
			s.net.cut[[2]int{n.id, p.id}], s.net.cut[[2]int{p.id, n.id}] = until, until
		}
	}},
	{"stream reset", 4, func(s *Sim) {
		if n := s.anyNode(); n.up {
			n.streams[s.rng.IntN(len(n.streams))].lose()
		}
	}},
	{"slow links", 2, func(s *Sim) { p := s.anyProcess(); p.slow = s.now + s.between(second, 6*second) }},
	{"lost messages", 2, func(s *Sim) { p := s.anyProcess(); p.lossy = s.now + s.between(second, 6*second) }},
	{"stalled disk", 3, func(s *Sim) { n := s.anyNode(); n.stalled = s.now + s.between(300*millisecond, 6*second) }},
	{"failed sync", 2, func(s *Sim) { s.anyNode().failing = true }},
	{"flipped bit", 1, func(s *Sim) {
		s.victimLoses()
		if c := s.victim.anySegment(); c != nil {
			s.harms(s.victim, c)
			c.Flip(s.rng.IntN(len(c.Entries)+1), s.rng.IntN(1000))
		}
	}},
	{"silently lost suffix", 2, func(s *Sim) {
		s.victimLoses()
		s.restartLater(s.victim, s.between(50*millisecond, 2*second))
		if c := s.victim.anySegment(); c != nil {
			s.harms(s.victim, c)
			for range 1 + s.rng.IntN(3) {
				c.LoseSuffix()
			}
		}
	}},
	{"lost directory", 1, func(s *Sim) {
		if n := s.victim; n.wiped < 2 {
			s.victimLoses()
			n.wipe()
		}
	}},
	{"suffix lost behind a seal", 2, func(s *Sim) { s.sealLoss = s.now + s.between(second, 8*second) }},
	{"all holders damaged", 1, func(s *Sim) {
		s.beyond = true
		c := s.anyNode().anySegment()
		if c == nil {
			return
		}
		s.damageAll(c)
	}},
	{"open copies damaged", 2, func(s *Sim) { s.damageApart(s.etcd.heads[s.rng.IntN(partitions)].Open) }},
	{"all directories lost", 1, func(s *Sim) {
		if s.beyond = true; s.nodes[0].wiped+s.nodes[1].wiped+s.nodes[2].wiped > 3 {
			return
		}
		for _, n := range s.nodes {
			n.wipe()
		}
	}},
	{"partition forced without need", 1, func(s *Sim) {
		s.beyond = true
		store := mq.StoreID("")
		if s.chance(50) {
			store = s.anyNode().disk.Store
		}
		s.force(s.etcd.heads[s.rng.IntN(partitions)].Partition, store, s.chance(50))
	}},
	{"clock jump", 2, func(s *Sim) { p := s.anyProcess(); p.offset += s.between(-10*second, 10*second) }},
	{"clock jump by an hour", 2, func(s *Sim) { p := s.anyProcess(); p.offset += s.hour() }},
	{"unknown outcomes of etcd", 2, func(s *Sim) { s.etcd.unknown = s.now + s.between(second, 6*second) }},
	{"etcd away", 1, func(s *Sim) { s.etcd.away = s.now + s.between(300*millisecond, 5*second) }},
	{"all leases end", 1, func(s *Sim) { s.etcd.expire(s.now + 10*second) }},
	{"leases end late", 1, func(s *Sim) { s.etcd.late = s.now + s.between(second, 8*second) }},
	{"watch lags", 3, func(s *Sim) {
		w := s.etcd.watchers[s.rng.IntN(len(s.etcd.watchers))]
		w.lag = s.now + s.between(200*millisecond, 5*second)
	}},
	{"crash of a controller", 2, func(s *Sim) {
		c := s.ctls[s.rng.IntN(2)]
		c.crash()
		s.in(s.between(50*millisecond, 4*second), nil, func() {
			if !c.up {
				c.boot()
			}
		})
	}},
	{"two controllers at once", 2, func(s *Sim) {
		for _, c := range s.ctls {
			if c.up {
				c.usurper = s.now + s.between(second, 5*second)
				c.rule()
			}
		}
	}},
	{"gateway's streams end", 2, func(s *Sim) {
		c := s.clients[s.rng.IntN(len(s.clients))]
		old := c.stream
		c.stream++
		s.check.gone[old] = true
		for _, n := range s.nodes {
			s.net.send(c.process, n.process, func() { n.run.StreamGone(old) })
		}
	}},
	{"move wanted", 2, func(s *Sim) {
		n := s.anyNode()
		for _, h := range s.etcd.heads {
			if h.Open != nil && n.up && h.Open.Leader == n.run.Identity() {
				n.asks[h.Open.ID] = true
			}
		}
	}},
}

// wipe gives a node an empty directory.
func (n *node) wipe() {
	n.sim.restartLater(n, n.sim.between(50*millisecond, 2*second))
	n.wiped++
	n.disk = lognode.NewDisk(mq.StoreID(n.name + "." + string(rune('0'+n.wiped))))
}

// hour is an hour, more or less, in either direction.
func (s *Sim) hour() int64 {
	d := s.between(59*60*second, 61*60*second)
	if s.chance(50) {
		return -d
	}
	return d
}

func (s *Sim) anyNode() *node       { return s.nodes[s.rng.IntN(len(s.nodes))] }
func (s *Sim) anyProcess() *process { return s.processes[s.rng.IntN(len(s.processes))] }

func (n *node) anySegment() *lognode.Stored {
	all := n.disk.Segments()
	if len(all) == 0 {
		return nil
	}
	return all[n.sim.rng.IntN(len(all))]
}

// crashBehind is asked when a node has answered a seal or a creation: it may crash in that moment, and know little for a
// while after its start.
func (s *Sim) crashBehind(n *node) {
	if s.sealCrash > s.now && s.chance(50) {
		s.in(s.between(0, 2*millisecond), n.process, func() {
			s.restartLater(n, s.between(5*millisecond, 300*millisecond))
			n.watch.lag = s.now + s.between(200*millisecond, 4*second)
		})
	}
}

// loseBehind is told of a sealed segment: if only the victim has its end, that may be gone in the same moment.
func (s *Sim) loseBehind(seg *mq.Segment, end mq.Position) {
	if s.sealLoss <= s.now || seg.Base == end {
		return
	}
	var only *lognode.Stored
	for _, n := range s.nodes {
		for _, c := range n.disk.Segments() {
			if c.Segment.ID == seg.ID && !c.Damaged && !c.Tail.Before(end) {
				if only = c; n != s.victim {
					return
				}
			}
		}
	}
	if only != nil {
		s.victimLoses()
		s.restartLater(s.victim, s.between(5*millisecond, 3*second))
		s.harms(s.victim, only)
		only.LoseSuffix()
	}
}

func (s *Sim) restartLater(n *node, d int64) {
	n.crash()
	s.in(d, nil, func() {
		if !n.up {
			n.boot()
		}
	})
}

// chaos lets faults happen until a time, and then ends them all.
func (s *Sim) chaos(until int64) {
	total := 0
	for _, f := range faults {
		if s.wanted(f.name) {
			s.enabled[f.name] = true
			total += f.weight
		}
	}
	pace := s.between(300*millisecond, 3*second)
	s.until(min(until, s.between(0, 2*second)))
	for s.err == nil && s.now < until {
		s.until(min(until, s.now+s.between(0, 2*pace)))
		if total == 0 || s.now >= until {
			continue
		}
		x := s.rng.IntN(total)
		for _, f := range faults {
			if !s.enabled[f.name] {
				continue
			}
			if x -= f.weight; x < 0 {
				s.faults[f.name]++
				s.trace("fault: %s", f.name)
				f.happen(s)
				break
			}
		}
	}
	s.heal()
}

// beyond are the kinds after which an operator may have to give something up. Few seeds have them, because an operator
// also hides what should have come back by itself.
var beyond = map[string]bool{"all holders damaged": true, "all directories lost": true, "partition forced without need": true}

// wanted says whether a seed has a kind of fault: half of them, or what the configuration says.
func (s *Sim) wanted(name string) bool {
	kinds := 50
	if beyond[name] {
		kinds = 7
	}
	for _, o := range s.Only {
		if o == name {
			return true
		}
	}
	return len(s.Only) == 0 && s.chance(kinds)
}

// heal ends all trouble and starts what is down; consumers behave from here on.
func (s *Sim) heal() {
	s.trace("the faults are over")
	s.calm, s.calmSince = true, s.now
	clear(s.net.cut)
	s.sealCrash, s.sealLoss = 0, 0
	s.etcd.away, s.etcd.late, s.etcd.unknown = 0, 0, 0
	for _, p := range s.processes {
		p.slow, p.lossy = 0, 0 // one that is frozen stays so: what waits for it must come in order
	}
	for _, w := range s.etcd.watchers {
		w.lag = 0
	}
	for _, c := range s.ctls {
		if c.usurper = 0; !c.up {
			c.boot()
		}
	}
	for _, n := range s.nodes {
		n.stalled, n.failing = 0, false
		if !n.up {
			n.boot()
		}
	}
}
