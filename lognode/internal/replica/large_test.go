package replica

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// together runs f while the partition's goroutine waits, so that what f posts is one round of events.
func (o *one) together(f func()) {
	gate := make(chan struct{})
	o.p.post(func() { <-gate })
	f()
	close(gate)
}

// answered waits for an answer; a leader that asks for a seal meanwhile did not get its entry to the disk.
func (o *one) answered(ch <-chan answer) answer {
	o.t.Helper()
	select {
	case a := <-ch:
		return a
	case <-o.wants:
		o.t.Fatal("the leader asks for a seal")
	}
	return answer{}
}

func (o *one) onPartition(f func(l *leadership)) {
	done := make(chan struct{})
	o.p.post(func() {
		defer close(done)
		f(o.p.lead)
	})
	<-done
}

// One message alone may be nearly as large as an entry may be: a due one and a published one are not put into the same.
func TestLargeMessagesDoNotShareAnEntry(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	large := strings.Repeat("x", mq.LargestMaxMessageBytes)
	o.env.Ahead.Store(int64(2 * MaxSkew)) // what is due waits
	f := o.schedule(time.Millisecond, large)
	for there := false; !there; {
		o.onPartition(func(l *leadership) { there = l.ahead.Has(f.First) })
	}
	body, n := batchOf(large)
	ch := make(chan answer, 1)
	o.together(func() {
		o.p.Append(body, n, func(ft frame.Type, b link.Encoder) { ch <- answer{ft, b.AppendTo(nil)} })
		o.p.post(func() {
			o.env.Ahead.Store(0)
			o.p.schedulesDue()
		})
	})
	if err := o.answered(ch).err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if m := o.await(1); len(m) != 1 || m[0].value != large {
			t.Fatalf("%d messages", len(m))
		}
	}
}

// largestBatch is one message that has as much of everything as it may have.
func largestBatch() ([]byte, mq.Message) {
	m := mq.Message{Value: bytes.Repeat([]byte("v"), mq.LargestMaxMessageBytes), Lane: mq.LaneNormal,
		Key: bytes.Repeat([]byte("k"), mq.MaxKeyBytes), ContentType: strings.Repeat("t", mq.MaxContentTypeBytes),
		TTL: int64(time.Hour)}
	for i := range mq.MaxHeaders {
		name := fmt.Sprintf("h%02d", i)
		m.Headers = append(m.Headers, mq.Header{Name: name, Value: strings.Repeat("h", mq.MaxHeaderBytes-len(name))})
	}
	var b mq.BatchBuilder
	b.Add(&m)
	long := strings.Repeat("n", mq.MaxNameLength)
	return b.AppendTo(nil, long, long, mq.CodecNone, nil), m
}

