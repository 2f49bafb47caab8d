package coordinator

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// fakeNode is a log node that knows tails only: what the controller calls, over real gRPC and with a real
// registration.
type fakeNode struct {
	mqpb.UnimplementedLogNodeServer
	t     testing.TB
	name  string
	store mq.StoreID
	addr  string

	mu       sync.Mutex
	boot     uint64
	dead     bool
	segments map[uint64]*fakeReplica // survives restarts: it is the disk
	refuse   string                  // Create answers this reason
	stalled  bool                    // leads, but does not commit
	seals    int                     // Seal calls
	sealing  func()                  // called by each, before anything is sealed
	server   *grpc.Server
	entry    *meta.Registration
	serving  sync.WaitGroup
}

type fakeReplica struct {
	segment *mqpb.Segment
	tail    mq.Position
	sealed  bool
	against int64 // the revision that its creation compares
}

func newFakeNode(t testing.TB, name string, store mq.StoreID) *fakeNode {
	return &fakeNode{t: t, name: name, store: store, segments: map[uint64]*fakeReplica{}}
}

// start serves under a new boot number, on the address of before if there is one, and registers.
func (n *fakeNode) start(s *meta.Store) {
	n.t.Helper()
	n.serve()
	if n.entry != nil {
		n.entry.Close()
	}
	var err error
	n.entry, err = s.Register(context.Background(), meta.NodeKey(n.name),
		meta.Node{Name: n.name, Store: n.store, Boot: n.boot, Addr: n.addr}, 2*time.Second, n.gate)
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *fakeNode) serve() {
	n.t.Helper()
	addr := n.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addr, n.dead = l.Addr().String(), false
	n.boot++
	server := grpc.NewServer(link.ServerOptions()...)
	n.server = server
	mqpb.RegisterLogNodeServer(server, n)
	n.serving.Add(1)
	go func() {
		defer n.serving.Done()
		if err := server.Serve(l); err != nil {
			n.t.Errorf("%s: %v", n.name, err)
		}
	}()
}

func (n *fakeNode) gate(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return errors.New("killed")
	}
	return nil
}

// die stops serving and leaves the registration to its lease, as kill -9 would.
func (n *fakeNode) die() {
	n.mu.Lock()
	n.dead = true
	n.mu.Unlock()
	n.server.Stop()
	n.serving.Wait()
}

// stop also gives the registration back.
func (n *fakeNode) stop() {
	if n.entry != nil {
		n.entry.Close()
	}
	n.die()
}

func (n *fakeNode) with(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// append moves the tail of a segment.
func (n *fakeNode) append(id mq.SegmentID, tail mq.Position) {
	n.with(func() {
		r := n.segments[uint64(id)]
		if r == nil {
			n.t.Errorf("%s does not have segment %d", n.name, id)
			return
		}
		r.tail = tail
	})
}

func (n *fakeNode) id() *mqpb.Incarnation {
	return &mqpb.Incarnation{Store: string(n.store), Boot: n.boot}
}

func (n *fakeNode) state(id uint64) *mqpb.SegmentState {
	r := n.segments[id]
	if r == nil {
		return &mqpb.SegmentState{Segment: id}
	}
	leads := !r.sealed && r.segment.Leader.Store == string(n.store) && r.segment.Leader.Boot == n.boot
	return &mqpb.SegmentState{Segment: id, Known: true, Sealed: r.sealed, Leads: leads, Committing: leads && !n.stalled,
		Tail: &mqpb.Position{Offset: r.tail.Offset, Seq: r.tail.Seq}}
}

// Probe implements mqpb.LogNodeServer.
func (n *fakeNode) Probe(_ context.Context, req *mqpb.ProbeRequest) (*mqpb.ProbeResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := &mqpb.ProbeResponse{Node: n.id()}
	for _, id := range req.Segments {
		out.Segments = append(out.Segments, n.state(id))
	}
	return out, nil
}

// Seal implements mqpb.LogNodeServer.
func (n *fakeNode) Seal(_ context.Context, req *mqpb.SealRequest) (*mqpb.SealResponse, error) {
	var sealing func()
	n.with(func() { sealing = n.sealing })
	if sealing != nil {
		sealing()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seals++
	out := &mqpb.SealResponse{Node: n.id()}
	for _, id := range req.Segments {
		if r := n.segments[id]; r != nil {
			r.sealed = true
		}
		out.Segments = append(out.Segments, n.state(id))
	}
	return out, nil
}

// Create implements mqpb.LogNodeServer.
func (n *fakeNode) Create(_ context.Context, req *mqpb.CreateRequest) (*mqpb.CreateResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := &mqpb.CreateResponse{Node: n.id()}
	for _, s := range req.Segments {
		res := &mqpb.CreateResult{Segment: s.Segment.Id, Ok: n.refuse == "", Reason: n.refuse}
		if res.Ok {
			n.segments[s.Segment.Id] = &fakeReplica{segment: s.Segment, against: s.Revision,
				tail: mq.Position{Offset: s.Segment.Base.Offset, Seq: s.Segment.Base.Seq}}
		}
		out.Results = append(out.Results, res)
	}
	return out, nil
}
