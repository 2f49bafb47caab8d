package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// retain lets the leader look at retention once and waits for what comes of it.
func (o *one) retain() {
	o.t.Helper()
	o.p.Retain()
	o.settled()
}

// settled waits until the partition has done what was asked of it, the work beside it included. Work that ends may ask for more
// behind the question whether it has ended, so that is asked twice.
func (o *one) settled() {
	for idle := 0; idle < 2; {
		ch := make(chan bool)
		o.p.post(func() {
			l := o.p.lead
			carrying := l != nil && l.serving && (l.dead.busy || len(l.dead.ready) > 0 || l.seg.Commit().Before(l.dead.placed))
			ch <- o.p.retaining || carrying
		})
		if idle++; <-ch {
			idle = 0
		}
	}
}

func (o *one) first() uint64 {
	o.t.Helper()
	a := ask(o.t, func(r Reply) {
		o.p.Read(frame.Read{Partition: testPartition, From: frame.Place{Where: frame.Earliest}, To: frame.Place{Where: frame.Latest}}, r)
	})
	if err := a.err(); err != nil {
		o.t.Fatal(err)
	}
	var d frame.ReadDone
	if err := d.Parse(a.body); err != nil {
		o.t.Fatal(err)
	}
	return d.First
}

// segments makes three sealed segments of two messages each, and an open one with a message.
func (o *one) segments() {
	for range 3 {
		o.publish("x", "y")
		o.open()
	}
	o.publish("z")
}

func TestRetentionBySizeRemovesSettledSegmentsFromTheFront(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.segments()
	o.world.topic.Partitions, o.world.topic.Retention = 1, mq.Retention{Bytes: 1, KeepUnsettled: true}
	o.retain()
	if first := o.first(); first != 0 {
		t.Fatalf("offset %d is the first one, though the group has not settled 0", first)
	}
	body, n := batchOf("more")
	if err := ask(t, func(r Reply) { o.p.Append(body, n, r) }).err(); !mqerr.Is(err, mqerr.StorageFull) {
		t.Fatalf("a publish over the limit: %v", err)
	}
	m := o.receive(1, 10)
	o.settle(delivery.Ack, m[:3]...) // all of the first segment, half of the second
	o.retain()
	if first := o.first(); first != 2 {
		t.Fatalf("offset %d is the first one, want 2", first)
	}
	o.retain()
	if first := o.first(); first != 2 {
		t.Fatalf("offset %d is the first one: the second segment was not settled", first)
	}
	o.settle(delivery.Ack, m[3:]...)
	o.retain()
	o.retain()
	if first := o.first(); first != 4 { // the last sealed segment stays
		t.Fatalf("offset %d is the first one, want 4", first)
	}
	o.publish("goes in again, as nothing that can go is left but the limit is met by nobody's need")
	o.restart()
	if m := o.receive(1, 10); len(m) != 1 || !strings.HasPrefix(m[0].value, "goes in") {
		t.Fatalf("after the restart: %+v", values(m))
	}
}

func TestRetentionByTimeAgainstTheJournal(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.segments()
	o.world.topic.Retention = mq.Retention{Time: mq.Duration(time.Hour)}
	o.retain()
	if first := o.first(); first != 0 {
		t.Fatalf("offset %d is the first one, and nothing is an hour old", first)
	}
	o.world.topic.Retention.Time = 1 // a nanosecond: older than the newest stamp is too old
	o.retain()
	if first := o.first(); first != 2 {
		t.Fatalf("offset %d is the first one, want 2: one segment at a time", first)
	}
	o.group(1, nil)
	if m := o.receive(1, 10); len(m) != 5 {
		t.Fatalf("a new group gets %d messages, want 5", len(m))
	}
}

func TestRetentionThatKeepsNothingCountsWhatGroupsLose(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.segments()
	o.world.topic.Retention = mq.Retention{Time: 1}
	o.retain()
	if m := o.receive(1, 10); len(m) != 5 || m[0].receipt.Offset != 2 {
		t.Fatalf("got %d messages from %d", len(m), m[0].receipt.Offset)
	}
	ch := make(chan delivery.GroupFigures, 1)
	o.p.post(func() {
		f, _ := o.p.lead.machine.Figures(1)
		ch <- f
	})
	if f := <-ch; f.Dropped != 2 {
		t.Fatalf("dropped %d, want 2", f.Dropped)
	}
}

func TestOldSegmentsRoll(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.publish("a")
	o.world.topic.Retention = mq.Retention{Time: 1}
	o.retain()
	if id := <-o.wants; id != o.world.head.Open.ID {
		t.Fatalf("asked to seal %d", id)
	}
}

// A clock that jumped, or a limit that was mistyped, does not empty a topic: after a tenth of it, or one segment, retention by
// time stops for the hour and says so; an owner who means it says that.
func TestRetentionByTimeStopsAtItsShare(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.segments()
	o.world.topic.Retention = mq.Retention{Time: 1}
	for range 3 {
		o.retain()
	}
	if first := o.first(); first != 2 {
		t.Fatalf("offset %d is the first one, want 2: the second segment is more than a tenth", first)
	}
	if n := testutil.ToFloat64(o.env.Metrics.Kept); n != 1 {
		t.Errorf("%v partitions are said to have stopped", n)
	}
	o.world.topic.Retention.MaxShare = 1
	o.retain()
	if first := o.first(); first != 4 {
		t.Fatalf("offset %d is the first one, want 4: all may go", first)
	}
	o.open() // a roll
	o.settled()
	o.p.Close()
	if n := testutil.ToFloat64(o.env.Metrics.Kept); n != 0 {
		t.Errorf("%v partitions are said to have stopped after the leadership", n)
	}
}

// A segment with messages of the high lane goes after a checkpoint in which some are leased. The
// next leader must not take the records about them for ones about other messages of the same offsets, which would stay in its
// counts and in no list.
func TestRetentionOfAHighLaneLeavesNothingForTheNextLeader(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	var b mq.BatchBuilder
	for range 4 {
		b.Add(&mq.Message{Value: []byte("x"), Lane: mq.LaneHigh})
	}
	if err := ask(t, func(r Reply) { o.p.Append(b.AppendTo(nil, "producer", "gateway", mq.CodecNone, nil), 4, r) }).err(); err != nil {
		t.Fatal(err)
	}
	m := o.receive(1, 3)
	if len(m) != 3 {
		t.Fatalf("received %d messages, want 3", len(m))
	}
	o.open()
	o.publish("z")
	o.open()
	o.settle(delivery.Nack, m...)
	o.publish("a newer stamp")
	o.world.topic.Retention = mq.Retention{Time: 1}
	o.retain()
	if first := o.first(); first != 4 {
		t.Fatalf("offset %d is the first one, want 4", first)
	}
	want := delivery.GroupFigures{Generation: 1, Cursor: 4, Next: 4, Committed: 6, Ready: 2, Fresh: 2, Dropped: 4, Lag: 2}
	want.Lanes[mq.LaneNormal].Fresh = 2
	for range 2 {
		ch := make(chan delivery.GroupFigures, 1)
		o.p.post(func() {
			f, _ := o.p.lead.machine.Figures(1)
			ch <- f
		})
		if f := <-ch; f != want {
			t.Errorf("%+v, want %+v", f, want)
		}
		o.restart()
		o.first() // it serves
	}
	if m = o.receive(1, 10); len(m) != 2 || m[0].value != "z" {
		t.Errorf("after the restart: %+v", values(m))
	}
}