// The largest message there can be fits into an entry behind the records that may be before it, and such an entry into what
// carries it: a batch, a store's value, a message of a stream with the rest of a piece before it.
func TestLargestMessageFitsEverywhere(t *testing.T) {
	body, m := largestBatch()
	if room := MaxBatch - len(body); room < 64<<10 {
		t.Errorf("the largest batch has %d bytes, of at most %d", len(body), MaxBatch)
	}
	if MaxBatch+entryAbout+mq.EntryHeaderSize+64<<10 > store.MaxEntryBytes {
		t.Errorf("an entry of at most %d bytes has no room for a batch of %d behind records of %d", store.MaxEntryBytes, MaxBatch, entryAbout)
	}
	if store.MaxEntryBytes+feedBytes+64<<10 > link.MaxMessage {
		t.Errorf("a stream's message of at most %d bytes has no room for an entry of %d", link.MaxMessage, store.MaxEntryBytes)
	}

	o := newOne(t)
	o.group(1, nil)
	values := make([]string, 950)
	for i := range values {
		values[i] = "m"
	}
	o.publish(values...)
	var items []delivery.SettleItem
	for i, x := range o.receive(1, len(values)) { // nearly as many records as an entry begins with
		reason := fmt.Sprintf("%d%s", i, strings.Repeat("r", mq.MaxReasonBytes-5))
		items = append(items, delivery.SettleItem{Receipt: x.receipt, Outcome: delivery.Nack, Reason: reason, Delay: int64(time.Hour)})
	}
	ch := make(chan answer, 2)
	put := func(ft frame.Type, b link.Encoder) { ch <- answer{ft, b.AppendTo(nil)} }
	o.together(func() {
		o.p.Settle(items, make([]mqerr.Code, len(items)), put)
		o.p.Append(body, 1, put)
	})
	for range 2 {
		if err := o.answered(ch).err(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := o.store.EntryAt(o.world.head.Open.ID, uint64(len(values)))
	if err != nil || len(data) < len(body)+900<<10 {
		t.Fatalf("the entry has %d bytes, they were to share one: %v", len(data), err)
	}
	if got := o.receive(1, 1); len(got) != 1 || got[0].value != string(m.Value) {
		t.Errorf("%d messages", len(got))
	}
}

// The reasons of what consumers refuse are records, too: many of them at once are more than one entry.
func TestManyRecordsAreSeveralEntries(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	values := make([]string, 9000)
	for i := range values {
		values[i] = "m"
	}
	o.publish(values...)
	reasons := []string{strings.Repeat("a", mq.MaxReasonBytes), strings.Repeat("b", mq.MaxReasonBytes)}
	var calls [][]delivery.SettleItem
	for g := mq.GroupID(1); g <= 3; g++ {
		o.group(g, nil)
		var items []delivery.SettleItem
		for _, m := range o.receive(g, len(values)) {
			items = append(items, delivery.SettleItem{Receipt: m.receipt, Outcome: delivery.Nack, Reason: reasons[len(items)%2], Delay: int64(time.Hour)})
		}
		if len(items) != len(values) {
			t.Fatalf("%d of %d are out", len(items), len(values))
		}
		calls = append(calls, items)
	}
	size := 0
	ch := make(chan answer, len(calls))
	o.together(func() {
		for _, items := range calls {
			size += len(items) * mq.MaxReasonBytes
			o.p.Settle(items, make([]mqerr.Code, len(items)), func(ft frame.Type, b link.Encoder) { ch <- answer{ft, b.AppendTo(nil)} })
		}
	})
	if size < store.MaxEntryBytes {
		t.Fatalf("%d bytes of reasons fit into one entry", size)
	}
	for range calls {
		if err := o.answered(ch).err(); err != nil {
			t.Fatal(err)
		}
	}
}

// What is read ahead of its time is bounded in bytes, not only in messages.
func TestReadAheadIsBounded(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	const count = 3 * aheadBytes >> 20
	mib := strings.Repeat("x", 1<<20)
	var all []schedule.Wanted
	for range count {
		o.schedule(time.Hour, mib)
	}
	var j journal
	o.onPartition(func(l *leadership) {
		all = l.book.Take(time.Now().Add(2*time.Hour).UnixNano(), aheadCount, nil)
		j = l.journal()
	})
	if len(all) != count {
		t.Fatalf("%d of %d", len(all), count)
	}
	dealt, got, err := o.p.readScheduled(t.Context(), &j, all, aheadBytes)
	if err != nil || len(dealt) != len(got) || len(got) > aheadBytes>>20+1 || len(got) < aheadBytes>>20-1 {
		t.Fatalf("%d messages for %d schedules: %v", len(got), len(dealt), err)
	}
	for i, w := range dealt {
		if w != all[i] {
			t.Fatalf("schedule %d before %d, which is due earlier", w.Number, all[i].Number)
		}
	}
	carried, err := o.p.readCarried(t.Context(), &j, all)
	if err != nil || len(carried) > aheadBytes>>20+1 {
		t.Fatalf("%d messages are read to be carried: %v", len(carried), err)
	}
}

// More is due at once than is read ahead: all of it comes.
func TestMoreIsDueThanIsReadAhead(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	const count = 2 * aheadBytes >> 20
	mib := strings.Repeat("x", 1<<20)
	for range count {
		o.schedule(500*time.Millisecond, mib)
	}
	seen := map[uint64]bool{}
	for len(seen) < count {
		for _, m := range o.await(1) {
			seen[m.receipt.Offset] = true
		}
		o.onPartition(func(l *leadership) {
			if n := l.ahead.Bytes(); n > aheadBytes+2<<20 {
				t.Errorf("%d bytes are held", n)
			}
		})
	}
}

// The first message of a time may lie behind what a copy that is being made has: the rest is looked through elsewhere.
func TestTimeIsFoundBehindAShortCopy(t *testing.T) {
	t.Parallel()
	from, here := openStore(t), openStore(t)
	seg := mq.Segment{ID: 5, Partition: testPartition, Number: 1, Quorum: 2, Leader: from.Identity(), Compared: 1,
		Replicas: []mq.Replica{{Store: from.Identity().Store}, {Store: here.Identity().Store}}}
	for _, s := range []*store.Store{from, here} {
		if err := s.CreateSegments([]mq.Segment{seg}); err != nil {
			t.Fatal(err)
		}
	}
	_, end := fill(t, from, &seg, 40) // stamped 1 to 40
	fill(t, here, &seg, 7)
	p := &Partition{env: &Env{Store: here, Peers: donor{store: from}}, id: testPartition}
	seg.Sealed, seg.End = true, end
	for stamp, offset := range map[int64]uint64{1: 0, 7: 6, 8: 7, 25: 24, 40: 39} {
		at, found, err := p.stampSearch(t.Context(), &seg, stamp)
		if err != nil || !found || at.Offset != offset {
			t.Errorf("stamp %d: offset %d, %v, %v; want %d", stamp, at.Offset, found, err, offset)
		}
	}
	if _, found, err := p.stampSearch(t.Context(), &seg, 41); found || err != nil {
		t.Errorf("beyond the end: %v, %v", found, err)
	}
}

// Of large messages an answer has as many as were asked for in bytes, and one more would be more than a stream between
// tiers may carry at a time; that holds over lanes, too.
func TestLargeMessagesDoNotShareAnAnswer(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	large := strings.Repeat("x", 15<<20)
	for _, lane := range []mq.Lane{mq.LaneNormal, mq.LaneNormal, mq.LaneHigh} {
		var b mq.BatchBuilder
		b.Add(&mq.Message{Value: []byte(large), Lane: lane})
		body := b.AppendTo(nil, "p", "g", mq.CodecNone, nil)
		if err := ask(t, func(r Reply) { o.p.Append(body, 1, r) }).err(); err != nil {
			t.Fatal(err)
		}
	}
	o.group(1, nil)
	for _, offset := range []uint64{2, 0, 1} {
		o.handovers++
		a := ask(t, func(r Reply) {
			o.p.Receive(1, frame.Receive{Partition: testPartition, Group: 1, Max: 10, MaxBytes: 16 << 20, Handover: o.handovers}, r)
		})
		if len(a.body) > 17<<20 {
			t.Errorf("an answer has %d bytes", len(a.body))
		}
		var f frame.Received
		if err := errors.Join(a.err(), f.Parse(a.body)); err != nil {
			t.Fatal(err)
		}
		got := o.unpack(1, &f)
		if len(got) != 1 || got[0].receipt.Offset != offset || got[0].attempt != 1 {
			t.Fatalf("%d messages, the first at %d; want the one at %d", len(got), got[0].receipt.Offset, offset)
		}
	}
}

// What a checkpoint takes does not count as journal since the last one: a state that is larger than checkpointEvery would be
// written again as soon as it is committed, for ever.
func TestACheckpointIsNoReasonForTheNext(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.onPartition(func(l *leadership) {
		before := l.sinceOpen
		if !o.p.checkpoint(l) || l.sinceOpen == before {
			t.Error("no checkpoint was made")
		}
		if since := l.sinceOpen - l.checkpointed; since != 0 {
			t.Errorf("%d bytes since the checkpoint that was just made", since)
		}
	})
}

// A state may be larger than a segment. The segment that begins with it is not full by that, or it would be sealed as soon as it is
// open, and the next one as well, for ever.
func TestACheckpointIsNoReasonToRoll(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.onPartition(func(l *leadership) {
		o.p.env.SegmentBytes = 1 << 10
		for l.checkpoints < 2*o.p.env.SegmentBytes {
			if !o.p.checkpoint(l) {
				t.Error("no checkpoint was made")
				return
			}
		}
	})
	o.publish("small")
	o.onPartition(func(l *leadership) {
		if l.asked {
			t.Errorf("it is to roll with %d bytes beside checkpoints", l.sinceOpen-l.checkpoints)
		}
	})
	o.publish(strings.Repeat("x", 1<<10))
	o.onPartition(func(l *leadership) {
		if !l.asked {
			t.Error("it is not to roll")
		}
	})
}
