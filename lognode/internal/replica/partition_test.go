package replica

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

func values(list []got) []string {
	var out []string
	for _, g := range list {
		out = append(out, g.value)
	}
	return out
}

func want[T comparable](t *testing.T, what string, have, want []T) {
	t.Helper()
	if !slices.Equal(have, want) {
		t.Fatalf("%s: have %v, want %v", what, have, want)
	}
}

func TestPublishReceiveAckOverRestartAndRoll(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	if f := o.publish("a", "b", "c"); f.First != 0 || f.Count != 3 {
		t.Fatalf("first publish got %+v", f)
	}
	o.group(1, nil)
	if f := o.publish("d"); f.First != 3 {
		t.Fatalf("second publish got %+v", f)
	}
	first := o.receive(1, 2)
	want(t, "first receive", values(first), []string{"a", "b"})
	want(t, "ack of b", o.settle(delivery.Ack, first[1]), []mqerr.Code{mqerr.OK})

	o.restart() // a is leased still, b is acked
	want(t, "after the restart", values(o.receive(1, 10)), []string{"c", "d"})
	want(t, "ack of a by its old receipt", o.settle(delivery.Ack, first[0]), []mqerr.Code{mqerr.OK})
	want(t, "ack of a again", o.settle(delivery.Ack, first[0]), []mqerr.Code{mqerr.OK})

	o.open() // a roll with a live leader
	if f := o.publish("e"); f.First != 4 {
		t.Fatalf("publish after the roll got %+v", f)
	}
	want(t, "after the roll", values(o.receive(1, 10)), []string{"e"})

	o.group(2, nil) // museum 43: another group sees everything, on its own
	want(t, "the second group", values(o.receive(2, 10)), []string{"a", "b", "c", "d", "e"})
}

func TestNackCountsAttemptsOverRestart(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, func(s *mq.GroupSettings) { s.MaxAttempts = 3 })
	o.publish("poison")
	for attempt := uint32(1); attempt <= 3; attempt++ {
		m := o.receive(1, 1)
		if len(m) != 1 || m[0].attempt != attempt {
			t.Fatalf("attempt %d: got %+v", attempt, m)
		}
		o.settle(delivery.Nack, m[0])
		o.restart()
	}
	if m := o.receive(1, 1); len(m) != 0 {
		t.Fatalf("a dead message was delivered: %+v", m)
	}
	ch := make(chan *mqpb.GroupFigures, 1)
	o.p.GroupFigures(1, Oldest{}, func(f *mqpb.GroupFigures) { ch <- f })
	if f := <-ch; f.Dead != 1 || f.Lag != 0 {
		t.Fatalf("figures %v", f)
	}
}

func TestLeasesRunOutAfterARoll(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, func(s *mq.GroupSettings) { s.Lease, s.Backoff.Initial = mq.Duration(mq.MinLease), 0 })
	o.publish("a")
	if m := o.receive(1, 1); len(m) != 1 {
		t.Fatalf("got %+v", m)
	}
	o.open()
	for { // the publish woke the group too; only the end of the lease makes the message ready again
		<-o.woken
		if m := o.receive(1, 1); len(m) == 1 {
			if m[0].attempt != 2 {
				t.Fatalf("attempt %d", m[0].attempt)
			}
			return
		}
	}
}

func TestRequestsForALeaderThatCantOpenAreAnswered(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.publish("a")
	o.world.mu.Lock()
	o.world.broken = errors.New("etcd is away")
	o.world.mu.Unlock()
	o.restart() // the new leader can't read its chain
	body, n := batchOf("b")
	if err := ask(t, func(r Reply) { o.p.Append(body, n, r) }).err(); !mqerr.Is(err, mqerr.NoLeader) {
		t.Fatalf("a publish to a leader that can't open: %v", err)
	}
	o.world.mu.Lock()
	o.world.broken = nil
	o.world.mu.Unlock()
	if f := o.publish("c"); f.First != 1 {
		t.Fatalf("the next publish got %+v", f)
	}
}

func TestUnconfirmedHandoverComesBackUncounted(t *testing.T) { // museum 41
	o := newOne(t)
	o.group(1, nil)
	o.publish("a")
	if m := o.receive(1, 1); len(m) != 1 {
		t.Fatalf("got %+v", m)
	}
	o.p.StreamGone(1)
	m := o.receive(1, 1)
	if len(m) != 1 || m[0].attempt != 1 {
		t.Fatalf("after the stream was gone: %+v", m)
	}
	o.p.Handover(1, true, frame.Handover{Partition: testPartition, Group: 1, Handover: o.handovers})
	o.p.StreamGone(1)
	if m := o.receive(1, 1); len(m) != 0 {
		t.Fatalf("a confirmed hand-over came back: %+v", m)
	}
}

