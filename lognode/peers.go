package lognode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/splashdam/splashdam/lognode/internal/clocks"
	"github.com/splashdam/splashdam/shared/beat"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// heartbeat is how often each side of a stream between nodes says something.
	heartbeat = beat.Base
	// tellEvery is how often a gateway is told the time by which this node decides.
	tellEvery = 5 * time.Second
	// redial is how long a node waits before it opens a stream that ended again.
	redial = 200 * time.Millisecond
)

// The metadata of a stream between nodes, checked by the one that is called.
const (
	metaNode    = "splashdam-node"
	metaStore   = "splashdam-store"
	metaBoot    = "splashdam-boot"
	metaCluster = "splashdam-cluster"
)

// peers holds a stream to every other node: this node's entries go out on it, acknowledgements come back.
type peers struct {
	n     *Node
	began time.Time

	mu      sync.Mutex
	closed  bool
	byStore map[mq.StoreID]*peer
	heard   map[mq.StoreID]*atomic.Int64 // nanoseconds since began, 0 for never; outlives the peer

	clockMu sync.Mutex
	clocks  *clocks.Clocks
}

// peer is the stream to one node, opened again and again until it is replaced.
type peer struct {
	node   meta.Node
	conn   *grpc.ClientConn
	client mqpb.LogNodeClient
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	stream *link.Stream // nil while there is none that answered
}

func newPeers(n *Node) *peers {
	return &peers{n: n, began: time.Now(), byStore: map[mq.StoreID]*peer{}, heard: map[mq.StoreID]*atomic.Int64{}, clocks: clocks.New()}
}

// update takes up new nodes and new addresses. A node that etcd does not name now is kept: it may only have
// lost its lease, and whether it answers is seen on its stream.
func (ps *peers) update(nodes []meta.Node) {
	others, came := 0, false
	for _, node := range nodes {
		if node.Store == ps.n.store.Identity().Store {
			continue
		}
		others++
		ps.mu.Lock()
		gone := ps.replaced(node)
		was := ps.byStore[node.Store]
		if ps.closed || was != nil && was.node.Addr == node.Addr && was.node.Boot == node.Boot {
			ps.mu.Unlock()
			gone.close()
			continue
		}
		p, err := ps.dial(node)
		if err == nil {
			ps.byStore[node.Store] = p
			came = true
		}
		ps.mu.Unlock()
		gone.close()
		was.close()
		if err != nil {
			ps.n.log.Error("a node's address can't be used", "node", node.Name, "addr", node.Addr, "err", err)
		}
	}
	if came && others >= 2 { // with fewer nobody can tell
		ps.expect()
	}
}

// replaced takes out the peer of the same name with another store: that node lost its directory and is another
// one now. Called with the lock held.
func (ps *peers) replaced(node meta.Node) *peer {
	for id, p := range ps.byStore {
		if p.node.Name == node.Name && id != node.Store {
			delete(ps.byStore, id)
			return p
		}
	}
	return nil
}

