// Package router carries a gateway's requests to the leaders of partitions: which node leads comes from
// the metadata view, one stream per log node carries the frames, and a request is sent again only while
// it surely was not carried out, or may be carried out twice without harm.
package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// Between tries, beside what wakes them earlier: a change of the metadata or a stream that came up.
	firstPause = 5 * time.Millisecond
	lastPause  = 250 * time.Millisecond
	// lookEvery bounds how often the controller is asked to look at the cluster.
	lookEvery = time.Second
	// unheard is when a node counts as not answering, though its stream is there: an idle one tells its clock every five seconds.
	unheard = 7 * time.Second
)

// Config says whom a router speaks for.
type Config struct {
	Gateway  string // name, in the metadata of each stream
	Instance string // random, of this run of the process
	View     *meta.View
	Look     func(reason string)            // asks the controller to look; a hint
	Freed    func(*frame.Freed)             // told of leases of accounts that are over; it must not block
	Told     func(node string, clock int64) // told of the time by which a node decides, Unix nanoseconds; nil: nobody asks
	Dial     link.Dial                      // nil: plain TCP
	Log      *slog.Logger
}

// Router may be used by any goroutine until Close.
type Router struct {
	cfg      Config
	lastLook atomic.Int64 // as elapsed
	started  time.Time
	count    nodeCount

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // of nodes

	mu     sync.Mutex
	nodes  map[string]*node // by address
	closed bool
}

// New makes a router; streams are opened when they are first needed.
func New(cfg Config) *Router {
	r := &Router{cfg: cfg, started: time.Now(), nodes: map[string]*node{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends all streams and calls, and waits for the router's goroutines.
func (r *Router) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.work.Wait()
}

// Answer is what a leader answered. Body stays valid; it shares memory with answers that came with it.
type Answer struct {
	Body    []byte
	Session *Session // where it came from: a hand-over is confirmed or returned on its own stream
}

// Call sends a request that may be carried out twice without harm (read, receive, ack, counts) to the
// partition's leader, and again until ctx ends, which must have a deadline. With no leader until then it
// is NoLeader.
func (r *Router) Call(ctx context.Context, p mq.PartitionID, t frame.Type, body link.Encoder) ([]byte, error) {
	a, err := r.call(ctx, p, t, body, true)
	return a.Body, err
}

// CallOnce sends a request that must not be carried out twice: where it may have been and no answer came
// it is OutcomeUnknown.
func (r *Router) CallOnce(ctx context.Context, p mq.PartitionID, t frame.Type, body link.Encoder) ([]byte, error) {
	a, err := r.call(ctx, p, t, body, false)
	return a.Body, err
}

// CallKeyed sends a request that the leader knows again when it comes twice, and so again after a try whose answer was
// lost, until ctx ends. Once a try was lost the answer is a success or OutcomeUnknown: what refuses a later try says
// nothing of the one before.
func (r *Router) CallKeyed(ctx context.Context, p mq.PartitionID, t frame.Type, body link.Encoder) ([]byte, error) {
	a, err := r.call(ctx, p, t, body, false)
	if !mqerr.Is(err, mqerr.OutcomeUnknown) {
		return a.Body, err
	}
	lost := err
	changes, cancel := r.cfg.View.Subscribe()
	defer cancel()
	for pace := r.pace(p); ; {
		if ended := wait(ctx, r.ctx, changes, pace.next()); ended != nil {
			return nil, lost
		}
		if a, err = r.call(ctx, p, t, body, false); err == nil {
			return a.Body, nil
		}
	}
}

// Receive is Call for a hand-over. If ctx ends while the answer is under way, what it hands over is
// returned at once: nobody would confirm it (museum 41).
func (r *Router) Receive(ctx context.Context, f *frame.Receive) (Answer, error) {
	return r.call(ctx, f.Partition, frame.TypeReceive, f, true)
}

func (r *Router) call(ctx context.Context, p mq.PartitionID, t frame.Type, body link.Encoder, repeatable bool) (Answer, error) {
	a, again, err := r.try(ctx, p, t, body, repeatable, "")
	if again {
		a, err = r.callAgain(ctx, p, t, body, repeatable, err)
	}
	return a, r.Named(p, err)
}

// callAgain goes on after a first try, whose error is last.
func (r *Router) callAgain(ctx context.Context, p mq.PartitionID, t frame.Type, body link.Encoder, repeatable bool, last error) (Answer, error) {
	changes, cancel := r.cfg.View.Subscribe()
	defer cancel()
	for pace := r.pace(p); ; {
		a, again, err := r.try(ctx, p, t, body, repeatable, hint(last))
		if !again {
			return a, err
		}
		if e := r.Hopeless(p); e != nil {
			return a, e
		}
		last = err
		pause := pace.next()
		if pause > 4*firstPause { // a stream that is opened takes a moment, and nobody is to blame
			r.look(p, err)
		}
		if ended := wait(ctx, r.ctx, changes, pause); ended != nil {
			return a, ended(err)
		}
	}
}

// wait returns nil when it is time for another try, or what to make of the last error.
func wait(ctx, router context.Context, changes <-chan struct{}, pause time.Duration) func(last error) error {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-changes:
		return nil
	case <-t.C:
		return nil
	case <-router.Done():
		return func(error) error { return mqerr.New(mqerr.Draining, "the gateway stops") }
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return func(error) error { return mqerr.New(mqerr.Cancelled, "") }
		}
		return func(last error) error { return last }
	}
}

