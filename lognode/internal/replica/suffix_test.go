package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// others are nodes that answer for one segment with a tail and take no copies; a node that is not in it does not answer.
type others struct {
	tails  map[mq.StoreID]mq.Position
	fences chan uint64 // the numbers of the leaders that sealed
	sums   map[mq.StoreID]uint64
	// slow is a node that answers a probe only when silent is closed; copied receives the ids of those that are sent copies.
	slow   mq.StoreID
	silent chan struct{}
	copied chan mq.StoreID
}

func (others) Send(mq.StoreID, frame.Type, link.Encoder) bool { return false }
func (others) Connected(mq.StoreID) bool                      { return false }
func (o others) Heard(from mq.StoreID) time.Time {
	if _, ok := o.tails[from]; ok {
		return time.Now().Add(time.Hour)
	}
	return time.Time{}
}

func (o others) Client(to mq.StoreID) (mqpb.LogNodeClient, error) {
	tail, ok := o.tails[to]
	if !ok {
		return nil, errors.New("it is away")
	}
	x := other{store: to, tail: tail, fences: o.fences, sum: o.sums[to], copied: o.copied}
	if to == o.slow {
		x.silent = o.silent
	}
	return x, nil
}

type other struct {
	mqpb.LogNodeClient
	store  mq.StoreID
	tail   mq.Position
	fences chan uint64
	sum    uint64
	silent chan struct{} // nil for one that answers at once
	copied chan mq.StoreID
}

func (o other) state(segment uint64) []*mqpb.SegmentState {
	return []*mqpb.SegmentState{{Segment: segment, Known: true, Sealed: true, Tail: mqpb.FromPosition(o.tail), Entries: 3, Sum: o.sum}}
}

func (o other) Probe(_ context.Context, r *mqpb.ProbeRequest, _ ...grpc.CallOption) (*mqpb.ProbeResponse, error) {
	if o.silent != nil {
		<-o.silent
	}
	return &mqpb.ProbeResponse{Node: &mqpb.Incarnation{Store: string(o.store), Boot: 1}, Segments: o.state(r.Segments[0])}, nil
}

func (o other) Seal(_ context.Context, r *mqpb.SealRequest, _ ...grpc.CallOption) (*mqpb.SealResponse, error) {
	o.fences <- r.Fence.Number
	return &mqpb.SealResponse{Node: &mqpb.Incarnation{Store: string(o.store), Boot: 1}, Segments: o.state(r.Segments[0])}, nil
}

func (o other) CopyEntries(context.Context, *mqpb.CopyEntriesRequest, ...grpc.CallOption) (*mqpb.CopyEntriesResponse, error) {
	if o.copied != nil {
		o.copied <- o.store
	}
	return &mqpb.CopyEntriesResponse{}, nil
}

func (o other) ReadSegment(context.Context, *mqpb.ReadSegmentRequest, ...grpc.CallOption) (*mqpb.ReadSegmentResponse, error) {
	return &mqpb.ReadSegmentResponse{Known: true}, nil
}

// lackEnd makes the node's partition one whose last segment, of three replicas, ends at 10 while this node has up to 7, and
// opens the next one here. The others are b and c.
func lackEnd(t testing.TB, o *one, peers others, force meta.Force) mq.SegmentID {
	t.Helper()
	o.publish("a", "b", "c")
	o.publish("d", "e", "f", "g")
	w := o.world
	w.mu.Lock()
	defer w.mu.Unlock()
	done := make(chan bool, 1)
	o.p.BeginSeal(w.head.Open.ID, func(known bool) { done <- known })
	<-done
	if err := o.store.SealSegments([]mq.SegmentID{w.head.Open.ID}); err != nil {
		t.Fatal(err)
	}
	self := o.store.Identity().Store
	three := []mq.Replica{{Store: self, Node: "n"}, {Store: "b", Node: "node-b"}, {Store: "c", Node: "node-c"}}
	last := *w.head.Open
	last.Replicas, last.Quorum, last.Sealed, last.End = three, 2, true, mq.Position{Offset: 10}
	w.sealed, w.head.Last = []mq.Segment{last}, &last
	open := mq.Segment{ID: 9, Partition: testPartition, Number: w.head.Next, Base: last.End, Replicas: three[:1], Quorum: 1, Leader: o.store.Identity()}
	w.head.Open, w.head.Next, w.head.Revision = &open, open.Number+1, w.head.Revision+1
	open.Compared = w.head.Revision
	if force.By != "" {
		force.Segment = open.ID
	}
	w.force = force
	o.env.Peers, o.env.LossPatience = peers, time.Nanosecond
	o.env.SealHere = func(_ context.Context, r *mqpb.SealRequest) (*mqpb.SealResponse, error) {
		info, _ := o.store.Segment(mq.SegmentID(r.Segments[0]))
		return &mqpb.SealResponse{Node: mqpb.FromIncarnation(o.store.Identity()), Segments: []*mqpb.SegmentState{{Segment: r.Segments[0],
			Known: true, Sealed: true, Tail: mqpb.FromPosition(info.Tail)}}}, nil
	}
	if err := o.store.CreateSegments([]mq.Segment{open}); err != nil {
		t.Fatal(err)
	}
	info, _ := o.store.Segment(open.ID)
	o.p.Adopt(info)
	o.p.SetHead(w.head)
	return last.ID
}

