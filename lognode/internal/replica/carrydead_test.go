package replica

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// expire removes what retention may until an offset is the first one.
func (o *one) expire(first uint64) {
	o.t.Helper()
	o.world.topic.Partitions, o.world.topic.Retention = 1, mq.Retention{Time: 1, MaxShare: 1, KeepUnsettled: true}
	for range 20 {
		if o.first() >= first {
			return
		}
		o.retain()
	}
	o.t.Fatalf("the first offset stays %d, want %d", o.first(), first)
}

// call waits for the answer of a control call.
func call[R any](t testing.TB, do func(func(R, error))) R {
	t.Helper()
	type told struct {
		res R
		err error
	}
	ch := make(chan told, 1)
	do(func(r R, err error) { ch <- told{r, err} })
	a := <-ch
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.res
}

func (o *one) deadList() (out []string) {
	o.t.Helper()
	res := call(o.t, func(done func(*mqpb.HeldMessagesResponse, error)) {
		o.p.Held(&mqpb.HeldMessagesRequest{Group: 1, State: "dead", Limit: 100}, done)
	})
	for _, m := range res.Messages {
		out = append(out, fmt.Sprintf("%d attempt %d %s published %v", m.Offset, m.Attempt, m.Reason, m.Stamp != 0))
	}
	return out
}

func (o *one) onDead(act string, f *mqpb.DeadFilter) uint64 {
	o.t.Helper()
	return call(o.t, func(done func(*mqpb.DeadLettersResponse, error)) {
		o.p.DeadLetters(&mqpb.DeadLettersRequest{Group: 1, Act: act, Limit: 100, Filter: f}, done)
	}).Matched
}

func (o *one) traceTypes(offset uint64) (types []string) {
	o.t.Helper()
	res := call(o.t, func(done func(*mqpb.TraceResponse, error)) { o.p.Trace(offset, false, done) })
	for _, e := range res.Events {
		types = append(types, e.Type)
		// which of the two times is there depends on how fast the machine is: commits_test.go is about them
		if e.Type == eventReplicated && (e.Node != "n" || len(e.Replicas) != 1 || e.At != 0 && e.AtLatest != 0) {
			o.t.Errorf("replicated: %v", e)
		}
		if e.Type == delivery.EventPublished && (e.Producer != "producer" || e.Gateway != "gateway") {
			o.t.Errorf("published: %v", e)
		}
	}
	return types
}

func (o *one) explainState(offset uint64) string {
	o.t.Helper()
	return call(o.t, func(done func(*mqpb.ExplainResponse, error)) {
		o.p.Explain(&mqpb.ExplainRequest{Group: 1, Number: offset}, done)
	}).State
}

// readOne reads one message without a group.
func (o *one) readOne(offset uint64) error {
	at := func(v uint64) frame.Place { return frame.Place{Where: frame.AtOffset, Value: v} }
	a := ask(o.t, func(r Reply) {
		o.p.Read(frame.Read{Partition: testPartition, From: at(offset), To: at(offset + 1), Limit: 1, MaxBytes: 1 << 20}, r)
	})
	if err := a.err(); err != nil {
		return err
	}
	var d frame.ReadDone
	if err := d.Parse(a.body); err != nil || len(d.Chunks) != 1 {
		return fmt.Errorf("%d chunks, %w", len(d.Chunks), err)
	}
	return nil
}

