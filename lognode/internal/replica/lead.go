package replica

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/dedup"
	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/slow"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// leadership is this node leading one open segment. It ends with a seal and with nothing else.
type leadership struct {
	ctx    context.Context
	cancel context.CancelFunc

	seg     *segment.Leader
	serving bool // state is loaded and the suffix before the segment is on a quorum
	machine *delivery.Machine
	book    *schedule.Book // of the schedules; with the machine over a roll
	ahead   *ahead
	keys    *dedup.Table // the idempotency keys in the window; with the machine over a roll
	// followers has an element per replica, nil at the leader's own place.
	followers []*segment.Follower
	// chain are the sealed segments before this one, oldest first. It is replaced, never changed.
	chain []mq.Segment

	batches      []batch // not placed yet, in order
	batchBytes   int
	answers      segment.Answers
	commits      *commitTimes // of the newest messages; with the machine over a roll
	own          []placed     // given to the store, not durable, in order
	newest       mq.Position  // where the newest entry ends that is no checkpoint
	given        int          // how many of own the store has taken
	giving       bool         // a timer runs to offer the others again
	ownBytes     int
	lag          segment.OwnLag // of the own disk behind what is committed
	waits        slow.Waits     // of writers for the own disk
	waited       *time.Timer    // runs while they wait
	behind       *time.Timer    // runs while a first hand-over waits to be written
	sinceOpen    int64          // bytes of entries in this segment
	checkpoints  int64          // how many of them are checkpoints'
	checkpointed int64          // sinceOpen at the last checkpoint
	late         bool           // followers are, and the node was told
	asked        bool           // the controller was asked for a seal
	began        time.Time      // when this leadership did
	messages     bool           // the segment has messages
	full         bool           // by retention: publishes are refused
	pass         pass           // of retention by time
	shelf        shelf          // the archive
	holes        []mq.Hole      // of the head that its state was loaded with; with the machine over a roll
	unreadable   unreadables
	dead         deadCarrying
	sizing       bool // dead letters are being measured
	uses         map[mq.GroupID]time.Time
	looking      map[mq.GroupID]*sharers // what waits for the look of a group's filter
	learning     map[mq.GroupID]*sharers // what waits for the keys of a group's next messages

	published, delivered rate
}

// batch is an append that no entry holds yet.
type batch struct {
	body       []byte
	count      uint32
	attributes delivery.Attributes
	times      []int64 // of scheduled messages: when each is due, or below 0 in how long; nil for ordinary ones
	reply      Reply
	first      uint64 // offset or schedule number of the first message, once it is placed
	// repeats are the messages that were taken out of it because their idempotency keys are known.
	repeats []frame.Repeat
}

// placed is an entry that has a position and is not durable in the own store.
type placed struct {
	at, next mq.Position
	data     []byte
}

// leader is the leadership if it serves, or the error to answer.
func (p *Partition) leader() (*leadership, error) {
	l := p.lead
	switch {
	case p.fault != nil:
		return nil, p.stopped()
	case l == nil:
		return nil, p.outrun.NotLeader(p.head.Open)
	case !p.quorate(l):
		return nil, mqerr.New(mqerr.NoQuorum, "fewer than %d of %d replicas answer", l.seg.Segment().Quorum, len(l.followers))
	case l.serving && l.seg.Sealed() && l.records() > entryAbout: // what is decided now goes into the first entry after a roll
		return nil, mqerr.New(mqerr.NotLeader, "the leader's segment is sealed, and enough waits for the next one")
	}
	return l, nil
}

// whenServing runs a request once the leader serves, at once if it does. Before that requests are parked,
// up to a bound; without leadership fail is called with the reason.
func (p *Partition) whenServing(fail func(error), run func(l *leadership)) {
	if p.readOnly() {
		fail(p.remains.why)
		return
	}
	if l := p.lead; l != nil && !l.serving {
		if len(p.parked) >= maxParked {
			fail(mqerr.New(mqerr.Overloaded, "the leader is still loading"))
			return
		}
		p.parked = append(p.parked, parked{func() { p.whenServing(fail, run) }, fail})
		return
	}
	l, err := p.leader()
	if err != nil {
		fail(err)
		return
	}
	run(l)
}

