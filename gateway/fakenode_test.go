package gateway

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// fakeNode is a log node that leads what the test's etcd says it leads: it answers reads from lists, and
// control calls from what it was told.
type fakeNode struct {
	mqpb.UnimplementedLogNodeServer
	addr string

	mu          sync.Mutex
	first       map[mq.PartitionID]uint64
	logs        map[mq.PartitionID][]fakeMessage
	groups      map[uint64]*mqpb.Group // by id, as they were ensured
	held        map[mq.PartitionID][]*mqpb.HeldMessage
	traces      map[uint64]*mqpb.TraceResponse // by offset
	deadLetters map[uint32]uint64              // how many, by partition
	deadBroken  uint32                         // this partition does not answer
	deadCalls   []*mqpb.DeadLettersRequest
	refuses     error // what every control call answers
	removal     map[mq.PartitionID]*mqpb.Removal
	clock       func() int64      // what a stream is told first; 0 for nothing
	takingOver  int               // how many more times PartitionFigures finds it not leading yet
	onRead      func(*frame.Read) // told of every read after its answer was made
}

type fakeMessage struct {
	stamp int64
	m     mq.Message
}

func startFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &fakeNode{addr: ln.Addr().String(), clock: func() int64 { return time.Now().UnixNano() }, first: map[mq.PartitionID]uint64{}, logs: map[mq.PartitionID][]fakeMessage{},
		groups: map[uint64]*mqpb.Group{}, held: map[mq.PartitionID][]*mqpb.HeldMessage{}, traces: map[uint64]*mqpb.TraceResponse{}}
	s := grpc.NewServer(link.ServerOptions()...)
	mqpb.RegisterLogNodeServer(s, n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ln)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return n
}

func (n *fakeNode) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// put stores messages with the stamps stamp, stamp+1, ...
func (n *fakeNode) put(p mq.PartitionID, stamp int64, messages ...mq.Message) {
	n.set(func() {
		for i, m := range messages {
			n.logs[p] = append(n.logs[p], fakeMessage{stamp + int64(i), m})
		}
	})
}

// Gateway answers Read frames; the gateway's other frames get an error.
func (n *fakeNode) Gateway(t mqpb.LogNode_GatewayServer) error {
	s := link.NewStream(t)
	n.mu.Lock()
	at := n.clock()
	n.mu.Unlock()
	if err := s.Put(frame.TypeStatus, 0, &frame.Status{Clock: at}); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		done <- s.Run(func(ft frame.Type, id uint64, body []byte) error {
			if ft == frame.TypeReady {
				return s.Put(frame.TypeCounts, id, n.counts(body))
			}
			if ft != frame.TypeRead {
				e := frame.ErrorOf(mqerr.New(mqerr.Internal, "the fake does not take frame %d", ft))
				return s.Put(frame.TypeError, id, &e)
			}
			var f frame.Read
			if err := f.Parse(body); err != nil {
				return err
			}
			r, err := n.read(&f)
			if told := n.watcher(); told != nil {
				told(&f)
			}
			if err != nil {
				e := frame.ErrorOf(err)
				return s.Put(frame.TypeError, id, &e)
			}
			return s.Put(frame.TypeReadDone, id, r)
		}, func() {})
	}()
	<-t.Context().Done()
	s.Close()
	return nil
}

// counts answers where partitions end, and nothing about groups.
func (n *fakeNode) counts(body []byte) *frame.Counts {
	var f frame.Ready
	out := &frame.Counts{}
	if f.Parse(body) != nil {
		return out
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, i := range f.Interest {
		if i.Group == frame.TailGroup {
			out.Ready = append(out.Ready, frame.ReadyCount{Interest: i, Count: n.first[i.Partition] + uint64(len(n.logs[i.Partition]))})
		}
	}
	return out
}

func (n *fakeNode) watcher() func(*frame.Read) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.onRead
}

func (n *fakeNode) place(p mq.PartitionID, at frame.Place) uint64 {
	first, log := n.first[p], n.logs[p]
	switch at.Where {
	case frame.AtOffset:
		return at.Value
	case frame.Earliest:
		return first
	case frame.AtTime:
		for i, m := range log {
			if m.stamp >= int64(at.Value) {
				return first + uint64(i)
			}
		}
	}
	return first + uint64(len(log))
}

