package replica

import (
	"math"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// schedule publishes values that are due after so long each.
func (o *one) schedule(in time.Duration, values ...string) frame.Scheduled {
	o.t.Helper()
	body, n := batchOf(values...)
	times := make([]int64, n)
	for i := range times {
		times[i] = -int64(in)
	}
	a := ask(o.t, func(r Reply) { o.p.Schedule(frame.Schedule{Partition: testPartition, Times: times, Batch: body}, r) })
	if err := a.err(); err != nil {
		o.t.Fatal(err)
	}
	var f frame.Scheduled
	if err := f.Parse(a.body); err != nil {
		o.t.Fatal(err)
	}
	return f
}

// await receives until there is a message.
func (o *one) await(g mq.GroupID) []got {
	o.t.Helper()
	for {
		if m := o.receive(g, 100); len(m) > 0 {
			return m
		}
		<-o.woken
	}
}

func (o *one) pending() []*mqpb.PendingSchedule {
	o.t.Helper()
	type list struct {
		res *mqpb.ListScheduledResponse
		err error
	}
	ch := make(chan list, 1)
	o.p.ListScheduled(mq.Schedule{Due: math.MinInt64}, 100, func(r *mqpb.ListScheduledResponse, err error) { ch <- list{r, err} })
	l := <-ch
	if l.err != nil {
		o.t.Fatal(l.err)
	}
	return l.res.Pending
}

func (o *one) cancel(number uint64) error {
	ch := make(chan error, 1)
	o.p.CancelScheduled(number, func(err error) { ch <- err })
	return <-ch
}

func (o *one) retime(number uint64, at int64) error {
	ch := make(chan error, 1)
	o.p.RetimeScheduled(number, at, func(_ int64, err error) { ch <- err })
	return <-ch
}

func (o *one) traceSchedule(number uint64) (types []string) {
	o.t.Helper()
	ch := make(chan error, 1)
	o.p.TraceScheduled(number, false, func(r *mqpb.TraceResponse, err error) {
		for _, e := range r.GetEvents() {
			types = append(types, e.Type)
		}
		ch <- err
	})
	if err := <-ch; err != nil {
		o.t.Fatal(err)
	}
	return types
}

func TestScheduledMessageComesWhenItIsDueAndNotBefore(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.publish("a")
	f := o.schedule(80*time.Millisecond, "b", "c")
	if f.First != 0 || len(f.Dues) != 2 || f.Dues[0] != f.Stamp+int64(80*time.Millisecond) {
		t.Fatalf("scheduled %+v", f)
	}
	var m []got
	for len(m) < 3 {
		m = append(m, o.await(1)...)
		if now := time.Now().UnixNano(); len(m) > 1 && now < f.Dues[0] {
			t.Fatalf("%v %d ns early", values(m), f.Dues[0]-now)
		}
	}
	want(t, "all", values(m), []string{"a", "b", "c"})
	m = m[1:]
	if m[0].receipt.Offset != 1 || m[1].receipt.Offset != 2 {
		t.Fatalf("offsets %d and %d", m[0].receipt.Offset, m[1].receipt.Offset)
	}
	want(t, "acks", o.settle(delivery.Ack, m...), []mqerr.Code{mqerr.OK, mqerr.OK})
	want(t, "trace", o.traceSchedule(1), []string{"SCHEDULED", "RELEASED", "REPLICATED", "DELIVERED", "ACKNOWLEDGED", "RETAINED"})
}

// Museum 42: a delayed message is not visible after a restart, and museum 19: it fires all the same, once.
func TestMuseum42SchedulesSurviveRestartsAndRolls(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.schedule(time.Hour, "far")
	f := o.schedule(300*time.Millisecond, "near")
	o.restart()
	o.open() // a roll
	o.schedule(time.Hour, "cancelled")
	o.restart()
	m := o.await(1)
	if now := time.Now().UnixNano(); now < f.Dues[0] {
		t.Fatalf("received early: %v", values(m))
	}
	want(t, "after the restarts", values(m), []string{"near"})
	if err := o.cancel(2); err != nil {
		t.Fatal(err)
	}
	o.restart()
	if p := o.pending(); len(p) != 1 || p[0].Number != 0 {
		t.Fatalf("pending %v", p)
	}
	if err := o.retime(0, 1); err != nil { // now
		t.Fatal(err)
	}
	m = o.await(1)
	want(t, "delivered now", values(m), []string{"far"})
	o.settle(delivery.Ack, m...) // a first hand-over that is younger than 5 ms may be forgotten
	o.restart()
	want(t, "after it all", values(o.receive(1, 10)), nil)
	for number, code := range map[uint64]mqerr.Code{0: mqerr.AlreadyReleased, 1: mqerr.AlreadyReleased, 3: mqerr.MessageNotFound} {
		if err := o.cancel(number); !mqerr.Is(err, code) {
			t.Errorf("cancel of %d: %v", number, err)
		}
	}
	if err := o.cancel(2); err != nil {
		t.Errorf("a second cancel: %v", err)
	}
	want(t, "trace", o.traceSchedule(0), []string{"SCHEDULED", "RETIMED", "RELEASED", "REPLICATED", "DELIVERED", "ACKNOWLEDGED", "RETAINED"})
	want(t, "trace of a cancelled one", o.traceSchedule(2), []string{"SCHEDULED", "CANCELLED"})
}

// A schedule that is moved while its message is read ahead is not lost.
func TestRetimedWhileNear(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	f := o.schedule(time.Second, "x") // read ahead at once
	for range 20 {
		if err := o.retime(f.First, -int64(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.retime(f.First, -int64(10*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	want(t, "re-timed", values(o.await(1)), []string{"x"})
}

// Ten thousand at one moment: each comes once, in more than one record.
func TestManyDueAtOnce(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	in := make([]string, 2500)
	for i := range in {
		in[i] = "v"
	}
	at := time.Now().Add(300 * time.Millisecond)
	for range 4 {
		o.schedule(time.Until(at), in...)
	}
	seen := map[uint64]bool{}
	for len(seen) < 10_000 {
		m := o.await(1)
		for _, g := range m {
			if seen[g.receipt.Offset] {
				t.Fatalf("offset %d twice", g.receipt.Offset)
			}
			seen[g.receipt.Offset] = true
		}
		o.settle(delivery.Ack, m...)
	}
	if p := o.pending(); len(p) != 0 {
		t.Fatalf("%d are pending", len(p))
	}
}

// What waits outlives the segment that it was stored in, restarts included, under its number and with its time.
func TestPendingSchedulesAreCarriedForward(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	f := o.schedule(time.Hour, "cancelled", "early", "late")
	if err := o.cancel(0); err != nil {
		t.Fatal(err)
	}
	if err := o.retime(2, -2*int64(time.Hour)); err != nil {
		t.Fatal(err)
	}
	o.segments()
	o.settle(delivery.Ack, o.receive(1, 100)...)
	o.world.topic.Retention = mq.Retention{Time: 1, KeepUnsettled: true}
	for o.first() == 0 {
		o.retain()
	}
	before := o.pending()
	if len(before) != 2 || before[0].Number != 1 || before[0].Due != f.Dues[1] || before[1].Number != 2 {
		t.Fatalf("pending %v", before)
	}
	o.restart()
	if after := o.pending(); len(after) != 2 || after[0].Due != before[0].Due || after[1].Due != before[1].Due {
		t.Fatalf("pending after a restart %v, before it %v", after, before)
	}
	want(t, "trace", o.traceSchedule(1), []string{"SCHEDULED"})
	for _, n := range []uint64{1, 2} {
		if err := o.retime(n, 1); err != nil {
			t.Fatal(err)
		}
		m := o.await(1)
		want(t, "delivered", values(m), []string{map[uint64]string{1: "early", 2: "late"}[n]})
		o.settle(delivery.Ack, m...)
	}
}
