// Package sim runs a whole cluster under one seeded scheduler: three log nodes, two controllers, etcd, producers and
// consumers, and a checker, with a network, disks and clocks that fail. A seed is a run: a failing one prints itself
// and happens again exactly.
//
// The deciding code is the real one (segment, delivery, wheel, seal decisions, placement, the vocabulary); the loops
// around it are the twins lognode/simulate and coordinator/simulate, whose documentation says what that means.
//
// What is checked: nothing acknowledged is lost; no offset has two values; what is acked does not come back; positions
// neither overlap nor leave a gap; replicas agree; attempts are counted; every message is delivered in the end.
package sim

import (
	"fmt"

	coordinator "github.com/splashdam/splashdam/coordinator/simulate"
	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// Config says what is simulated; its zero value is a usable one without faults.
type Config struct {
	// Chaos is how long faults happen, in seconds of the simulation.
	Chaos int64
	// Node and Controller break rules on purpose.
	Node       lognode.Mutation
	Controller coordinator.Mutation
	// Only, if not empty, are the only kinds of faults.
	Only []string
	// Trace hears what happens, for a person.
	Trace func(format string, args ...any)
}

// Result is what one run did.
type Result struct {
	Err       error // the first violation
	Nanos     int64 // simulated
	Events    int
	Faults    map[string]int
	Published int // acknowledged
	Delivered int
	Repeated  int // deliveries beyond the first of a message to a group
	Zombies   int // deliveries of acked messages by leaders that did not know yet that they were none
	Segments  int // openings
	Holes     int // partitions that wait because a range is in no replica (R6); nothing in it was acknowledged
}

// Sim is one run.
type Sim struct {
	Config
	*scheduler
	net       *network
	etcd      *etcd
	processes []*process
	nodes     []*node
	ctls      []*candidate
	clients   []*client
	groups    []lognode.GroupConfig
	check     *checker
	faults    map[string]int
	enabled   map[string]bool
	victim    *node // the only one whose disk may forget
	calm      bool  // faults are over
	sealCrash int64 // until then a node that answers a seal or a creation may crash
	openings  int
	err       error
}

const (
	partitions = 2
	topic      = mq.TopicID(1)
	// patience is how long after the faults everything may take to be delivered.
	patience = 60 * second
	// maxEvents is far more than a run needs.
	maxEvents = 2_000_000
)

// Run simulates one seed.
func Run(seed uint64, c Config) Result {
	s := &Sim{Config: c, scheduler: newScheduler(seed), faults: map[string]int{}, enabled: map[string]bool{}}
	s.build()
	s.chaos(c.Chaos * second)
	for s.err == nil && !s.finished() && s.now < c.Chaos*second+patience {
		s.until(s.now + second)
	}
	if s.err == nil {
		s.final()
	}
	return Result{Err: s.err, Nanos: s.now, Events: s.ran, Faults: s.faults, Published: s.check.published,
		Delivered: s.check.delivered, Repeated: s.check.repeated, Zombies: s.check.zombies, Holes: s.check.holes, Segments: s.openings}
}

func (s *Sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at %.3fs: %s", float64(s.now)/1e9, fmt.Sprintf(format, args...))
	}
}

func (s *Sim) trace(format string, args ...any) {
	if s.Trace != nil {
		s.Trace("%9.3f "+format, append([]any{float64(s.now) / 1e9}, args...)...)
	}
}

func (s *Sim) newProcess(name string) *process {
	p := &process{id: len(s.processes), name: name}
	s.processes = append(s.processes, p)
	return p
}

// build makes the cluster and starts everything.
func (s *Sim) build() {
	s.net = &network{s: s.scheduler, cut: map[[2]int]int64{}}
	s.etcd = &etcd{s: s.scheduler, net: s.net, proc: s.newProcess("etcd"), sealed: map[mq.PartitionID][]mq.Segment{},
		nodes: map[string]lease{}, reports: map[mq.StoreID]report{}, reign: -1, revision: 1}
	s.etcd.proc.start()
	s.etcd.onOpen = s.opened
	s.check = newChecker(s)
	for i := range partitions {
		s.etcd.heads = append(s.etcd.heads, mq.Head{Partition: mq.PartitionID{Topic: topic, Number: uint32(i)}, Replicas: 3,
			Quorum: 2, Next: 1, Revision: 1})
	}
	s.groups = groups()
	for i := range nodeNames {
		s.nodes = append(s.nodes, s.newNode(i))
	}
	s.victim = s.nodes[s.rng.IntN(len(s.nodes))]
	for _, n := range s.nodes {
		n.boot()
	}
	for i := range 2 {
		s.ctls = append(s.ctls, s.newCandidate(i))
		s.ctls[i].boot()
	}
	s.etcd.tick()
	s.newClients()
}

// until runs what happens before a time.
func (s *Sim) until(t int64) {
	for s.err == nil && s.step(t) {
		if s.ran > maxEvents {
			s.fail("more than %d events: something goes round in circles", maxEvents)
		}
	}
}

// look is what a gateway or a node asks of the controllers when it sees a leader in trouble.
func (s *Sim) look() {
	for _, c := range s.ctls {
		if c.up {
			s.in(s.between(1, 5)*millisecond, c.process, func() {
				if c.reign != nil {
					c.reign.Look()
				}
			})
		}
	}
}

// opened is told of every transaction that opened a segment.
func (s *Sim) opened(old, next mq.Head) {
	s.openings++
	end := next.Open.Base
	if old.Open != nil {
		s.trace("partition %d: segment %d ends at %s, segment %d led by %s of %d", next.Partition.Number, old.Open.ID, end,
			next.Open.ID, next.Open.Leader, len(next.Open.Replicas))
		s.check.ended(old.Open, end)
	}
	if old.Open == nil && end != (mq.Position{}) || old.Last != nil && end.Before(old.Last.End) {
		s.fail("I5: partition %d: segment %d begins at %s after %+v", next.Partition.Number, next.Open.ID, end, old.Last)
	}
}