// read answers a message a chunk, as the leader's Read does with its bounds.
func (n *fakeNode) read(f *frame.Read) (*frame.ReadDone, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := f.Partition
	first, end := n.first[p], n.first[p]+uint64(len(n.logs[p]))
	from, to := n.place(p, f.From), min(n.place(p, f.To), end)
	switch {
	case from < first:
		return nil, mqerr.New(mqerr.OffsetExpired, "offset %d is no longer kept; the first one is %d", from, first)
	case from > end:
		return nil, mqerr.New(mqerr.OffsetOutOfRange, "offset %d is beyond the end; the next one is %d", from, end)
	}
	done := &frame.ReadDone{First: first, End: end, Next: from}
	if f.Backward {
		done.Next = to
	}
	if from >= to {
		return done, nil
	}
	count := min(uint64(f.Limit), to-from)
	if f.Backward {
		from = to - count
		done.Next = from
	} else {
		done.Next = from + count
	}
	for o := from; o < from+count; o++ {
		m := n.logs[p][o-first]
		var b mq.BatchBuilder
		b.Add(&m.m)
		done.Chunks = append(done.Chunks, frame.Chunk{First: o, Stamp: m.stamp, Batch: b.AppendTo(nil, "", "gateway-1", mq.CodecNone, nil)})
	}
	return done, nil
}

func (n *fakeNode) EnsureGroup(_ context.Context, r *mqpb.EnsureGroupRequest) (*mqpb.EnsureGroupResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuses != nil {
		return nil, mqpb.Status(n.refuses)
	}
	n.groups[r.GetGroup().GetId()] = r.GetGroup()
	out := &mqpb.EnsureGroupResponse{}
	for _, p := range r.GetPartitions() {
		out.Results = append(out.Results, &mqpb.PartitionResult{Partition: p})
	}
	return out, nil
}

func (n *fakeNode) DeleteGroup(_ context.Context, r *mqpb.DeleteGroupRequest) (*mqpb.DeleteGroupResponse, error) {
	n.set(func() { delete(n.groups, r.GetGroup()) })
	return &mqpb.DeleteGroupResponse{}, nil
}

// GroupFigures says of partition p: p+1 messages not settled, one of them leased, all stamped at p+1 seconds.
func (n *fakeNode) GroupFigures(_ context.Context, r *mqpb.GroupFiguresRequest) (*mqpb.GroupFiguresResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := &mqpb.GroupFiguresResponse{}
	for _, p := range r.GetPartitions() {
		f := &mqpb.GroupFigures{Partition: p, Cursor: 10, Next: 11 + uint64(p.GetNumber()), Lag: 1 + uint64(p.GetNumber()), Ready: uint64(p.GetNumber()),
			Leased: 1, Dead: 2, OldestStamp: int64(p.GetNumber()+1) * 1e9}
		if n.groups[r.GetGroup()] == nil {
			f = &mqpb.GroupFigures{Partition: p, Code: uint32(mqerr.GroupNotFound)}
		}
		out.Figures = append(out.Figures, f)
	}
	return out, nil
}

func (n *fakeNode) PartitionFigures(_ context.Context, r *mqpb.PartitionFiguresRequest) (*mqpb.PartitionFiguresResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuses != nil {
		return nil, mqpb.Status(n.refuses)
	}
	if n.takingOver > 0 {
		n.takingOver--
		return nil, mqpb.Status(mqerr.New(mqerr.NoLeader, "this node does not lead the partition"))
	}
	out := &mqpb.PartitionFiguresResponse{}
	for _, p := range r.GetPartitions() {
		first, log := n.first[p.MQ()], n.logs[p.MQ()]
		f := &mqpb.PartitionFigures{Partition: p, First: first, Next: first + uint64(len(log)),
			Bytes: 100 * uint64(len(log)), Segments: 1, PublishRate: 1.5, DeliverRate: 0.5}
		if r.Settings != nil {
			f.Removal = n.removal[p.MQ()]
		}
		out.Figures = append(out.Figures, f)
	}
	return out, nil
}

func (n *fakeNode) HeldMessages(_ context.Context, r *mqpb.HeldMessagesRequest) (*mqpb.HeldMessagesResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := &mqpb.HeldMessagesResponse{}
	for _, m := range n.held[r.GetPartition().MQ()] {
		if m.GetState() == r.GetState() && m.GetOffset() >= r.GetFrom() && len(out.Messages) < int(r.GetLimit()) {
			out.Messages = append(out.Messages, m)
		}
	}
	if n := len(out.Messages); n > 0 && n == int(r.GetLimit()) {
		out.Next = out.Messages[n-1].Offset + 1
	}
	return out, nil
}

func (n *fakeNode) Trace(_ context.Context, r *mqpb.TraceRequest) (*mqpb.TraceResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if tr := n.traces[r.GetOffset()]; tr != nil {
		return tr, nil
	}
	return nil, mqpb.Status(mqerr.New(mqerr.OffsetExpired, "offset %d is no longer kept", r.GetOffset()))
}

// values makes messages of texts.
func values(texts ...string) []mq.Message {
	out := make([]mq.Message, len(texts))
	for i, s := range texts {
		out[i] = mq.Message{Lane: mq.LaneNormal, Value: []byte(s)}
	}
	return out
}

// numbered makes messages "0", "1", ...
func numbered(n int) []mq.Message {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return values(texts...)
}