// hint is the node that the last answer named as the leader: it may know of a change before this gateway's view does,
// where etcd's member that the view follows hangs. Where the hint leads nowhere the view is asked again.
func hint(last error) string {
	var e *mqerr.Error
	if errors.As(last, &e) && e.Code == mqerr.NotLeader {
		return e.Leader
	}
	return ""
}

// try is one try, with the node named by a hint if that is registered. again says that nothing was carried out, or
// that it does no harm if it was.
func (r *Router) try(ctx context.Context, p mq.PartitionID, t frame.Type, body link.Encoder, repeatable bool, hint string) (a Answer, again bool, err error) {
	s, err := r.session(p, hint)
	if err != nil {
		return Answer{}, !mqerr.Is(err, mqerr.Draining) && !mqerr.Is(err, mqerr.TopicNotFound), err
	}
	got, answer, sent, err := s.caller.Call(ctx, t, body)
	if err == nil {
		if got != t+1 { // every answer's type follows its question's
			return Answer{}, false, fmt.Errorf("router: node %s answers a frame of type %d with %d", s.node, t, got)
		}
		return Answer{Body: answer, Session: s}, false, nil
	}
	var e *mqerr.Error
	switch {
	case errors.As(err, &e):
		return Answer{}, nothingDone(e.Code), err
	case ctx.Err() != nil && sent:
		if f, ok := body.(*frame.Receive); ok {
			// In order after the question, so the node returns what it has handed over to it.
			_ = s.Return(f.Partition, f.Group, f.Handover, nil)
		}
		return Answer{}, false, unanswered(ctx, repeatable)
	case errors.Is(err, link.ErrFull):
		return Answer{}, false, mqerr.New(mqerr.Overloaded, "node %s reads too slowly", s.node)
	case sent && !repeatable:
		return Answer{}, false, broke(mqerr.OutcomeUnknown, s.node)
	}
	return Answer{}, true, broke(mqerr.NoLeader, s.node)
}

// broke is for a call whose stream ended. What gRPC says of that is in the log: it tells the caller nothing.
func broke(code mqerr.Code, node string) error {
	return mqerr.New(code, "the connection to %s broke", node)
}

// nothingDone lists the answers after which the same request may be sent elsewhere or later.
func nothingDone(c mqerr.Code) bool {
	return c == mqerr.NotLeader || c == mqerr.NoLeader || c == mqerr.NoQuorum || c == mqerr.Draining
}

func unanswered(ctx context.Context, repeatable bool) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return mqerr.New(mqerr.Cancelled, "")
	case repeatable:
		return mqerr.New(mqerr.NoLeader, "its leader did not answer in time")
	}
	return mqerr.New(mqerr.OutcomeUnknown, "its leader did not answer in time")
}

// look asks the controller to look after a try that failed.
func (r *Router) look(p mq.PartitionID, err error) { r.lookAt(fmt.Sprintf("partition %s: %v", p, err)) }

