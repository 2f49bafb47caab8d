package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// alarms are the lines of a log, at the level of errors.
type alarms struct {
	mu      sync.Mutex
	lines   bytes.Buffer
	stopped chan struct{} // receives when one says that a partition is stopped
}

func (a *alarms) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes.Contains(line, []byte("this partition is stopped")) {
		a.stopped <- struct{}{}
	}
	return a.lines.Write(line)
}

func (a *alarms) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lines.String()
}

func (a *alarms) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a, &slog.HandlerOptions{Level: slog.LevelError}))
}

// fault is why the partition is stopped.
func (o *one) fault() error {
	ch := make(chan error, 1)
	o.p.post(func() { ch <- o.p.fault })
	return <-ch
}

// neighbour makes another partition of the same node and publishes to it.
func (o *one) neighbour() (publish func() error, end func()) {
	o.t.Helper()
	id := mq.PartitionID{Topic: 9}
	self := o.store.Identity()
	open := mq.Segment{ID: 900, Partition: id, Number: 1, Quorum: 1, Leader: self, Replicas: []mq.Replica{{Store: self.Store, Node: "n"}}}
	head := mq.Head{Partition: id, Open: &open, Next: 2, Revision: 1}
	o.world.mu.Lock()
	o.world.others = map[mq.PartitionID]mq.Head{id: head}
	o.world.mu.Unlock()
	if err := o.store.CreateSegments([]mq.Segment{open}); err != nil {
		o.t.Fatal(err)
	}
	p := New(o.env, id)
	info, _ := o.store.Segment(open.ID)
	p.Adopt(info)
	p.SetHead(head)
	return func() error {
		body, n := batchOf("beside")
		return ask(o.t, func(r Reply) { p.Append(body, n, r) }).err()
	}, p.Close
}

// beginAgain has the partition be led anew in an empty segment, by a head that the caller of a test may still change.
func (o *one) beginAgain(change func(h *mq.Head, sealed []mq.Segment)) {
	o.t.Helper()
	w := o.world
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.head
	next := *h.Open
	next.ID, next.Number = 700, h.Next
	h.Open, h.Next, h.Revision = &next, h.Next+1, h.Revision+1
	change(&h, w.sealed)
	w.head = h
	if err := o.store.CreateSegments([]mq.Segment{*h.Open}); err != nil {
		o.t.Fatal(err)
	}
	info, _ := o.store.Segment(h.Open.ID)
	o.p.Adopt(info)
	told := h
	told.Last = nil // what it is told may be older than what it reads
	o.p.SetHead(told)
}

// follow makes the node a follower of another one, has it take an entry, and offers the next one.
func (o *one) follow(next func(first, second *mq.Entry)) {
	o.t.Helper()
	leader := mq.Incarnation{Store: "b", Boot: 1}
	s := mq.Segment{ID: 800, Partition: testPartition, Number: 90, Base: o.world.head.Last.End, Quorum: 2, Leader: leader,
		Replicas: []mq.Replica{{Store: "b"}, {Store: o.store.Identity().Store}}}
	if err := o.store.CreateSegments([]mq.Segment{s}); err != nil {
		o.t.Fatal(err)
	}
	info, _ := o.store.Segment(s.ID)
	o.p.Adopt(info)
	first := mq.Entry{Segment: s.ID, At: s.Base, Prev: s.Base, Commit: s.Base, Stamp: 1, Boot: 1}
	second := mq.Entry{Segment: s.ID, At: first.Next(), Prev: first.At, Commit: first.Next(), Stamp: 1, Boot: 1}
	next(&first, &second)
	acks := make(chan frame.Ack, 10)
	for _, e := range []mq.Entry{first, second} {
		raw := e.AppendTo(nil)
		parsed, err := mq.ParseEntry(raw)
		if err != nil {
			o.t.Fatal(err)
		}
		o.p.Offer(leader, s.ID, []mq.Entry{parsed}, [][]byte{raw}, func(a frame.Ack) { acks <- a })
		<-acks
	}
	h := o.world.head
	h.Open, h.Revision = &s, h.Revision+1
	o.p.SetHead(h)
	ended := s
	ended.Sealed, ended.End = true, s.Base // below what was committed
	h.Last, h.Open, h.Revision = &ended, &mq.Segment{ID: 801, Partition: testPartition, Number: 91, Base: ended.End}, h.Revision+1
	o.p.SetHead(h)
}

