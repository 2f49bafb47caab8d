package gateway

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// leader is a log node in memory that leads every partition it is asked about. It keeps the promises of a
// leader towards a gateway (offsets, leases, fences, hand-overs that are confirmed or come back) and none of
// those towards a disk.
type leader struct {
	mqpb.UnimplementedLogNodeServer
	addr   string
	secret func(uint32) []byte
	server *grpc.Server

	mu       sync.Mutex
	parts    map[mq.PartitionID]*partLog
	groups   map[mq.GroupID]bool
	forget   bool                                       // EnsureGroup is taken and forgotten once
	refuse   func(t frame.Type, p mq.PartitionID) error // an answer instead of doing it
	cut      func(t frame.Type, p mq.PartitionID) bool  // ends the stream after doing it, without an answer
	hold     chan struct{}                              // appends wait until it is closed
	asked    int                                        // Ready frames
	moved    chan struct{}                              // closed and renewed whenever something happened
	confirms int
	streams  []string // gateway/instance of each stream
	deposed  int      // changes of schedules that find it leading no more
}

type partLog struct {
	batches []stored
	next    uint64
	dues    []int64 // of schedules, by number
	groups  map[mq.GroupID]*deliveries
}

type stored struct {
	first uint64
	batch mq.Batch
	raw   []byte
}

// deliveries is one group's state in one partition.
type deliveries struct {
	fresh   uint64
	again   []uint64
	attempt map[uint64]uint32
	fence   map[uint64]uint64 // offset to the counter of its last lease
	leased  map[uint64]bool
	acked   map[uint64]bool
	counter uint64
	out     map[uint64][]uint64 // hand-overs that are neither confirmed nor returned
}

func startLeader(t testing.TB, secret func(uint32) []byte) *leader {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &leader{addr: ln.Addr().String(), secret: secret, parts: map[mq.PartitionID]*partLog{}, groups: map[mq.GroupID]bool{}, moved: make(chan struct{})}
	l.server = grpc.NewServer(link.ServerOptions()...)
	mqpb.RegisterLogNodeServer(l.server, l)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.server.Serve(ln)
	}()
	t.Cleanup(func() {
		l.server.Stop()
		<-done
	})
	return l
}

// with changes the leader's state, and tells who waits for that.
func (l *leader) with(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.moved)
	l.moved = make(chan struct{})
}