// lookAt asks the controller to look, at most once a second.
func (r *Router) lookAt(reason string) {
	now := r.elapsed()
	if last := r.lastLook.Load(); now-last > int64(lookEvery) && r.lastLook.CompareAndSwap(last, now) {
		r.cfg.Look(reason)
	}
}

// elapsed is nanoseconds by a clock that only counts on: that of the wall may be set back, and everything that was a moment
// ago would then lie ahead.
func (r *Router) elapsed() int64 { return int64(2*lookEvery + time.Since(r.started)) }

// Leader is the name and the address of the node that leads a partition according to the view. It need not be registered
// now if there is a stream to it. A deleted
// topic, which never has one again, is TopicNotFound.
func (r *Router) Leader(p mq.PartitionID) (name, addr string, err error) {
	name, addr, err = r.leader(p)
	return name, addr, r.Named(p, err)
}

// Led says whether Leader knows one.
func (r *Router) Led(p mq.PartitionID) bool {
	_, _, err := r.leader(p)
	return err == nil
}

func (r *Router) leader(p mq.PartitionID) (name, addr string, err error) {
	if t, ok := r.cfg.View.TopicByID(p.Topic); ok && t.Deleted {
		return "", "", mqerr.New(mqerr.TopicNotFound, "%s was deleted", topicName(&t))
	}
	h, ok := r.cfg.View.Head(p)
	if !ok || h.Open == nil {
		return "", "", mqerr.New(mqerr.NoLeader, "it has no open segment now")
	}
	n, ok := r.cfg.View.NodeByStore(h.Open.Leader.Store)
	if ok {
		return n.Name, n.Addr, nil
	}
	if addr := r.connected(h.Open.LeaderNode()); addr != "" {
		return h.Open.LeaderNode(), addr, nil
	}
	return "", "", mqerr.New(mqerr.NoLeader, "its leader %s is not registered", h.Open.LeaderNode())
}

// connected is the address of a node to which a stream is open. A leader may lose its lease by etcd's trouble
// alone, and goes on leading: if it does not, it says so.
func (r *Router) connected(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for addr, n := range r.nodes {
		if n.name == name && n.session.Load() != nil {
			return addr
		}
	}
	return ""
}

// Answers says whether a node was heard within the last seven seconds on the stream to it. The first question opens the stream, and
// waits for that until ctx ends at the latest.
func (r *Router) Answers(ctx context.Context, name, addr string) bool {
	n, err := r.node(name, addr)
	if err != nil {
		return false
	}
	select {
	case <-n.tried:
	case <-ctx.Done():
	}
	s := n.session.Load()
	return s != nil && s.silent(r.elapsed()) < unheard
}

// session is the stream to the node that a hint names as a partition's leader, if that is heard of, or else to the one that
// leads it by the view; NoLeader if there is none now. A hint may be older than the view: a new leader that does not know yet
// that it is one names the dead one before it.
func (r *Router) session(p mq.PartitionID, hint string) (*Session, error) {
	if live, ok := r.cfg.View.Node(hint); ok && hint != "" {
		n, err := r.node(live.Name, live.Addr)
		if err != nil {
			return nil, err
		}
		if s := n.session.Load(); s != nil && s.silent(r.elapsed()) < hush {
			return s, nil
		}
	}
	name, addr, err := r.leader(p)
	if err != nil {
		return nil, err
	}
	n, err := r.node(name, addr)
	if err != nil {
		return nil, err
	}
	if s := n.session.Load(); s != nil {
		return s, nil
	}
	return nil, n.away()
}

// node finds or makes the connection to a node.
func (r *Router) node(name, addr string) (*node, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, mqerr.New(mqerr.Draining, "the gateway stops")
	}
	if n := r.nodes[addr]; n != nil {
		return n, nil
	}
	r.prune()
	n, err := newNode(r, name, addr)
	if err != nil {
		return nil, err
	}
	r.nodes[addr] = n
	return n, nil
}

// prune drops connections to addresses where no node is registered any more and none answers, so that
// nodes that come and go under new addresses don't pile up. The caller holds r.mu.
func (r *Router) prune() {
	live := map[string]bool{}
	for _, n := range r.cfg.View.Nodes() {
		live[n.Addr] = true
	}
	for addr, n := range r.nodes {
		if !live[addr] && n.session.Load() == nil {
			delete(r.nodes, addr)
			n.cancel()
		}
	}
}
