package simulate

import (
	"fmt"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/slow"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	quorumSilence = time.Second
	writeBehind   = 5 * time.Millisecond
	retryGive     = 2 * time.Millisecond
	// maxParked bounds the requests that wait for a leader to open.
	maxParked = 1000
)

// partition is the twin of replica.Partition.
type partition struct {
	node   *Node
	id     mq.PartitionID
	events []func()
	active bool // the loop runs further up the stack

	head   mq.Head
	copies map[mq.SegmentID]*held
	lead   *leadership
	parked []func()
	// foreseen and outrun are those of replica.Partition.
	foreseen *segment.Foreseen
	outrun   segment.Outrun
	fault    bool
	why      string // the leader could not serve when it tried last
}

// held is one copy; see replica.held.
type held struct {
	copy    *segment.Replica
	damaged bool
	// together is that of replica.held. waited: a damaged one was met when open segments were looked at.
	together mq.Position
	waited   bool
	ack      func(ackFrame)
	settled  []func()
	ended    bool     // the decided end is on disk
	ending   []func() // wait for that
}

type leadership struct {
	seg       *segment.Leader
	began     int64 // true time
	serving   bool
	ended     bool
	machine   *delivery.Machine
	book      *schedule.Book // with the machine over a roll
	ahead     *schedule.Ahead
	followers []*segment.Follower
	chain     []mq.Segment
	holes     []mq.Hole

	batches      []batch
	batchBytes   int
	answers      segment.Answers
	own          []placed
	newest       mq.Position
	given        int
	ownBytes     int
	lag          segment.OwnLag
	waits        slow.Waits
	behind       bool
	sinceOpen    int64
	checkpoints  int64
	checkpointed int64
	asked        bool
	looking      bool // at what can't be read
}

type batch struct {
	body   []byte
	count  uint32
	times  []int64 // of scheduled messages; see Schedule
	placed func(Appended, error)
}

type placed struct {
	entry mq.Entry
	data  []byte
}

// post runs an event after those that wait, and then what follows every round: placing and announcing.
func (p *partition) post(event func()) {
	p.events = append(p.events, event)
	if p.active {
		return
	}
	p.active = true
	for len(p.events) > 0 {
		batch := p.events
		p.events = nil
		for _, event := range batch {
			event()
		}
		p.flush()
		if l := p.lead; l != nil && l.serving {
			l.machine.TakeReady(func(mq.GroupID) {}) // consumers of a simulation ask again by themselves
			p.node.setTimers(p, l.machine)
			p.readAhead(l)
		}
	}
	p.active = false
}

func (p *partition) now() int64 { return p.node.now() }

// stop is what a broken invariant does.
func (p *partition) stop(err error) {
	if p.fault {
		return
	}
	p.fault = true
	p.node.host.Fault(fmt.Errorf("%s of partition %s: %w", p.node.self.Store, p.id, err))
	p.resign(mqerr.New(mqerr.NoLeader, "the partition is stopped"), nil)
	p.unpark()
}

func (p *partition) leader() (*leadership, error) {
	l := p.lead
	switch {
	case l == nil:
		return nil, p.outrun.NotLeader(p.head.Open)
	case !p.quorate(l):
		return nil, mqerr.New(mqerr.NoQuorum, "too few replicas answer")
	}
	return l, nil
}

func (p *partition) whenServing(fail func(error), run func(l *leadership)) {
	if l := p.lead; l != nil && !l.serving {
		if len(p.parked) >= maxParked {
			fail(mqerr.New(mqerr.Overloaded, "the leader is still loading"))
			return
		}
		p.parked = append(p.parked, func() { p.whenServing(fail, run) })
		return
	}
	l, err := p.leader()
	if err != nil {
		fail(err)
		return
	}
	run(l)
}

func (p *partition) quorate(l *leadership) bool {
	s := l.seg.Segment()
	heard, now := 1, p.node.host.Steady()
	for i, r := range s.Replicas {
		if at, ok := p.node.heard[r.Store]; ok && i != l.seg.Self() && now-at < int64(quorumSilence) {
			heard++
		}
	}
	return heard >= s.Quorum
}

func (p *partition) resign(cause error, end *mq.Position) {
	l := p.lead
	if l == nil {
		return
	}
	p.lead = nil
	p.close(l)
	p.node.forgetTimers(p) // over a roll the machine lives on, and so do its timers
	for _, b := range l.batches {
		b.placed(Appended{}, cause)
	}
	l.answers.End(cause, end)
}

func (p *partition) unpark() {
	if l := p.lead; l != nil && !l.serving {
		return
	}
	parked := p.parked
	p.parked = nil
	for _, run := range parked {
		run()
	}
}

func (p *partition) close(l *leadership) {
	l.ended = true
	l.seg.Seal()
}

func (p *partition) sealedBy(l *leadership) {
	if l.seg.Sealed() {
		return
	}
	l.seg.Seal()
	p.node.host.WantSeal(l.seg.Segment().ID, "sealed by a replica")
}

func (p *partition) connect(l *leadership, i int) {
	s := l.seg.Segment()
	to := s.Replicas[i].Store
	if !p.node.host.Connected(to) {
		return
	}
	l.followers[i].Connect()
	if !p.node.host.Send(to, askFrame{Segments: []mq.SegmentID{s.ID}}) {
		l.followers[i].Disconnect()
	}
}

func (p *partition) peerUp(id mq.StoreID) {
	if l := p.lead; l != nil {
		if i := l.seg.Segment().ReplicaIndex(id); i >= 0 && l.followers[i] != nil {
			p.connect(l, i)
		}
	}
}

func (p *partition) peerDown(id mq.StoreID) {
	if l := p.lead; l != nil {
		if i := l.seg.Segment().ReplicaIndex(id); i >= 0 && l.followers[i] != nil {
			l.followers[i].Disconnect()
		}
	}
}
