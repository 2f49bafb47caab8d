// Package sim runs a whole cluster under one seeded scheduler: three log nodes, two controllers, etcd, producers and
// consumers, and a checker, with a network, disks and clocks that fail. A seed is a run: a failing one prints itself
// and happens again exactly.
//
// The deciding code is the real one (segment, delivery, wheel, seal decisions, placement, the vocabulary); the loops
// around it are the twins lognode/simulate and coordinator/simulate, whose documentation says what that means.
//
// Each seed has some of what clients may use beside publishes and groups: lanes, order by key, schedules, groups with few
// attempts, messages with a TTL.
//
// What is checked, by what clients sent and saw: nothing acknowledged is lost; no offset has two values, and no message two
// offsets; what is acked or dead does not come back; positions neither overlap nor leave a gap; replicas agree; attempts
// are counted; every message is delivered in the end, acked, or dead once and for all of its attempts; none of a key before those in
// front of it are settled; no schedule early, none that was cancelled; nothing past its TTL, and nothing gone before.
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
	// Uses, if not nil, is all that clients use; see features.
	Uses []string
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
	Holes     int // ranges recorded as lost without an operator: nothing in them was acknowledged (R6)
	Forced    int // ranges recorded as lost because an operator said so
	Gone      int // acknowledged messages in those
	Restored  int // damaged copies of open segments that became what they were
}

// Sim is one run.
type Sim struct {
	Config
	*scheduler
	uses      *features
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
	victim    *node         // the only one whose disk may forget
	beyond    bool          // faults took away what may have been acknowledged
	harmed    map[harm]bool // see undecided
	calm      bool          // faults are over
	calmSince int64
	sealCrash int64 // until then a node that answers a seal or a creation may crash
	sealLoss  int64 // until then the victim may lose the end of a segment that is only there
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
	s := &Sim{Config: c, scheduler: newScheduler(seed), uses: newFeatures(seed, c.Uses)}
	s.build()
	s.chaos(c.Chaos * second)
	for s.err == nil && !s.finished() && s.now < c.Chaos*second+patience {
		s.until(s.now + second)
	}
	if s.err == nil {
		s.final()
	}
	return Result{Err: s.err, Nanos: s.now, Events: s.ran, Faults: s.faults, Published: s.check.published,
		Delivered: s.check.delivered, Repeated: s.check.repeated, Zombies: s.check.zombies, Holes: s.check.holes, Forced: s.check.forces, Gone: s.gone(),
		Segments: s.openings, Restored: s.restored()}
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
	s.faults, s.enabled, s.harmed = map[string]int{}, map[string]bool{}, map[harm]bool{}
	s.net = &network{s: s.scheduler, cut: map[[2]int]int64{}}
	s.etcd = &etcd{s: s.scheduler, net: s.net, proc: s.newProcess("etcd"), sealed: map[mq.PartitionID][]mq.Segment{},
		nodes: map[string]lease{}, reports: map[mq.StoreID]report{}, forces: map[mq.PartitionID]force{}, reign: -1, revision: 1}
	s.etcd.proc.start()
	s.etcd.onOpen, s.etcd.onLost = s.opened, s.lost
	s.check = newChecker(s)
	for i := range partitions {
		s.etcd.heads = append(s.etcd.heads, mq.Head{Partition: mq.PartitionID{Topic: topic, Number: uint32(i)}, Replicas: 3,
			Quorum: 2, Next: 1, Revision: 1})
	}
	s.groups = s.uses.groups()
	s.check.limits = map[mq.GroupID]uint32{}
	for _, g := range s.groups {
		s.check.limits[g.ID] = uint32(g.Settings.MaxAttempts)
	}
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
	s.operate()
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
	if n := len(next.Holes); n > len(old.Holes) { // it begins further on, because an operator forced it
		end = next.Holes[n-1].From
		s.givenUp(old.Open, end, next.Open.Base)
	}
	if old.Open != nil {
		s.trace("partition %d: segment %d ends at %s, segment %d led by %s of %d", next.Partition.Number, old.Open.ID, end,
			next.Open.ID, next.Open.Leader, len(next.Open.Replicas))
		s.check.ended(old.Open, end, next.Open.Base)
		s.loseBehind(old.Open, end)
	}
	if old.Open == nil && end != (mq.Position{}) || old.Last != nil && end.Before(old.Last.End) {
		s.fail("I5: partition %d: segment %d begins at %s after %+v", next.Partition.Number, next.Open.ID, end, old.Last)
	}
}

// lost is told of every range that was recorded as lost by a leader. Without an operator nothing in it was acknowledged.
func (s *Sim) lost(h mq.Head, seg *mq.Segment, held mq.Position, by string) {
	s.trace("partition %d: segment %d up to %s is lost from %s on (%q)", h.Partition.Number, seg.ID, seg.DataEnd(), held, by)
	if by != "" {
		s.givenUp(seg, held, seg.DataEnd())
		return
	}
	s.check.holes++
	s.check.neverAcked(h.Partition, held, seg.DataEnd())
}

// excused says whether an offset is in a range that an operator gave up, where faults may have taken away what was acknowledged.
func (s *Sim) excused(at place) bool {
	hole, ok := s.etcd.find(at.partition).Lost(at.offset)
	return ok && hole.By != "" && s.beyond
}

// gone counts the acknowledged messages that operators gave up.
func (s *Sim) gone() (n int) {
	for at := range s.check.acked {
		if s.excused(at) {
			n++
		}
	}
	return n
}

// restored counts what nodes restored, but for those whose directory was lost.
func (s *Sim) restored() (n int) {
	for _, x := range s.nodes {
		n += x.disk.Restored
	}
	return n
}