func (ps *peers) dial(node meta.Node) (*peer, error) {
	options := append(link.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(node.Addr, append(options, ps.n.cfg.Dial.Options()...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ps.n.ctx)
	p := &peer{node: node, conn: conn, client: mqpb.NewLogNodeClient(conn), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			err := ps.run(ctx, p)
			ps.n.log.Debug("the stream to a node ended", "peer", node.Name, "err", err)
			select {
			case <-time.After(redial):
			case <-ctx.Done():
			}
		}
	}()
	return p, nil
}

// close ends the stream and waits for it; nil is no peer.
func (p *peer) close() {
	if p == nil {
		return
	}
	p.cancel()
	<-p.done
	p.conn.Close()
}

func (ps *peers) close() {
	ps.mu.Lock()
	ps.closed = true
	all := ps.byStore
	ps.byStore = map[mq.StoreID]*peer{}
	ps.mu.Unlock()
	for _, p := range all {
		p.close()
	}
}

// run opens one stream and serves it until it ends. It counts as there once the other side has answered.
func (ps *peers) run(ctx context.Context, p *peer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	id := ps.n.store.Identity()
	t, err := p.client.Peer(metadata.AppendToOutgoingContext(ctx, metaNode, ps.n.cfg.Name, metaStore, string(id.Store),
		metaBoot, strconv.FormatUint(id.Boot, 10), metaCluster, ps.n.store.ClusterID()))
	if err != nil {
		return err
	}
	if err := answers(t, p.node.Store); err != nil {
		return err
	}
	s := link.NewStream(t)
	heard := ps.clock(p.node.Store)
	up := false
	stop := tell(s, heartbeat, wallClock, always)
	err = s.Run(func(ft frame.Type, _ uint64, body []byte) error {
		heard.Store(int64(time.Since(ps.began)))
		if !up {
			up = true
			p.set(s)
			ps.each(func(x partitionEvents) { x.PeerUp(p.node.Store) })
		}
		if ft == frame.TypeStatus {
			return ps.told(p.node.Store, body)
		}
		if ft != frame.TypeAcks {
			return nil
		}
		var acks frame.Acks
		if err := acks.Parse(body); err != nil {
			return err
		}
		for _, a := range acks.Acks {
			if part := ps.n.holder(a.Segment); part != nil {
				part.Acked(p.node.Store, a)
			}
		}
		return nil
	}, cancel)
	stop()
	if up {
		p.set(nil)
		ps.each(func(x partitionEvents) { x.PeerDown(p.node.Store) })
		ps.n.bus.Look("node " + ps.n.cfg.Name + " lost its stream to " + p.node.Name)
	}
	return err
}

// answers checks that the store at the other end is the one that this stream is for: another one may have taken its
// address, and its acknowledgements must not count.
func answers(t mqpb.LogNode_PeerClient, want mq.StoreID) error {
	md, err := t.Header()
	if err != nil {
		return err
	}
	if got := mq.StoreID(first(md, metaStore)); got != want {
		return fmt.Errorf("store %.8s answers where %.8s was", got, want)
	}
	return nil
}

type partitionEvents interface {
	PeerUp(mq.StoreID)
	PeerDown(mq.StoreID)
}

func (ps *peers) each(f func(partitionEvents)) {
	for _, p := range ps.n.all() {
		f(p)
	}
}

// tell tells a clock (Unix nanoseconds) at once and then that often until the stream ends or stop is called, which waits for it. It begins
// once known is closed.
func tell(s *link.Stream, every time.Duration, clock func() int64, known <-chan struct{}) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-known:
		case <-quit:
			return
		}
		next := beat.NewTicker(every)
		defer next.Stop()
		for {
			if err := s.Put(frame.TypeStatus, 0, &frame.Status{Clock: clock()}); errors.Is(err, link.ErrClosed) {
				return
			}
			select {
			case <-next.C:
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// always is a channel for what need not be waited for.
var always = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// wallClock is what the machine's clock says, Unix nanoseconds.
func wallClock() int64 { return time.Now().UnixNano() }

func (p *peer) set(s *link.Stream) {
	p.mu.Lock()
	p.stream = s
	p.mu.Unlock()
}

func (p *peer) get() *link.Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream
}

func (ps *peers) clock(id mq.StoreID) *atomic.Int64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	c := ps.heard[id]
	if c == nil {
		c = &atomic.Int64{}
		ps.heard[id] = c
	}
	return c
}

// told takes a heartbeat, which says what the other node's clock is. (Acknowledgements carry it too; ten beats in two
// seconds are enough to find the one with the least delay.)
func (ps *peers) told(from mq.StoreID, body []byte) error {
	var s frame.Status
	if err := s.Parse(body); err != nil {
		return err
	}
	ps.clockMu.Lock()
	defer ps.clockMu.Unlock()
	ps.clocks.Heard(from, s.Clock, int64(time.Since(ps.began)))
	return nil
}

// expect has what the other nodes will say of this node's clock waited for, if they have not said it yet.
func (ps *peers) expect() {
	ps.clockMu.Lock()
	defer ps.clockMu.Unlock()
	ps.clocks.Expect(int64(time.Since(ps.began)))
	if ps.said().Soon {
		ps.n.env.Clock.Expect()
	}
}

// Clock is what the other nodes say of this node's clock.
func (ps *peers) Clock() clocks.Word {
	ps.clockMu.Lock()
	defer ps.clockMu.Unlock()
	return ps.said()
}

// said is Clock with clockMu held.
func (ps *peers) said() clocks.Word {
	own := time.Now()
	return ps.clocks.Ask(own.UnixNano(), int64(own.Sub(ps.began)))
}

func (ps *peers) find(id mq.StoreID) *peer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byStore[id]
}

// Send queues a frame on the stream to a follower; false if there is none now or it is full.
func (ps *peers) Send(to mq.StoreID, t frame.Type, body link.Encoder) bool {
	p := ps.find(to)
	if p == nil {
		return false
	}
	s := p.get()
	return s != nil && s.Put(t, 0, body) == nil
}

// Heard is when the node last sent anything, on either stream; zero for never. It is not a moment of the clock on the wall,
// which may be set, but of the one that only counts on: who is silent since then is not heard again by setting a clock.
func (ps *peers) Heard(from mq.StoreID) time.Time {
	if since := ps.clock(from).Load(); since != 0 {
		return ps.began.Add(time.Duration(since))
	}
	return time.Time{}
}

// Connected says whether there is a stream to the node that it has answered on.
func (ps *peers) Connected(to mq.StoreID) bool {
	p := ps.find(to)
	return p != nil && p.get() != nil
}

// Client makes control calls to a node that was seen since this one started.
func (ps *peers) Client(to mq.StoreID) (mqpb.LogNodeClient, error) {
	if p := ps.find(to); p != nil {
		return p.client, nil
	}
	return nil, fmt.Errorf("store %.8s has not been seen", to)
}