// quorate says whether a quorum of replicas was heard within the last second.
func (p *Partition) quorate(l *leadership) bool {
	s := l.seg.Segment()
	if s.Quorum == 1 {
		return true
	}
	heard, now := 1, time.Now()
	for i, r := range s.Replicas {
		if i != l.seg.Self() && now.Sub(p.env.Peers.Heard(r.Store)) < quorumSilence {
			heard++
		}
	}
	return heard >= s.Quorum
}

// resign ends the leadership, if there is one. Answers that wait are known only where end is: what lies
// beyond it was never stored for anyone; the rest may or may not be, as far as this node can know.
func (p *Partition) resign(cause error, end *mq.Position) {
	l := p.lead
	if l == nil {
		return
	}
	p.lead = nil
	p.close(l)
	p.env.Timers.Forget(p) // of the machine that ends here; over a roll it lives on, and so do its timers
	if h := p.copies[l.seg.Segment().ID]; h != nil && l.given < len(l.own) && h.copy.Unqueue(l.own[l.given].at) {
		h.tries++ // what the store had no room for will not be offered again: nobody is to wait for it
		p.settle(h)
	}
	for _, b := range l.batches {
		p.env.Waiting.Add(-int64(len(b.body)))
		b.reply.fail(cause)
	}
	l.answers.End(cause, end)
}

// unpark runs the requests that waited for the leader to serve, or to be known as gone.
func (p *Partition) unpark() {
	if l := p.lead; l != nil && !l.serving {
		return
	}
	waiting := p.parked
	p.parked = nil
	for _, r := range waiting {
		r.run()
	}
}

// giveUp answers the requests that wait for a leader whose opening takes long: nothing was done for them, and a gateway
// that hears so in time asks again.
func (p *Partition) giveUp(why error) {
	waiting := p.parked
	p.parked = nil
	for _, r := range waiting {
		r.fail(mqerr.New(mqerr.NoLeader, "the leader can't serve yet: %w", why))
	}
}

// parked is a request that waits for the leader to serve. fail answers it without having done anything.
type parked struct {
	run  func()
	fail func(error)
}

// close releases what a leadership holds besides its answers.
func (p *Partition) close(l *leadership) {
	l.cancel()
	l.seg.Seal()
	p.env.Own.Add(-int64(l.ownBytes)) // nobody counts for it any more what becomes durable now
	l.ownBytes = 0
	p.setUnreadable(l, nil)
	p.endPass(l)
	if !l.serving {
		p.env.Opening(l.seg.Segment().ID, false)
	}
	if l.behind != nil {
		l.behind.Stop()
	}
	if l.waited != nil {
		l.waited.Stop()
	}
}

// sealedBy stops the leader at once when a replica, a peer or etcd says that its segment is sealed. Answers
// wait for the head to say what was kept.
func (p *Partition) sealedBy(l *leadership, who string) {
	if l.seg.Sealed() {
		return
	}
	p.log.Info("the open segment is sealed", "segment", l.seg.Segment().ID, "by", who)
	l.seg.Seal()
	p.env.WantSeal(l.seg.Segment().ID, "sealed by "+who)
}

// follow connects to the followers that have a stream and asks for their tails.
func (p *Partition) follow(l *leadership) {
	for i := range l.followers {
		if l.followers[i] != nil {
			p.connect(l, i)
		}
	}
}

func (p *Partition) connect(l *leadership, i int) {
	s := l.seg.Segment()
	if !p.env.Peers.Connected(s.Replicas[i].Store) {
		return
	}
	l.followers[i].Connect()
	if !p.env.Peers.Send(s.Replicas[i].Store, frame.TypeAsk, &frame.Ask{Segments: []mq.SegmentID{s.ID}}) {
		l.followers[i].Disconnect()
	}
}

// PeerUp says that a stream to a follower's node began, PeerDown that it ended.
func (p *Partition) PeerUp(id mq.StoreID) {
	p.post(func() {
		if l := p.lead; l != nil {
			if i := l.seg.Segment().ReplicaIndex(id); i >= 0 && l.followers[i] != nil {
				p.connect(l, i)
			}
		}
	})
}

// PeerDown see PeerUp.
func (p *Partition) PeerDown(id mq.StoreID) {
	p.post(func() {
		if l := p.lead; l != nil {
			if i := l.seg.Segment().ReplicaIndex(id); i >= 0 && l.followers[i] != nil {
				l.followers[i].Disconnect()
			}
		}
	})
}
