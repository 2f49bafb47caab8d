package lognode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// server is the node's gRPC service: the two streams here, the control calls in control.go.
type server struct {
	mqpb.UnimplementedLogNodeServer
	node *Node
}

func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// Peer takes entries from another node, which leads their segments, and acknowledges them.
func (s *server) Peer(t mqpb.LogNode_PeerServer) error {
	n := s.node
	md, _ := metadata.FromIncomingContext(t.Context())
	boot, err := strconv.ParseUint(first(md, metaBoot), 10, 64)
	from := mq.Incarnation{Store: mq.StoreID(first(md, metaStore)), Boot: boot}
	if err != nil || from.Store == "" {
		return status.Error(codes.InvalidArgument, "the stream does not say whose it is")
	}
	if c := first(md, metaCluster); c != n.store.ClusterID() {
		return status.Errorf(codes.FailedPrecondition, "this node belongs to cluster %s, not to %s", n.store.ClusterID(), c)
	}
	if err := t.SendHeader(metadata.Pairs(metaStore, string(n.store.Identity().Store))); err != nil {
		return err
	}
	stream := link.NewStream(t)
	heard := n.peers.clock(from.Store)
	ack := func(a frame.Ack) {
		_ = stream.Put(frame.TypeAcks, 0, &frame.Acks{Clock: time.Now().UnixNano(), Acks: []frame.Ack{a}})
	}
	stop := tell(stream, heartbeat, wallClock, always)
	defer stop()
	return n.runUntil(t.Context(), stream, func(ft frame.Type, _ uint64, body []byte) error {
		heard.Store(int64(time.Since(n.peers.began)))
		switch ft {
		case frame.TypeEntries:
			return s.entries(from, body, ack)
		case frame.TypeAsk:
			return s.asked(from, body, ack)
		case frame.TypeStatus:
			return n.peers.told(from.Store, body)
		}
		return nil
	})
}

