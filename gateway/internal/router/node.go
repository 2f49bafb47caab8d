package router

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// The keys of a stream's gRPC metadata.
const (
	metaGateway  = "splashdam-gateway"
	metaInstance = "splashdam-instance"
)

const (
	firstReopen = 20 * time.Millisecond
	lastReopen  = time.Second
	// While calls wait on a node it is asked for a sign of life when it said nothing for half of hush. After hush without a word
	// the controller is asked to look at it; after quiet its calls are ended if it leads nothing any more; after silence if it is
	// not registered any more. While nothing waits nobody listens: a node says its clock every five seconds then.
	hush    = 600 * time.Millisecond
	quiet   = time.Second
	silence = 2 * time.Second
)

// node is the connection to one log node. Its goroutine keeps one stream open.
type node struct {
	r      *Router
	name   string
	addr   string
	conn   *grpc.ClientConn
	client mqpb.LogNodeClient
	cancel context.CancelFunc

	session atomic.Pointer[Session] // nil while no stream is open
	tried   chan struct{}           // closed when it is known whether the first stream opens
	failed  atomic.Bool             // a stream could not be opened, or ended; the log says why
}

// Session is one opened stream. It is valid to use one after its end; everything fails then.
type Session struct {
	node   string
	caller *link.Caller
	heard  atomic.Int64 // when the last frame came, as Router.elapsed
}

// Node is the log node's name.
func (s *Session) Node() string { return s.node }

// silent is how long nothing came from the node; now is Router.elapsed.
func (s *Session) silent(now int64) time.Duration {
	return time.Duration(now - s.heard.Load())
}

// Confirm says that a hand-over reached its consumer.
func (s *Session) Confirm(p mq.PartitionID, g mq.GroupID, handover uint64) error {
	return s.caller.Tell(frame.TypeConfirm, &frame.Handover{Partition: p, Group: g, Handover: handover})
}

// Return gives a hand-over back uncounted, or only some of its offsets. On an ended stream there is nothing
// to do: the node has taken back what was not confirmed.
func (s *Session) Return(p mq.PartitionID, g mq.GroupID, handover uint64, offsets []uint64) error {
	return s.caller.Tell(frame.TypeReturn, &frame.Handover{Partition: p, Group: g, Handover: handover, Offsets: offsets})
}

func newNode(r *Router, name, addr string) (*node, error) {
	options := append(link.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // loopback only in this version, see Config.Insecure
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstReopen, Multiplier: 1.6, Jitter: 0.2, MaxDelay: lastReopen},
			MinConnectTimeout: 2 * time.Second,
		}))
	conn, err := grpc.NewClient("passthrough:///"+addr, append(options, r.cfg.Dial.Options()...)...)
	if err != nil {
		return nil, fmt.Errorf("router: node %s at %s: %w", name, addr, err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	n := &node{r: r, name: name, addr: addr, conn: conn, client: mqpb.NewLogNodeClient(conn), cancel: cancel, tried: make(chan struct{})}
	r.work.Add(1)
	go func() {
		defer r.work.Done()
		defer func() { _ = conn.Close() }()
		n.run(ctx)
	}()
	return n, nil
}

// away is the error while no stream is open.
func (n *node) away() error {
	if n.failed.Load() {
		return mqerr.New(mqerr.NoLeader, "%s can't be reached", n.name)
	}
	return mqerr.New(mqerr.NoLeader, "node %s is not connected yet", n.name)
}

// run keeps a stream open until ctx ends.
func (n *node) run(ctx context.Context) {
	pause := firstReopen
	tried := sync.OnceFunc(func() { close(n.tried) })
	defer tried()
	for ctx.Err() == nil {
		start := time.Now()
		err := n.stream(ctx, tried)
		tried()
		if ctx.Err() != nil {
			return
		}
		n.failed.Store(true)
		n.r.cfg.Log.Debug("the stream to a log node ended", slog.String("node", n.name), slog.Any("error", err))
		if time.Since(start) > lastReopen {
			pause = firstReopen
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
		pause = min(2*pause, lastReopen)
	}
}

// stream opens one stream, calls opened, and serves the stream until it ends.
func (n *node) stream(ctx context.Context, opened func()) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, metaGateway, n.r.cfg.Gateway, metaInstance, n.r.cfg.Instance))
	defer cancel()
	transport, err := n.client.Gateway(ctx, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	stream := link.NewStream(transport)
	s := &Session{node: n.name, caller: link.NewCaller(stream)}
	s.heard.Store(n.r.elapsed())
	n.session.Store(s)
	opened()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		n.watch(ctx, cancel, s)
	}()
	err = stream.Run(func(t frame.Type, id uint64, body []byte) error {
		s.heard.Store(n.r.elapsed())
		if t == frame.TypeStatus {
			var f frame.Status
			if err := f.Parse(body); err != nil {
				return err
			}
			if told := n.r.cfg.Told; told != nil && f.Clock != 0 {
				told(n.name, f.Clock)
			}
			return nil
		}
		if t == frame.TypeFreed {
			var f frame.Freed
			if err := f.Parse(body); err != nil {
				return err
			}
			n.r.cfg.Freed(&f)
			return nil
		}
		return s.caller.Handle(t, id, body)
	}, cancel)
	n.session.CompareAndSwap(s, nil)
	if err == nil {
		err = link.ErrClosed
	}
	s.caller.Fail(err)
	<-watched
	return err
}

// watch ends a stream that says nothing when what is called for on it is elsewhere by now: its host is gone or its
// process hangs, and TCP would keep the calls waiting.
func (n *node) watch(ctx context.Context, end context.CancelFunc, s *Session) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.caller.Began():
			n.attend(ctx, end, s)
		}
	}
}

// attend watches while calls wait. A node owes nobody a word before the first of them.
func (n *node) attend(ctx context.Context, end context.CancelFunc, s *Session) {
	since := n.r.elapsed()
	look := time.NewTimer(hush / 2)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if !s.caller.Waits() {
			return
		}
		now := n.r.elapsed()
		silent := min(s.silent(now), time.Duration(now-since))
		if silent < hush/2 {
			look.Reset(hush/2 - silent)
			continue
		}
		_ = s.caller.Tell(frame.TypeStatus, &frame.Status{}) // if it reads too slowly, it has enough to answer
		if silent < hush {
			look.Reset(hush - silent)
			continue
		}
		look.Reset(hush / 3)
		n.r.lookAt("node " + n.name + " says nothing")
		live, ok := n.r.cfg.View.Node(n.name)
		registered := ok && live.Addr == n.addr
		if silent >= silence && !registered || silent >= quiet && registered && !n.r.cfg.View.Leads(live.Store) {
			end()
			return
		}
	}
}
