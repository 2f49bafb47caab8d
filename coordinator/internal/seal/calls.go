package seal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Calls makes the control calls to log nodes. Safe for use by many goroutines.
type Calls struct {
	dial  link.Dial
	least time.Duration
	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by address
}

// NewCalls makes a Calls without connections, to be opened with dial (nil is plain TCP); Close ends it. least is how long nodes are
// waited for at least, where they would be passed over sooner: 0 but in tests, whose nodes answer in the end.
func NewCalls(dial link.Dial, least time.Duration) *Calls {
	return &Calls{dial: dial, least: least, conns: map[string]*grpc.ClientConn{}}
}

// wait is how long nodes are waited for that would be for d.
func (c *Calls) wait(d time.Duration) time.Duration { return max(d, c.least) }

// Close closes all connections; no call may run or follow.
func (c *Calls) Close() { c.Keep(nil) }

// Keep closes the connections to all other addresses.
func (c *Calls) Keep(addrs map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for addr, conn := range c.conns {
		if !addrs[addr] {
			conn.Close() // it fails only when it is closed already
			delete(c.conns, addr)
		}
	}
}

func (c *Calls) node(addr string) (mqpb.LogNodeClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.conns[addr]
	if conn == nil {
		var err error
		conn, err = grpc.NewClient(addr, append(append(link.DialOptions(), c.dial.Options()...),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
			// A node that comes back must be seen within the time of a failover.
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
				Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 300 * time.Millisecond}}))...)
		if err != nil {
			return nil, fmt.Errorf("seal: connecting to %s: %w", addr, err)
		}
		c.conns[addr] = conn
	}
	return mqpb.NewLogNodeClient(conn), nil
}

// reply is what one node answered to a probe or a seal.
type reply struct {
	node   mq.Incarnation
	states map[mq.SegmentID]Answer
}

// Probe asks a node what it knows of segments.
func (c *Calls) Probe(ctx context.Context, addr string, segments []mq.SegmentID) (reply, error) {
	n, err := c.node(addr)
	if err != nil {
		return reply{}, err
	}
	r, err := n.Probe(ctx, &mqpb.ProbeRequest{Segments: ids(segments)})
	if err != nil {
		return reply{}, err
	}
	return answers(r.GetNode(), r.GetSegments()), nil
}

// Seal makes a node write durable seal flags and answer tails.
func (c *Calls) Seal(ctx context.Context, addr string, segments []mq.SegmentID, reason string) (reply, error) {
	n, err := c.node(addr)
	if err != nil {
		return reply{}, err
	}
	r, err := n.Seal(ctx, &mqpb.SealRequest{Segments: ids(segments), Reason: reason})
	if err != nil {
		return reply{}, err
	}
	return answers(r.GetNode(), r.GetSegments()), nil
}

// New is a segment to be made, with the revision of the partition's key that its opening will compare (R5).
type New struct {
	Segment  mq.Segment
	Revision int64
}

// created is what a node answered to Create: the reason of each segment that it refused.
type created struct {
	node    mq.Incarnation
	made    map[mq.SegmentID]bool
	refused map[mq.SegmentID]string
}

// Create makes a node write replicas of new segments durably.
func (c *Calls) Create(ctx context.Context, addr, cluster string, segments []New) (created, error) {
	n, err := c.node(addr)
	if err != nil {
		return created{}, err
	}
	req := &mqpb.CreateRequest{Cluster: cluster}
	for i := range segments {
		req.Segments = append(req.Segments, &mqpb.NewSegment{Segment: mqpb.FromSegment(&segments[i].Segment), Revision: segments[i].Revision})
	}
	r, err := n.Create(ctx, req)
	if err != nil {
		return created{}, err
	}
	out := created{node: r.GetNode().MQ(), made: map[mq.SegmentID]bool{}, refused: map[mq.SegmentID]string{}}
	for _, x := range r.GetResults() {
		if x.GetOk() {
			out.made[mq.SegmentID(x.GetSegment())] = true
		} else {
			out.refused[mq.SegmentID(x.GetSegment())] = x.GetReason()
		}
	}
	return out, nil
}

func ids(segments []mq.SegmentID) []uint64 {
	out := make([]uint64, len(segments))
	for i, s := range segments {
		out[i] = uint64(s)
	}
	return out
}

func answers(node *mqpb.Incarnation, states []*mqpb.SegmentState) reply {
	out := reply{node: node.MQ(), states: make(map[mq.SegmentID]Answer, len(states))}
	for _, s := range states {
		out.states[mq.SegmentID(s.GetSegment())] = Answer{
			Node: out.node, Known: s.GetKnown(), Sealed: s.GetSealed(), Leads: s.GetLeads(), Committing: s.GetCommitting(),
			Damaged: s.GetDamaged(), Tail: s.Left(),
		}
	}
	return out
}