// until waits until ok holds.
func (l *leader) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(2 * time.Minute) // a bound for a broken test, not an expectation
	for {
		l.mu.Lock()
		good, moved := ok(), l.moved
		l.mu.Unlock()
		if good {
			return
		}
		select {
		case <-moved:
		case <-timeout:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (l *leader) part(p mq.PartitionID) *partLog {
	x := l.parts[p]
	if x == nil {
		x = &partLog{groups: map[mq.GroupID]*deliveries{}}
		l.parts[p] = x
	}
	return x
}

func (l *leader) EnsureGroup(_ context.Context, r *mqpb.EnsureGroupRequest) (*mqpb.EnsureGroupResponse, error) {
	out := &mqpb.EnsureGroupResponse{}
	l.with(func() {
		if !l.forget {
			l.groups[mq.GroupID(r.Group.Id)] = true
		}
		l.forget = false
	})
	for _, p := range r.Partitions {
		out.Results = append(out.Results, &mqpb.PartitionResult{Partition: p})
	}
	return out, nil
}

// Gateway serves one stream; what was handed over on it and not confirmed comes back at its end.
func (l *leader) Gateway(transport mqpb.LogNode_GatewayServer) error {
	md, _ := metadata.FromIncomingContext(transport.Context())
	l.with(func() {
		l.streams = append(l.streams, md.Get("splashdam-gateway")[0]+"/"+md.Get("splashdam-instance")[0])
	})
	s := link.NewStream(transport)
	if err := s.Put(frame.TypeStatus, 0, &frame.Status{Clock: time.Now().UnixNano()}); err != nil {
		return err
	}
	var mine []frame.Handover
	err := s.Run(func(t frame.Type, id uint64, body []byte) error {
		return l.frame(s, t, id, body, &mine)
	}, func() {})
	l.with(func() {
		for _, h := range mine {
			l.giveBack(h)
		}
	})
	return err
}

func (l *leader) frame(s *link.Stream, t frame.Type, id uint64, body []byte, mine *[]frame.Handover) error {
	fail := func(err error) error {
		e := frame.ErrorOf(err)
		return s.Put(frame.TypeError, id, &e)
	}
	var answer link.Encoder
	var p mq.PartitionID
	var err error
	do := func() error { return nil }
	switch t {
	case frame.TypeStatus:
		return s.Put(frame.TypeStatus, 0, &frame.Status{})
	case frame.TypeAppend:
		var f frame.Append
		err = f.Parse(body)
		p = f.Partition
		do = func() error { answer, err = l.append(&f); return err }
	case frame.TypeSchedule:
		var f frame.Schedule
		err = f.Parse(body)
		p = f.Partition
		do = func() error { answer, err = l.schedule(&f); return err }
	case frame.TypeReceive:
		var f frame.Receive
		err = f.Parse(body)
		p = f.Partition
		do = func() error {
			*mine = append(*mine, frame.Handover{Partition: p, Group: f.Group, Handover: f.Handover})
			answer, err = l.receive(&f)
			return err
		}
	case frame.TypeSettle:
		var f frame.Settle
		err = f.Parse(body)
		p = f.Partition
		do = func() error { answer = l.settle(&f); return nil }
	case frame.TypeLeased:
		var f frame.Leased
		err = f.Parse(body)
		p = f.Partition
		do = func() error { answer = l.leasedUntil(&f); return nil }
	case frame.TypeReady:
		var f frame.Ready
		err = f.Parse(body)
		do = func() error { answer = l.ready(&f); return nil }
	case frame.TypeConfirm, frame.TypeReturn:
		var f frame.Handover
		if err = f.Parse(body); err == nil {
			l.with(func() {
				if t == frame.TypeReturn {
					l.giveBack(f)
				} else if d := l.part(f.Partition).groups[f.Group]; d != nil {
					delete(d.out, f.Handover)
					l.confirms++
				}
			})
		}
		return err
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	refuse, cut, hold := l.refuse, l.cut, l.hold
	l.mu.Unlock()
	if refuse != nil {
		if err := refuse(t, p); err != nil {
			return fail(err)
		}
	}
	if hold != nil && t == frame.TypeAppend {
		go func() {
			<-hold
			l.with(func() { err = do() })
			if err == nil {
				_ = s.Put(t+1, id, answer)
			}
		}()
		return nil
	}
	if l.with(func() { err = do() }); err != nil {
		return fail(err)
	}
	if cut != nil && cut(t, p) {
		return mqerr.New(mqerr.Internal, "cut")
	}
	return s.Put(t+1, id, answer)
}

func (l *leader) append(f *frame.Append) (*frame.Appended, error) {
	raw := slices.Clone(f.Batch)
	b, err := mq.ParseBatch(raw)
	if err == nil {
		err = b.CheckIndex()
	}
	if err != nil {
		return nil, err
	}
	x := l.part(f.Partition)
	first := x.next
	x.batches = append(x.batches, stored{first, b, raw})
	x.next += uint64(b.Count)
	return &frame.Appended{First: first, Count: uint32(b.Count), Stamp: 1_700_000_000_000_000_000 + int64(first)}, nil
}

func (l *leader) deliveries(p mq.PartitionID, g mq.GroupID) *deliveries {
	x := l.part(p)
	d := x.groups[g]
	if d == nil {
		d = &deliveries{attempt: map[uint64]uint32{}, fence: map[uint64]uint64{}, leased: map[uint64]bool{}, acked: map[uint64]bool{}, out: map[uint64][]uint64{}}
		x.groups[g] = d
	}
	return d
}

func (l *leader) receive(f *frame.Receive) (*frame.Received, error) {
	if !l.groups[f.Group] {
		return nil, mqerr.New(mqerr.GroupNotFound, "group %d", f.Group)
	}
	x, d := l.part(f.Partition), l.deliveries(f.Partition, f.Group)
	out := &frame.Received{Generation: 1, Segment: 3, LeaseUntil: 1_800_000_000_000_000_000}
	size := 0
	for n := uint32(0); n < f.Max && size < int(f.MaxBytes); n++ {
		var offset uint64
		switch {
		case len(d.again) > 0:
			offset, d.again = d.again[0], d.again[1:]
		case d.fresh < x.next:
			offset = d.fresh
			d.fresh++
		default:
			n = f.Max - 1
			continue
		}
		d.attempt[offset]++
		d.counter++
		d.fence[offset], d.leased[offset] = d.counter, true
		d.out[f.Handover] = append(d.out[f.Handover], offset)
		out.Runs = append(out.Runs, frame.Run{First: offset, Count: 1, Attempt: d.attempt[offset], Counter: d.counter})
		out.Chunks = append(out.Chunks, x.chunk(offset))
		size += len(out.Chunks[len(out.Chunks)-1].Batch)
	}
	out.Ready = uint64(len(d.again)) + x.next - d.fresh
	return out, nil
}

// chunk is one message: sliced from a raw batch, the whole of a packed one.
func (x *partLog) chunk(offset uint64) frame.Chunk {
	i, _ := slices.BinarySearchFunc(x.batches, offset, func(s stored, o uint64) int {
		switch {
		case s.first+uint64(s.batch.Count) <= o:
			return -1
		case s.first > o:
			return 1
		}
		return 0
	})
	s := x.batches[i]
	ordinal := int(offset - s.first)
	c := frame.Chunk{First: s.first, Stamp: 1_700_000_000_000_000_000, Ordinals: []uint32{uint32(ordinal)}, Batch: s.raw}
	if b, ok, err := s.batch.Slice(nil, []int{ordinal}); ok && err == nil {
		c.Sliced, c.Batch = true, b
	}
	return c
}

func (l *leader) giveBack(f frame.Handover) {
	d := l.part(f.Partition).groups[f.Group]
	if d == nil {
		return
	}
	kept := d.out[f.Handover][:0]
	for _, o := range d.out[f.Handover] {
		if len(f.Offsets) > 0 && !slices.Contains(f.Offsets, o) {
			kept = append(kept, o)
			continue
		}
		if !d.leased[o] {
			continue // settled meanwhile
		}
		d.attempt[o]--
		delete(d.leased, o)
		d.again = append(d.again, o)
	}
	if d.out[f.Handover] = kept; len(kept) == 0 {
		delete(d.out, f.Handover)
	}
}

func (l *leader) settle(f *frame.Settle) *frame.Settled {
	out := &frame.Settled{Codes: make([]mqerr.Code, len(f.Items)), Until: make([]int64, len(f.Items))}
	for i, it := range f.Items {
		r, err := mq.VerifyReceipt(it.Receipt, l.secret)
		if err != nil {
			out.Codes[i] = mqerr.InvalidReceipt
			continue
		}
		d := l.deliveries(r.Partition, r.Group)
		switch {
		case d.acked[r.Offset] && it.Outcome == frame.OutcomeAck:
		case !d.leased[r.Offset] || d.fence[r.Offset] != r.Counter:
			out.Codes[i] = mqerr.ReceiptStale
		case it.Outcome == frame.OutcomeAck:
			d.acked[r.Offset] = true
			delete(d.leased, r.Offset)
		case it.Outcome == frame.OutcomeNack:
			delete(d.leased, r.Offset)
			d.again = append(d.again, r.Offset)
			out.Until[i] = 1_800_000_000_000_000_000 + it.Delay
		case it.Outcome == frame.OutcomeRelease:
			d.attempt[r.Offset]--
			delete(d.leased, r.Offset)
			d.again = append(d.again, r.Offset)
		case it.Outcome == frame.OutcomeReject:
			delete(d.leased, r.Offset)
		case it.Outcome == frame.OutcomeExtend:
			out.Until[i] = 1_800_000_000_000_000_000 + it.Delay
		}
	}
	return out
}

func (l *leader) leasedUntil(f *frame.Leased) *frame.LeasedUntil {
	out := &frame.LeasedUntil{Until: make([]int64, len(f.Items))}
	d := l.deliveries(f.Partition, f.Group)
	for i, it := range f.Items {
		if d.leased[it.Offset] && d.fence[it.Offset] == it.Counter {
			out.Until[i] = 1_800_000_000_000_000_000
		}
	}
	return out
}

func (l *leader) ready(f *frame.Ready) *frame.Counts {
	out := &frame.Counts{}
	for _, i := range f.Interest {
		x, d := l.part(i.Partition), l.deliveries(i.Partition, i.Group)
		out.Ready = append(out.Ready, frame.ReadyCount{Interest: i, Count: uint64(len(d.again)) + x.next - d.fresh})
	}
	l.asked++
	return out
}
