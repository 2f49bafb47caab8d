package replica

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// spoil flips a byte wherever a text lies in the files of a stopped node.
func spoil(t *testing.T, dir, text string) {
	t.Helper()
	hits := 0
	err := filepath.WalkDir(filepath.Join(dir, "volumes"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for at := 0; ; {
			n := bytes.Index(b[at:], []byte(text))
			if n < 0 {
				break
			}
			b[at+n] ^= 0xff
			at += n
			hits++
		}
		return os.WriteFile(path, b, 0o644)
	})
	if err != nil || hits == 0 {
		t.Fatalf("%q was spoilt %d times: %v", text, hits, err)
	}
}

// force has an operator say that the partition goes on with what is left of its open segment.
func (o *one) force() (open mq.SegmentID) {
	o.world.mu.Lock()
	defer o.world.mu.Unlock()
	open = o.world.head.Open.ID
	o.world.force = meta.Force{Segment: open, By: "ann", At: time.Now()}
	return open
}

// thirty publishes 30 messages, an entry each, of which group 1 acks the first five. They are long, so that Badger keeps
// them apart from their keys.
func (o *one) thirty() {
	o.t.Helper()
	o.group(1, nil)
	for i := range 30 {
		o.publish(long(i))
	}
	for _, code := range o.settle(delivery.Ack, o.receive(1, 5)...) {
		if code != mqerr.OK {
			o.t.Fatal(code)
		}
	}
}

func long(i int) string { return fmt.Sprintf("message-%02d-%s", i, strings.Repeat("x", 3000)) }

func (o *one) readFrom(from uint64) (values []string, done frame.ReadDone, err error) {
	o.t.Helper()
	a := ask(o.t, func(r Reply) {
		o.p.Read(frame.Read{Partition: testPartition, From: frame.Place{Where: frame.AtOffset, Value: from},
			To: frame.Place{Where: frame.Latest}, Limit: 100, MaxBytes: 4 << 20}, r)
	})
	if err := a.err(); err != nil {
		return nil, done, err
	}
	if err := done.Parse(a.body); err != nil {
		o.t.Fatal(err)
	}
	for _, c := range done.Chunks {
		b, err := mq.ParseBatch(c.Batch)
		if err != nil {
			o.t.Fatal(err)
		}
		_ = b.Each(b.Packed(), func(_ int, m *mq.Message) bool {
			values = append(values, string(m.Value)[:10])
			return true
		})
	}
	return values, done, nil
}

func longs(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, long(i)[:10])
	}
	return out
}

func (o *one) tryPublish(value string) error {
	body, n := batchOf(value)
	return ask(o.t, func(r Reply) { o.p.Append(body, n, r) }).err()
}

// onlyReads checks that what lies before the damage at offset 20 is served, to readers and to nobody else.
func (o *one) onlyReads() {
	t := o.t
	t.Helper()
	err := o.tryPublish("more")
	if !mqerr.Is(err, mqerr.PartitionDamaged) || !strings.Contains(err.Error(), "force-recover") || !strings.Contains(err.Error(), "offset 20") {
		t.Fatalf("a publish to a damaged partition: %v", err)
	}
	values, done, err := o.readFrom(0)
	if err != nil || done.End != 20 || !slices.Equal(values, longs(0, 20)) {
		t.Errorf("read %q up to %d: %v", values, done.End, err)
	}
	if _, _, err := o.readFrom(25); !mqerr.Is(err, mqerr.OffsetOutOfRange) {
		t.Errorf("a read behind the damage: %v", err)
	}
	o.handovers++
	err = ask(t, func(r Reply) {
		o.p.Receive(1, frame.Receive{Partition: testPartition, Group: 1, Max: 1, MaxBytes: 1 << 20, Handover: o.handovers}, r)
	}).err()
	if !mqerr.Is(err, mqerr.PartitionDamaged) {
		t.Errorf("a receive: %v", err)
	}
	figures := make(chan *mqpb.PartitionFigures, 1)
	o.p.Figures(nil, func(f *mqpb.PartitionFigures) { figures <- f })
	if f := <-figures; f.ReadOnly == "" || f.Next != 20 || f.Code != 0 {
		t.Errorf("figures: %v", f)
	}
	group := make(chan *mqpb.GroupFigures, 1)
	o.p.GroupFigures(1, Oldest{}, func(f *mqpb.GroupFigures) { group <- f })
	if f := <-group; f.Code != 0 || f.Next != 20 {
		t.Errorf("figures of the group: %v", f)
	}
	type traced struct {
		res *mqpb.TraceResponse
		err error
	}
	trace := make(chan traced, 1)
	o.p.Trace(3, false, func(r *mqpb.TraceResponse, err error) { trace <- traced{r, err} })
	if got := <-trace; got.err != nil || len(got.res.Events) < 2 {
		t.Errorf("trace: %v, %v", got.res, got.err)
	}
	counts := make(chan []frame.ReadyCount, 1)
	o.p.Ready([]mq.GroupID{frame.TailGroup, 1}, func(c []frame.ReadyCount) { counts <- c })
	if c := <-counts; c[0].Code != mqerr.OK || c[0].Count != 20 || c[1].Code != mqerr.PartitionDamaged {
		t.Errorf("what is ready: %+v", c)
	}
}

