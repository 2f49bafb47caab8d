// Package replica is the goroutine that owns a partition on this node: as the leader of its open segment,
// as a follower, or as a holder of old segments. It joins the pure packages (segment, delivery) with the
// store, the peers and the clock.
//
// Everything that touches a partition's state is an event: a function posted to its inbox and run by its
// one goroutine, in order. After the events that were waiting have run, what they produced is placed as
// one entry (flush). Nothing on that goroutine waits for a disk or a network: reads of old entries, loading
// of state and calls to peers run beside it and post their result.
//
// A publish: Append -> flush (place, give to the store, send to followers) -> durable and acked -> commit ->
// answer.
package replica

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/archive"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Peers is what a partition needs of the other nodes. Calls never block, but for those with a context.
type Peers interface {
	// Send queues a frame on the stream to a follower; false if there is no stream now.
	Send(to mq.StoreID, t frame.Type, body link.Encoder) bool
	// Heard is when the node last sent anything, zero for never.
	Heard(from mq.StoreID) time.Time
	// Connected says whether there is a stream to the follower.
	Connected(to mq.StoreID) bool
	// Client makes control calls to a node.
	Client(to mq.StoreID) (mqpb.LogNodeClient, error)
}

// Chain is what a partition needs of etcd.
type Chain interface {
	// Chain is a linearizable read of the partition's key and of all sealed segments that still exist, in
	// order, the newest included.
	Chain(ctx context.Context, p mq.PartitionID) (mq.Head, []mq.Segment, error)
	// DropSegments takes the sealed segments below a number off the front of the chain.
	DropSegments(ctx context.Context, h mq.Head, oldest uint64) (mq.Head, error)
	// GetForce is the wish of an operator to force the partition; the zero value if there is none.
	GetForce(ctx context.Context, p mq.PartitionID) (meta.Force, error)
	// ForgetForce removes that wish once it is carried out.
	ForgetForce(ctx context.Context, p mq.PartitionID) error
	// RecordLost records that a sealed segment ends at held and that the rest is lost (R6); PreconditionFailed if the
	// chain changed meanwhile.
	RecordLost(ctx context.Context, h mq.Head, s mq.Segment, held mq.Position, by meta.Force) (mq.Head, error)
	// Groups are the topic's groups, and Topic the topic, as the node's view has them.
	Groups(t mq.TopicID) []meta.Group
	Topic(t mq.TopicID) (meta.Topic, bool)
	// Owner is who owns a partition of a group with members, by the newest generation that the node's view has, and
	// Assignment the whole of it with a channel that is closed when there is a newer one.
	Owner(g mq.GroupID, partition uint32) (owner string, generation uint64)
	Assignment(g mq.GroupID) (meta.Assignment, <-chan struct{})
}

// Env is what all partitions of a node share.
type Env struct {
	Log   *slog.Logger
	Store *store.Store
	Peers Peers
	Chain Chain
	// SealHere is the control call Seal of this node itself.
	SealHere func(context.Context, *mqpb.SealRequest) (*mqpb.SealResponse, error)
	Timers   *Timers
	// Clock is the time that decides what is due; see Clock.
	Clock *Clock
	// NobodyTells says that the cluster has too few nodes to tell whose clock is wrong, so that no leader waits for that; nil: it has enough.
	NobodyTells func() bool
	Cache       *EntryCache
	// Kept is what is in memory of footers.
	Kept FooterCache
	// Wake tells gateways that a group has messages ready. It never blocks.
	Wake func(p mq.PartitionID, g mq.GroupID)
	// WantSeal asks the controller to seal a segment that this node leads. It never blocks.
	WantSeal func(s mq.SegmentID, reason string)
	// Opening says that a segment begins to open here (true), or that it serves or was given up. It never blocks.
	Opening func(s mq.SegmentID, begins bool)
	// Late says which followers of a segment led here have lacked something for too long; none: they have it now. It
	// never blocks.
	Late    func(s mq.SegmentID, followers []mq.StoreID)
	Metrics *Metrics
	// Archive is where segments go before retention removes them; nil if the node has none.
	Archive *archive.Archive
	// SegmentBytes is where a segment rolls.
	SegmentBytes int64
	// Waiting counts the bytes of appends that no entry holds yet, over all partitions of the node.
	Waiting atomic.Int64
	// Own counts the bytes of entries that partitions led here have placed and the own disk has not written.
	Own atomic.Int64
	// Slow is set when a leader here finds that the own disk is slower than those of its followers; the node takes it back.
	Slow atomic.Bool
	// Ahead is by how many nanoseconds this node's clock is ahead of the median of the nodes' clocks; the node sets it.
	Ahead atomic.Int64
	// LossPatience is how long a leader looks for the end of the last segment before it judges whether that is lost.
	LossPatience time.Duration
	// Readers bounds the goroutines that read beside the partitions.
	Readers chan struct{}
}