// Dead letters go on without their segments, by restart and by a second round of retention: they are listed, read, traced,
// explained, deleted and redriven as before.
func TestDeadLettersGoOnWithoutTheirSegments(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.segments() // 0 to 5 in three segments, 6 in the open one
	m := o.receive(1, 10)
	o.settle(delivery.Reject, m[0], m[1], m[3])
	o.settle(delivery.Ack, m[2], m[4], m[5], m[6])
	want(t, "the list before", o.deadList(), []string{"0 attempt 1  published true", "1 attempt 1  published true", "3 attempt 1  published true"})
	before := o.traceTypes(1)
	o.expire(4)
	look := func(when string) {
		t.Helper()
		want(t, "the list "+when, o.deadList(), []string{"0 attempt 1  published true", "1 attempt 1  published true", "3 attempt 1  published true"})
		want(t, "the trace "+when, o.traceTypes(1), before)
		want(t, "explained "+when, []string{o.explainState(1)}, []string{"dead"})
		if err := o.readOne(1); err != nil {
			t.Errorf("read %s: %v", when, err)
		}
		if err := o.readOne(2); !mqerr.Is(err, mqerr.OffsetExpired) {
			t.Errorf("what was acked and is gone, read %s: %v", when, err)
		}
	}
	look("carried")
	o.restart()
	look("after a restart")
	o.publish("a", "b")
	o.open()
	o.publish("c")
	o.settle(delivery.Ack, o.receive(1, 10)...)
	o.open()
	o.publish("d")
	o.settle(delivery.Ack, o.receive(1, 10)...)
	o.expire(9) // all that was there before, and with it what was carried
	look("carried again")
	if n := o.onDead("count", &mqpb.DeadFilter{ByOffset: true, Offsets: []uint64{1}}); n != 1 {
		t.Errorf("%d with the offset 1", n)
	}
	if n := o.onDead("remove", &mqpb.DeadFilter{ByOffset: true, Offsets: []uint64{0}}); n != 1 {
		t.Errorf("removed %d", n)
	}
	if err := o.readOne(0); !mqerr.Is(err, mqerr.OffsetExpired) {
		t.Errorf("a removed one: %v", err)
	}
	if n := o.onDead("redrive", nil); n != 2 {
		t.Errorf("redriven %d", n)
	}
	o.restart()
	again := o.receive(1, 10)
	want(t, "redriven", values(again), []string{"y", "y"})
	o.settle(delivery.Ack, again...)
	if types := o.explainState(1); types == "dead" {
		t.Errorf("explained as %s", types)
	}
	if err := o.readOne(1); !mqerr.Is(err, mqerr.OffsetExpired) {
		t.Errorf("a settled one: %v", err)
	}
}

// Messages of compressed batches, which a leader can't take apart, and scheduled ones, which are known by their numbers.
func TestOtherDeadLettersGoOnToo(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	var b mq.BatchBuilder
	for _, v := range []string{"abc", "def", "ghi"} {
		b.Add(&mq.Message{Value: []byte(v), Lane: mq.LaneNormal, Key: []byte(v), HasKey: true})
	}
	packed := b.AppendTo(nil, "producer", "gateway", mq.CodecS2, []byte("packed"))
	if err := ask(t, func(r Reply) { o.p.Append(packed, 3, r) }).err(); err != nil {
		t.Fatal(err)
	}
	number := o.schedule(time.Millisecond, "later").First
	for o.committed() < 4 {
		<-o.woken
	}
	o.handovers++
	a := ask(t, func(r Reply) {
		o.p.Receive(1, frame.Receive{Partition: testPartition, Group: 1, Max: 10, MaxBytes: 4 << 20, Handover: o.handovers}, r)
	})
	var f frame.Received
	if err := f.Parse(a.body); err != nil {
		t.Fatal(err)
	}
	for _, run := range f.Runs {
		for i := range uint64(run.Count) {
			how := delivery.Reject
			if run.First+i == 0 {
				how = delivery.Ack
			}
			o.settle(how, got{receipt: mq.Receipt{Partition: testPartition, Offset: run.First + i, Group: 1, Generation: f.Generation,
				Segment: f.Segment, Counter: run.Counter + i}})
		}
	}
	for range 2 {
		o.open()
		o.publish("x")
		o.settle(delivery.Ack, o.receive(1, 10)...)
	}
	o.open()
	o.publish("x")
	o.expire(5)
	for _, off := range []uint64{1, 2, 3} {
		if err := o.readOne(off); err != nil {
			t.Errorf("offset %d: %v", off, err)
		}
	}
	found := call(t, func(done func(*mqpb.FindScheduledResponse, error)) { o.p.FindScheduled(number, false, done) })
	if !found.Released || found.Offset != 3 {
		t.Errorf("found %v", found)
	}
	if n := o.onDead("count", &mqpb.DeadFilter{ByKey: true, Key: []byte("def")}); n != 1 {
		t.Errorf("%d with the key", n)
	}
	if n := o.onDead("count", &mqpb.DeadFilter{ByOffset: true, Numbers: []uint64{number}}); n != 1 {
		t.Errorf("%d with the number", n)
	}
	o.restart()
	if types := strings.Join(o.traceSchedule(number), " "); !strings.HasPrefix(types, "RELEASED REPLICATED DELIVERED DEAD") {
		t.Errorf("traced: %s", types)
	}
}

func (o *one) committed() uint64 {
	ch := make(chan uint64, 1)
	o.p.post(func() { ch <- o.p.lead.machine.Committed() })
	return <-ch
}