// A broken invariant stops its partition, with an alarm, counted and told to who asks, and no other.
func TestBrokenInvariantsStopThePartition(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		harm func(o *one)
	}{
		{"I1: a segment gets a second end", func(o *one) {
			h := o.world.head
			last, open := *h.Last, *h.Open
			last.End.Offset++
			open.Base.Offset++
			h.Last, h.Open, h.Revision = &last, &open, h.Revision+1
			o.p.SetHead(h)
		}},
		{"I1: the leader's segment ends below what it acknowledged", func(o *one) {
			h := o.world.head
			ended, open := *h.Open, *h.Open
			ended.Sealed, ended.End = true, ended.Base
			open.ID, open.Number = open.ID+1, h.Next
			h.Last, h.Open, h.Next, h.Revision = &ended, &open, h.Next+1, h.Revision+1
			o.p.SetHead(h)
		}},
		{"I1: a follower's segment ends below what its leader had committed", func(o *one) { o.follow(func(_, _ *mq.Entry) {}) }},
		{"I2: more is acknowledged than was placed", func(o *one) {
			o.p.post(func() { o.p.acked(o.p.lead, 0, mq.Position{Offset: 1 << 40}) })
		}},
		{"I3: the own copy does not take what its leader placed", func(o *one) {
			o.p.post(func() { o.p.copies[o.p.lead.seg.Segment().ID].copy.Seal() })
			_ = o.tryPublish("x")
		}},
		{"I3: an entry follows another one than here", func(o *one) {
			o.follow(func(_, second *mq.Entry) { second.Prev.Seq += 7 })
		}},
		{"I3: two replicas have different entries at the same place", func(o *one) {
			end := mq.Position{Offset: 10}
			lackEnd(o.t, o, others{tails: map[mq.StoreID]mq.Position{"b": end, "c": end}, sums: map[mq.StoreID]uint64{"b": 1, "c": 2}}, meta.Force{})
		}},
		{"I4: the chain goes on below what is in it", func(o *one) {
			o.beginAgain(func(h *mq.Head, sealed []mq.Segment) { // whose first entry is of one message more
				last := &sealed[len(sealed)-1]
				last.End = mq.Position{Offset: last.Base.Offset + 1}
				h.Open.Base = last.End
				h.Last = nil
			})
		}},
		{"I5: the chain has a gap", func(o *one) {
			o.beginAgain(func(h *mq.Head, _ []mq.Segment) { h.Open.Base.Offset += 5 })
		}},
		{"I5: segments overlap", func(o *one) {
			h := o.world.head
			open := *h.Open
			open.ID, open.Number, open.Base = open.ID+1, h.Next, mq.Position{}
			h.Open, h.Next, h.Revision = &open, h.Next+1, h.Revision+1
			o.p.SetHead(h)
		}},
		{"other: a panic in an event", func(o *one) { o.p.post(func() { panic("a fault of the program") }) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			o, said := newOne(t), &alarms{stopped: make(chan struct{}, 10)}
			o.log = said.logger()
			o.publish("a", "b")
			o.restart()
			o.publish("c")
			publish, end := o.neighbour()
			defer end()
			x.harm(o)
			name, _, _ := strings.Cut(x.name, ":")
			<-said.stopped
			if err := o.fault(); segment.Invariant(err) != strings.TrimSuffix(name, "other") {
				t.Errorf("stopped because of %v", err)
			}
			if n := testutil.ToFloat64(o.env.Metrics.Faults.WithLabelValues(name)); n != 1 {
				t.Errorf("%v faults were counted", n)
			}
			if !strings.Contains(said.String(), testPartition.String()) {
				t.Errorf("the alarm does not say which partition: %s", said)
			}
			if err := o.tryPublish("d"); !mqerr.Is(err, mqerr.NoLeader) || !strings.Contains(err.Error(), "stopped") {
				t.Errorf("a publish to a partition that was stopped: %v", err)
			}
			state := make(chan State, 1)
			if o.p.Probe(o.world.head.Open.ID, func(s State) { state <- s }); (<-state).Known {
				t.Error("its copies still answer")
			}
			if err := publish(); err != nil {
				t.Errorf("a publish to another partition of the node: %v", err)
			}
		})
	}
}