const (
	// maxWaiting bounds the bytes of appends that wait on one node; beyond it publishes are answered overloaded.
	maxWaiting = 256 << 20
	// maxParked bounds the requests that wait while a partition's leader loads its state.
	maxParked = 10_000
	// quorumSilence is how long a leader without answers from a quorum goes on taking requests.
	quorumSilence = time.Second
	// checkpointEvery is how much journal a new leader has to replay at most, about.
	checkpointEvery = 64 << 20
	// writeBehind is how long a first hand-over may wait for an entry of its own.
	writeBehind = 5 * time.Millisecond
)

// Partition is one partition on this node. Its methods may be called by anyone and never block.
type Partition struct {
	env *Env
	id  mq.PartitionID
	log *slog.Logger

	// keys says that a group which this node leads orders by key: appends look at them.
	keys atomic.Bool

	mu     sync.Mutex
	events []func()
	closed bool
	wake   chan struct{} // capacity 1
	// rest is until when Retain has nothing to do here, in Unix nanoseconds; 0 after anything happened.
	rest atomic.Int64

	done   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines beside the owner

	// Owned by the partition's goroutine:
	head   mq.Head
	copies map[mq.SegmentID]*held
	lead   *leadership // nil unless this node leads the open segment
	// foreseen is the chain under the newest segment that was made here to be led.
	foreseen *segment.Foreseen
	// outrun is a later segment than the head's open one, whose leader has shown itself.
	outrun  segment.Outrun
	remains *remains        // nil unless only what is left of the partition can be read here
	watched mq.SegmentID    // the damaged open segment that is being watched
	parked  []parked        // requests that wait for the leader to open
	pushes  map[uint64]Push // ways to the gateways whose accounts lease here, by stream
	// retaining: the chain is being shortened in etcd.
	retaining bool
	// restful is what Retain makes of rest, 0 in a round of events without it.
	restful int64
	// looks are the events of a round that only looked.
	looks int
	// followed is when a gateway last asked for readers at the end, toldEnd the end that they were woken for.
	followed time.Time
	toldEnd  uint64
	// catching are the receives that wait for the node's view to show an assignment that their gateway has seen.
	catching int
	// catchFor is how long they wait at most: catchUp, but in tests.
	catchFor time.Duration
	fault    error // an invariant was broken: the partition stopped here
}

// New starts the partition's goroutine; Close ends it.
func New(env *Env, id mq.PartitionID) *Partition {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Partition{env: env, id: id, log: env.Log.With("partition", id.String()), wake: make(chan struct{}, 1),
		done: make(chan struct{}), ctx: ctx, cancel: cancel, copies: map[mq.SegmentID]*held{}, catchFor: catchUp}
	go p.run()
	return p
}

// ID is the partition's identity.
func (p *Partition) ID() mq.PartitionID { return p.id }

// Close stops the partition and waits for its goroutines. Requests that wait are answered no_leader or
// outcome_unknown.
func (p *Partition) Close() {
	p.post(func() {
		p.resign(mqerr.New(mqerr.NoLeader, "the node is stopping"), nil)
		p.endRemains()
		p.unpark()
	})
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.signal()
	<-p.done
	p.cancel()
	p.work.Wait()
}

// post adds an event. Events after Close are dropped, and false is answered.
func (p *Partition) post(event func()) bool {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return false
	}
	p.events = append(p.events, event)
	p.mu.Unlock()
	p.signal()
	return true
}

func (p *Partition) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Partition) run() {
	defer close(p.done)
	var batch []func()
	for range p.wake {
		p.mu.Lock()
		batch, p.events = p.events, batch[:0]
		closed := p.closed
		p.mu.Unlock()
		rested := p.rest.Swap(0)
		p.restful, p.looks = 0, 0
		for i, event := range batch {
			p.try(event)
			batch[i] = nil
			p.try(p.placeFull)
		}
		p.try(p.flush)
		p.try(p.announce)
		switch len(batch) - p.looks {
		case 0: // nothing happened
			p.rest.Store(rested)
		case 1: // it was Retain, and nothing else happened
			p.rest.Store(p.restful)
		}
		if closed {
			return
		}
	}
}

// beside runs work that may block on a goroutine of its own, within the node's bound, and waits for none. When
// the partition ends first the work runs all the same, with an ended context: it may owe somebody an answer.
func (p *Partition) beside(work func(ctx context.Context)) {
	p.work.Add(1)
	go func() {
		defer p.work.Done()
		select {
		case p.env.Readers <- struct{}{}:
			defer func() { <-p.env.Readers }()
		case <-p.ctx.Done():
		}
		defer p.recovered(func(err error) { p.post(func() { p.stop(err) }) })
		work(p.ctx)
	}()
}

// Reply answers a request: with a frame, or TypeError and a frame.Error.
type Reply func(t frame.Type, body link.Encoder)

func (r Reply) fail(err error) {
	e := frame.ErrorOf(err)
	r(frame.TypeError, &e)
}