func TestReceiveKeepsToMaxBytesAndGivesTheRestBack(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	big := string(make([]byte, 1000))
	o.publish(big, big, big, big, big)
	o.handovers++
	a := ask(t, func(r Reply) {
		o.p.Receive(1, frame.Receive{Partition: testPartition, Group: 1, Max: 5, MaxBytes: 2500, Handover: o.handovers}, r)
	})
	var f frame.Received
	if err := f.Parse(a.body); err != nil {
		t.Fatal(err)
	}
	if n := len(o.unpack(1, &f)); n != 2 {
		t.Fatalf("2500 bytes gave %d messages of 1000", n)
	}
	m := o.receive(1, 5)
	if len(m) != 3 || m[0].attempt != 1 {
		t.Fatalf("the rest: %d messages, first %+v", len(m), m[0].attempt)
	}
}

func TestRollIsAskedForBySize(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.env.SegmentBytes = 1 << 20
	o.publish(string(make([]byte, 1<<20)))
	if id := <-o.wants; id != o.world.head.Open.ID {
		t.Fatalf("asked to seal %d", id)
	}
}

func TestCheckpointShortensReplay(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	for i := range 20 {
		o.publish(fmt.Sprint("m", i))
	}
	m := o.receive(1, 20)
	o.settle(delivery.Ack, m[:7]...)
	o.settle(delivery.Nack, m[7])
	o.open() // the state goes over to the new segment, which begins with a checkpoint
	o.restart()
	next := o.receive(1, 20)
	want(t, "after the restart", values(next), []string{"m7"})
	if next[0].attempt != 2 {
		t.Fatalf("attempt %d", next[0].attempt)
	}
	o.p.post(func() {})
	trace := make(chan *mqpb.TraceResponse, 1)
	o.p.Trace(7, false, func(r *mqpb.TraceResponse, err error) {
		if err != nil {
			t.Error(err)
		}
		trace <- r
	})
	var types []string
	for _, ev := range (<-trace).Events {
		types = append(types, ev.Type)
	}
	want(t, "trace", types, []string{"PUBLISHED", "REPLICATED", "DELIVERED", "NACKED", "REDELIVERED", "RETAINED"})
}

func TestReadByOffsetAndTime(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	a := o.publish("a", "b")
	o.open()
	b := o.publish("c")
	read := func(r frame.Read) frame.ReadDone {
		t.Helper()
		r.Partition, r.MaxBytes = testPartition, 1<<20
		x := ask(t, func(reply Reply) { o.p.Read(r, reply) })
		if err := x.err(); err != nil {
			t.Fatal(err)
		}
		var d frame.ReadDone
		if err := d.Parse(x.body); err != nil {
			t.Fatal(err)
		}
		return d
	}
	latest := frame.Place{Where: frame.Latest}
	d := read(frame.Read{From: frame.Place{Where: frame.Earliest}, To: latest, Limit: 10})
	if d.First != 0 || d.End != 3 || d.Next != 3 || len(d.Chunks) != 2 {
		t.Fatalf("all: %+v", d)
	}
	d = read(frame.Read{From: frame.Place{Where: frame.AtTime, Value: uint64(a.Stamp + 1)}, To: latest, Limit: 10})
	if d.Next != 3 || len(d.Chunks) != 1 || d.Chunks[0].First != 2 {
		t.Fatalf("after the first batch: %+v", d)
	}
	d = read(frame.Read{From: frame.Place{Where: frame.AtTime, Value: uint64(b.Stamp + 1)}, To: latest, Limit: 10})
	if d.Next != 3 || len(d.Chunks) != 0 {
		t.Fatalf("after everything: %+v", d)
	}
	d = read(frame.Read{From: frame.Place{Where: frame.Earliest}, To: latest, Limit: 1, Backward: true})
	if d.Next != 2 || len(d.Chunks) != 1 || d.Chunks[0].First != 2 {
		t.Fatalf("backward: %+v", d)
	}
	x := ask(t, func(reply Reply) {
		o.p.Read(frame.Read{Partition: testPartition, From: frame.Place{Where: frame.AtOffset, Value: 4}, To: latest, Limit: 1, MaxBytes: 1}, reply)
	})
	if !mqerr.Is(x.err(), mqerr.OffsetOutOfRange) {
		t.Fatalf("beyond the end: %v", x.err())
	}
}