// A range that all but fewer than a quorum of the holders lack was never acknowledged: the leader records it and serves.
func TestLeaderRecordsWhatWasNeverAcknowledged(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	fences := make(chan uint64, 100)
	lost := lackEnd(t, o, others{tails: map[mq.StoreID]mq.Position{"b": {Offset: 7}}, fences: fences}, meta.Force{})
	if f := o.publish("h"); f.First != 10 {
		t.Errorf("the next message got offset %d", f.First)
	}
	o.world.mu.Lock()
	head := o.world.head
	o.world.mu.Unlock()
	want := mq.Hole{From: mq.Position{Offset: 7}, To: mq.Position{Offset: 10}, Segment: lost}
	if len(head.Holes) != 1 || head.Holes[0] != want {
		t.Fatalf("recorded %+v, want %+v", head.Holes, want)
	}
	if n := <-fences; n != head.Open.Number {
		t.Errorf("b was fenced with segment number %d, the leader's is %d", n, head.Open.Number)
	}
	o.group(1, nil)
	var values []string
	for _, m := range o.receive(1, 10) {
		values = append(values, m.value)
	}
	if !slices.Equal(values, []string{"a", "b", "c", "d", "e", "f", "g", "h"}) {
		t.Errorf("received %v", values)
	}
}

// With as many holders missing as acknowledge a message, only an operator may say that it is lost.
func TestLeaderWaitsForWhatMayBeAcknowledged(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		force meta.Force
		goes  bool
	}{
		{meta.Force{}, false},
		{meta.Force{By: "ann", At: time.Now(), Store: "c"}, false},    // c does not answer
		{meta.Force{By: "ann", At: time.Now().Add(-time.Hour)}, true}, // her clock is off: that it stands is etcd's to say
		{meta.Force{By: "ann", At: time.Now()}, true},
	} {
		t.Run(fmt.Sprintf("%+v", x.force), func(t *testing.T) {
			o := newOne(t)
			o.world.judged = make(chan struct{}, 2)
			lackEnd(t, o, others{}, x.force)
			<-o.world.judged
			<-o.world.judged // the second time comes after the first one had its answer
			o.world.mu.Lock()
			holes := o.world.head.Holes
			o.world.mu.Unlock()
			if x.goes != (len(holes) == 1) {
				t.Fatalf("recorded %+v", holes)
			}
			if x.goes && holes[0].By != "ann" {
				t.Errorf("recorded %+v", holes)
			}
		})
	}
}

// A leader that was deposed can't build on a store that followed a later one.
func TestDeposedLeaderIsRefused(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	p := mqpb.FromPartition(testPartition)
	if !o.env.Follows(&mqpb.Named{Partition: p, Number: 1}) {
		t.Fatal("the open segment's own number is refused")
	}
	if err := o.store.SetNamed(testPartition, mq.Named{Number: 5, Revision: 50}); err != nil {
		t.Fatal(err)
	}
	for number, want := range map[uint64]bool{4: false, 5: true, 6: true} {
		if o.env.Follows(&mqpb.Named{Partition: p, Number: number}) != want {
			t.Errorf("number %d after 5: followed %v", number, !want)
		}
	}
}

// A leader whose segment is sealed hands out nothing, though it does not know the next one yet.
func TestSealedLeaderHandsOutNothing(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.publish("a", "b")
	if got := o.receive(1, 1); len(got) != 1 {
		t.Fatalf("%v", got)
	}
	done := make(chan bool, 1)
	o.p.BeginSeal(o.world.head.Open.ID, func(known bool) { done <- known })
	<-done
	a := ask(t, func(r Reply) {
		o.p.Receive(1, frame.Receive{Partition: testPartition, Group: 1, Max: 1, MaxBytes: 1 << 20, Handover: 99}, r)
	})
	if err := a.err(); !mqerr.Is(err, mqerr.NotLeader) {
		t.Fatalf("a sealed leader answered a receive: %v", err)
	}
	ready := make(chan []frame.ReadyCount, 1)
	o.p.Ready([]mq.GroupID{1}, func(c []frame.ReadyCount) { ready <- c })
	if c := (<-ready)[0]; c.Code == mqerr.OK {
		t.Errorf("a sealed leader says that %d are ready", c.Count)
	}
	o.open()
	if got := o.receive(1, 10); len(got) != 1 || got[0].value != "b" {
		t.Errorf("after the roll: %+v", got)
	}
}

// The refusals of entries that were queued behind a refused one may come when they have been given again.
func TestLateRefusalIsOfATryBefore(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	done := make(chan struct{})
	o.p.post(func() {
		defer close(done)
		leader := mq.Incarnation{Store: "other", Boot: 1}
		h := &held{copy: segment.NewReplica(mq.Segment{ID: 77, Partition: testPartition, Leader: leader}, mq.Position{}, mq.Position{}, false, nil)}
		entry := func(at, prev uint64) *mq.Entry {
			return &mq.Entry{Segment: 77, At: mq.Position{Offset: at}, Prev: mq.Position{Offset: prev}, Boot: 1, Count: 1}
		}
		first, second := entry(0, 0), entry(1, 0)
		offer := func() {
			for _, e := range []*mq.Entry{first, second} {
				if v := h.copy.Offer(e, leader); v != segment.Take {
					t.Errorf("entry at %s: verdict %d", e.At, v)
				}
			}
		}
		offer()
		p := o.p
		p.notWritten(h, written{at: first.At, next: first.Next()}, store.ErrBusy)
		offer() // the leader sent them again
		p.notWritten(h, written{at: second.At, next: second.Next()}, store.ErrOutOfOrder)
		if q := h.copy.Queued(); q != second.Next() {
			t.Errorf("a refusal of the first try took the second one back to %s", q)
		}
		if err := h.copy.Durable(second.Next()); err != nil {
			t.Error(err)
		}
	})
	<-done
}