// A value of a sealed segment is broken in the only copy. What is before it is read-only, until an operator gives up what
// is behind it; then the partition goes on with what it had up to there.
func TestDamagedSegmentIsReadOnlyUntilForced(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.thirty()
	o.stop()
	spoil(t, o.dir, "message-20")
	o.start()
	o.onlyReads()

	o.force()
	o.untilServed()
	if f := o.publish("later"); f.First != 30 { // the offsets that were given up are not given again
		t.Errorf("the next message got offset %d", f.First)
	}
	values, done, err := o.readFrom(0)
	if err != nil || !slices.Equal(values, longs(0, 20)) || done.Next != 30 {
		t.Errorf("read %q, then from %d: %v", values, done.Next, err)
	}
	if _, _, err := o.readFrom(20); !mqerr.Is(err, mqerr.Lost) {
		t.Errorf("a read of what was given up: %v", err)
	}
	if err := o.tryPublish("again"); err != nil {
		t.Error(err)
	}
}

// The number of a schedule that was given up names no other one: who was told it may still cancel it.
func TestNumbersThatWereGivenUpAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.thirty()
	lost := o.schedule(time.Hour, "lost").First
	o.stop()
	spoil(t, o.dir, "message-20")
	o.start()
	o.onlyReads()
	o.force()
	o.untilServed()
	other := o.schedule(time.Hour, "other").First
	if other == lost {
		t.Fatalf("schedule %d is another one now", other)
	}
	if err := o.cancel(lost); err == nil {
		t.Error("what was given up is cancelled")
	}
	for range 2 {
		o.onPartition(func(l *leadership) {
			if state, _ := l.book.Look(other); state != schedule.StatePending {
				t.Errorf("schedule %d is %v", other, state)
			}
		})
		o.restart()
		o.untilServed()
	}
	if third := o.schedule(time.Hour, "third").First; third != other+1 {
		t.Errorf("schedule %d follows %d", third, other)
	}
}

// sealed is what the node answers a leader of its own that looks for the end of a segment.
func (o *one) sealed(_ context.Context, r *mqpb.SealRequest) (*mqpb.SealResponse, error) {
	info, _ := o.store.Segment(mq.SegmentID(r.Segments[0]))
	at, err := o.store.Intact(info.Segment.ID)
	return &mqpb.SealResponse{Node: mqpb.FromIncarnation(o.store.Identity()), Segments: []*mqpb.SegmentState{{Segment: r.Segments[0],
		Known: !info.Damaged, Damaged: info.Damaged, Tail: mqpb.FromPosition(at)}}}, err
}

// untilServed waits until the partition can be written to.
func (o *one) untilServed() {
	o.t.Helper()
	o.until("the partition does not serve", func(l *leadership) bool { return l != nil && l.serving })
}

// until waits for something to become so; else the test ends with what is wrong.
func (o *one) until(wrong string, is func(*leadership) bool) {
	o.t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		done := make(chan bool, 1)
		o.p.post(func() { done <- is(o.p.lead) })
		if <-done {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			o.t.Fatal(wrong)
		}
	}
}

// The open segment is shorter than the ledger says when the node starts again: nobody can seal it, so nothing is opened.
func TestDamagedOpenSegmentIsReadOnly(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.thirty()
	info, _ := o.store.Segment(o.world.head.Open.ID)
	o.stop()
	spoil(t, o.dir, "message-20")
	o.boot()
	if err := o.store.Verify(info.Segment.ID); err == nil { // as a read would have, before the restart
		t.Fatal("the damage was not found")
	}
	o.stop()
	o.boot()
	o.p.SetHead(o.world.head)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if _, _, err := o.readFrom(0); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	o.onlyReads()
}

// Museum 2: a damaged replica deletes good data. A copy that is damaged is not removed to be fetched again while nobody
// answers who has it whole: what is intact of it may be all that is left.
func TestMuseum02DamagedCopyDeletesNothing(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.thirty()
	id := o.world.head.Open.ID
	o.stop()
	spoil(t, o.dir, "message-20")
	o.start()
	o.onlyReads()
	o.world.mu.Lock()
	s := *o.world.head.Last
	o.world.mu.Unlock()
	if s.ID != id {
		t.Fatalf("segment %d was sealed, not %d", s.ID, id)
	}
	s.Replicas = append(s.Replicas, mq.Replica{Store: "away", Node: "node-2"})
	if err := o.p.Repair(t.Context(), &s, func(context.Context, int) error { return nil }); err == nil {
		t.Fatal("a copy was repaired with nobody there")
	}
	if at, err := o.store.Intact(id); err != nil || at.Offset != 20 {
		t.Errorf("intact up to %s, %v", at, err)
	}
	o.onlyReads()

	// One who answers that it is whole, and has damage that it has not met, is no better.
	o.env.Peers = others{tails: map[mq.StoreID]mq.Position{"away": s.End}}
	if !o.p.wholeElsewhere(t.Context(), &s) {
		t.Fatal("the other one does not say that it is whole")
	}
	if err := o.p.Repair(t.Context(), &s, func(context.Context, int) error { return nil }); err == nil {
		t.Fatal("a copy was repaired from one that gives nothing")
	}
	if at, err := o.store.Intact(id); err != nil || at.Offset != 20 {
		t.Errorf("intact up to %s, %v", at, err)
	}
}