// runUntil serves a stream until it ends, ctx does, or the node does. Returning from the handler is what
// ends the transport, and with it a Run that waits to receive; the node waits for that.
func (n *Node) runUntil(ctx context.Context, stream *link.Stream, handle link.Handler) error {
	defer stream.Close()
	done := make(chan error, 1)
	n.goRun(func() { done <- stream.Run(handle, func() {}) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return status.Error(codes.Unavailable, "the node is stopping")
	}
}

func (s *server) entries(from mq.Incarnation, body []byte, ack func(frame.Ack)) error {
	var f frame.Entries
	if err := f.Parse(body); err != nil {
		return err
	}
	p := s.node.holder(f.Segment)
	if p == nil {
		ack(frame.Ack{Segment: f.Segment, State: frame.AckUnknown})
		return nil
	}
	entries := make([]mq.Entry, len(f.Entries))
	for i, raw := range f.Entries {
		var err error
		if entries[i], err = mq.ParseEntry(raw); err != nil {
			return err // damaged on its way: the stream begins anew, and with it the sending
		}
	}
	p.Offer(from, f.Segment, entries, f.Entries, ack)
	return nil
}

func (s *server) asked(from mq.Incarnation, body []byte, ack func(frame.Ack)) error {
	var f frame.Ask
	if err := f.Parse(body); err != nil {
		return err
	}
	for _, id := range f.Segments {
		if p := s.node.holder(id); p != nil {
			p.Ask(from, id, ack)
		} else {
			ack(frame.Ack{Segment: id, State: frame.AckUnknown})
		}
	}
	return nil
}

// holder is the partition here that holds a segment, or nil.
func (n *Node) holder(id mq.SegmentID) *replica.Partition {
	info, ok := n.store.Segment(id)
	if !ok {
		return nil
	}
	return n.known(info.Segment.Partition)
}

// Gateway serves one gateway: what it asks and what it is answered, in any order.
func (s *server) Gateway(t mqpb.LogNode_GatewayServer) error {
	n := s.node
	n.mu.Lock()
	n.streams++
	id := n.streams
	n.mu.Unlock()
	g := &gatewayStream{node: n, stream: link.NewStream(t), id: id, receipts: mq.NewReceiptVerifier(n.view.Secret)}
	stop := tell(g.stream, tellEvery, n.env.Clock.Now, n.env.Clock.Known())
	defer stop()
	err := n.runUntil(t.Context(), g.stream, g.handle)
	for _, p := range n.all() {
		p.StreamGone(id)
	}
	return err
}

// gatewayStream is one stream from a gateway. handle runs on one goroutine; answers come from many.
type gatewayStream struct {
	node   *Node
	stream *link.Stream
	id     uint64
	// receipts is used by handle only.
	receipts *mq.ReceiptVerifier
	forged   refusals
}

// knownClock is the time by which this node decides, Unix nanoseconds, or 0 while it does not know that.
func (n *Node) knownClock() int64 {
	select {
	case <-n.env.Clock.Known():
		return n.env.Clock.Now()
	default:
		return 0
	}
}

// refusals keeps forged receipts from filling the log: it is callers who choose how many they send. Its zero
// value is ready; for one goroutine.
type refusals struct {
	next time.Time // when the next line may be written
	held int       // refused since the last one
}

// refusalsEvery is the time between two lines.
const refusalsEvery = time.Second

// note counts refusals and says how many a line is to tell of now, or 0 for no line.
func (r *refusals) note(now time.Time, n int) int {
	if r.held += n; r.held == 0 || now.Before(r.next) {
		return 0
	}
	n, r.held = r.held, 0
	r.next = now.Add(refusalsEvery)
	return n
}

// reply answers request id. If the gateway reads too slowly or is gone the answer is lost, as on any network.
func (g *gatewayStream) reply(id uint64) replica.Reply {
	return func(t frame.Type, body link.Encoder) { _ = g.stream.Put(t, id, body) }
}

// push sends a frame that answers nothing; false once the gateway is gone.
func (g *gatewayStream) push(t frame.Type, body link.Encoder) bool {
	return g.stream.Put(t, 0, body) == nil
}

func (g *gatewayStream) fail(id uint64, err error) {
	e := frame.ErrorOf(err)
	g.reply(id)(frame.TypeError, &e)
}

func (g *gatewayStream) handle(t frame.Type, id uint64, body []byte) error {
	switch t {
	case frame.TypeAppend:
		return g.append(id, body)
	case frame.TypeSchedule:
		return g.schedule(id, body)
	case frame.TypeReceive:
		var f frame.Receive
		if err := f.Parse(body); err != nil {
			return err
		}
		if p := g.leader(id, f.Partition); p != nil {
			if f.Account != 0 {
				p.Tell(g.id, g.push)
			}
			p.Receive(g.id, f, g.reply(id))
		}
	case frame.TypeLeased:
		var f frame.Leased
		if err := f.Parse(body); err != nil {
			return err
		}
		if p := g.leader(id, f.Partition); p != nil {
			p.Leased(f, g.reply(id))
		}
	case frame.TypeSettle:
		return g.settle(id, body)
	case frame.TypeConfirm, frame.TypeReturn:
		var f frame.Handover
		if err := f.Parse(body); err != nil {
			return err
		}
		if p := g.node.known(f.Partition); p != nil {
			p.Handover(g.id, t == frame.TypeConfirm, f)
		}
	case frame.TypeRead:
		var f frame.Read
		if err := f.Parse(body); err != nil {
			return err
		}
		if p := g.leader(id, f.Partition); p != nil {
			p.Read(f, g.reply(id))
		}
	case frame.TypeReady:
		return g.ready(id, body)
	case frame.TypeStatus: // is somebody there?
		g.push(frame.TypeStatus, &frame.Status{Clock: g.node.knownClock()})
	default:
		g.fail(id, mqerr.New(mqerr.InvalidRequest, "frame type %d is not known to this version", t))
	}
	return nil
}

// leader is the partition here, or nil after an answer that names the leader.
func (g *gatewayStream) leader(id uint64, p mq.PartitionID) *replica.Partition {
	part := g.node.known(p)
	if part == nil {
		e := mqerr.New(mqerr.NotLeader, "this node holds nothing of the partition")
		if h, ok := g.node.view.Head(p); ok && h.Open != nil {
			e.Leader = h.Open.LeaderNode()
		}
		g.fail(id, e)
	}
	return part
}

// append checks a batch whole before the partition sees it: a state machine never fails on data.
func (g *gatewayStream) append(id uint64, body []byte) error {
	var f frame.Append
	if err := f.Parse(body); err != nil {
		return err
	}
	b, err := g.checked(f.Partition, f.Route, f.Batch)
	if err != nil {
		g.fail(id, err)
		return nil
	}
	if p := g.leader(id, f.Partition); p != nil {
		p.Append(f.Batch, b.Count, g.reply(id))
	}
	return nil
}

// checked reads a batch that is to be stored, and refuses one whose partition was chosen by an old route.
func (g *gatewayStream) checked(p mq.PartitionID, route uint64, batch []byte) (mq.Batch, error) {
	if len(batch) > replica.MaxBatch {
		return mq.Batch{}, mqerr.New(mqerr.InvalidRequest, "batch: %d bytes, at most %d", len(batch), replica.MaxBatch)
	}
	b, err := mq.ParseBatch(batch)
	if err == nil {
		err = b.CheckIndex()
	}
	if err == nil && b.Uses&mq.UsesIdempotency != 0 && b.Codec != mq.CodecNone {
		err = errors.New("one with idempotency keys is not compressed, so that the leader can take repeats out")
	}
	if err != nil {
		return b, mqerr.New(mqerr.InvalidRequest, "batch: %w", err)
	}
	if t, ok := g.node.view.TopicByID(p.Topic); ok && route < t.Route {
		return b, mqerr.New(mqerr.StaleRoute, "the topic's partitions changed")
	}
	return b, nil
}

// schedule checks a batch of scheduled messages as append does.
func (g *gatewayStream) schedule(id uint64, body []byte) error {
	var f frame.Schedule
	if err := f.Parse(body); err != nil {
		return err
	}
	b, err := g.checked(f.Partition, f.Route, f.Batch)
	switch {
	case err != nil:
	case b.Codec != mq.CodecNone || len(f.Times) != b.Count:
		err = mqerr.New(mqerr.InvalidRequest, "batch of schedules: codec %d, %d times for %d messages", b.Codec, len(f.Times), b.Count)
	default:
		for _, t := range f.Times {
			if t == 0 || t < -mq.MaxDelay || t > time.Now().UnixNano()+2*mq.MaxDelay {
				err = mqerr.New(mqerr.InvalidRequest, "batch of schedules: time %d", t)
			}
		}
	}
	if err != nil {
		g.fail(id, err)
		return nil
	}
	if p := g.leader(id, f.Partition); p != nil {
		p.Schedule(f, g.reply(id))
	}
	return nil
}

// settle verifies receipts here, beside the partition: a forged one never reaches it.
func (g *gatewayStream) settle(id uint64, body []byte) error {
	var f frame.Settle
	if err := f.Parse(body); err != nil {
		return err
	}
	p := g.leader(id, f.Partition)
	if p == nil {
		return nil
	}
	items := make([]delivery.SettleItem, 0, len(f.Items))
	refused := make([]mqerr.Code, len(f.Items))
	var forged []any // the first one, for the log
	count := 0
	for i := range f.Items {
		it := &f.Items[i]
		r, err := g.receipts.Verify(it.Receipt)
		if err != nil || r.Partition != f.Partition {
			refused[i] = mqerr.InvalidReceipt
			if count++; count == 1 {
				forged = []any{"receipt", fmt.Sprintf("%+v", r), "for", f.Partition, "err", err}
			}
			continue
		}
		item := delivery.SettleItem{Receipt: r, Reason: it.Reason, Outcome: outcomes[it.Outcome]}
		if it.Outcome == frame.OutcomeExtend {
			item.Lease = it.Delay
		} else {
			item.Delay = it.Delay
		}
		items = append(items, item)
	}
	if n := g.forged.note(time.Now(), count); n > 0 {
		g.node.log.Warn("receipts are refused", append(forged, "count", n)...)
	}
	p.Settle(items, refused, g.reply(id))
	return nil
}

var outcomes = map[frame.Outcome]delivery.Outcome{frame.OutcomeAck: delivery.Ack, frame.OutcomeNack: delivery.Nack,
	frame.OutcomeReject: delivery.Reject, frame.OutcomeExtend: delivery.Extend, frame.OutcomeRelease: delivery.Release,
	frame.OutcomePostpone: delivery.Postpone}

// ready answers how many messages are ready for what the gateway waits for; one answer for all.
func (g *gatewayStream) ready(id uint64, body []byte) error {
	var f frame.Ready
	if err := f.Parse(body); err != nil {
		return err
	}
	byPartition := map[mq.PartitionID][]mq.GroupID{}
	for _, i := range f.Interest {
		byPartition[i.Partition] = append(byPartition[i.Partition], i.Group)
	}
	var mu sync.Mutex
	var counts frame.Counts
	left := len(byPartition)
	done := func(c []frame.ReadyCount) {
		mu.Lock()
		defer mu.Unlock()
		counts.Ready = append(counts.Ready, c...)
		if left--; left == 0 {
			g.reply(id)(frame.TypeCounts, &counts)
		}
	}
	if left == 0 {
		g.reply(id)(frame.TypeCounts, &counts)
	}
	for pid, groups := range byPartition {
		if p := g.node.known(pid); p != nil {
			p.Ready(groups, done)
			continue
		}
		missing := make([]frame.ReadyCount, len(groups))
		for i, group := range groups {
			missing[i] = frame.ReadyCount{Interest: frame.Interest{Partition: pid, Group: group}, Code: mqerr.NotLeader}
		}
		done(missing)
	}
	return nil
}
