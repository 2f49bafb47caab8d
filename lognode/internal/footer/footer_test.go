package footer

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/lognode/internal/dedup"
	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
)

// journal makes entries of one segment with the records of a real machine, and knows by itself what they say.
type journal struct {
	t       *rapid.T
	m       *delivery.Machine
	next    mq.Position
	now     int64
	entries []mq.Entry
	lanes   [mq.Lanes][]uint64
	keys    []dedup.Entry
	out     []mq.Receipt
}

const segmentID = 7

func newJournal(t *rapid.T) *journal {
	j := &journal{t: t, m: delivery.New(mq.PartitionID{Topic: 1}), next: mq.Position{Offset: 100, Seq: 3}, now: 1000}
	j.m.Lead(1, j.now)
	for g := range mq.GroupID(2) {
		c := delivery.GroupConfig{ID: g + 1, Name: fmt.Sprint(g), Version: 1, Settings: mq.DefaultGroupSettings(), Start: 100}
		if err := j.m.EnsureGroup(j.now, c); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

func (j *journal) entry(batch []byte, n int) {
	e := mq.Entry{Segment: segmentID, At: j.next, Stamp: j.now, Records: j.m.TakeRecords(nil), Count: uint32(n)}
	if batch != nil {
		e.Records = mq.AppendRecord(e.Records, mq.KindMessages, batch)
	}
	j.entries = append(j.entries, e)
	j.next = e.Next()
	j.m.Commit(j.next.Offset)
}

func (j *journal) publish() {
	var b mq.BatchBuilder
	n := rapid.IntRange(1, 30).Draw(j.t, "messages")
	for i := range n {
		m := mq.Message{Value: []byte{byte(i)}, Lane: mq.LaneNormal}
		at := j.next.Offset + uint64(i)
		if rapid.IntRange(0, 3).Draw(j.t, "lane?") == 0 {
			m.Lane = mq.Lane(rapid.IntRange(0, mq.Lanes-1).Draw(j.t, "lane"))
		}
		if m.Lane != mq.LaneNormal {
			j.lanes[m.Lane] = append(j.lanes[m.Lane], at)
		}
		if rapid.IntRange(0, 3).Draw(j.t, "key?") == 0 {
			m.Idempotency[0], m.Content = byte(rapid.IntRange(1, 255).Draw(j.t, "key")), at
			j.keys = append(j.keys, dedup.Entry{Key: m.Idempotency, Content: at, Number: at, Stamp: j.now})
		}
		b.Add(&m)
	}
	j.entry(b.AppendTo(nil, "p", "g", mq.CodecNone, nil), n)
}

func (j *journal) step() {
	j.now += int64(rapid.IntRange(0, 5).Draw(j.t, "later"))
	switch rapid.IntRange(0, 3).Draw(j.t, "step") {
	case 0:
		j.publish()
	case 1:
		g := mq.GroupID(rapid.IntRange(1, 2).Draw(j.t, "group"))
		r, err := j.m.Receive(j.now, delivery.ReceiveRequest{Group: g, Max: rapid.IntRange(1, 20).Draw(j.t, "max"), Consumer: "c"})
		if err != nil {
			j.t.Fatal(err)
		}
		for _, run := range r.Runs {
			for i := range uint64(run.Count) {
				j.out = append(j.out, mq.Receipt{Offset: run.First + i, Group: g, Generation: r.Generation, Segment: 1, Counter: run.Counter + i})
			}
		}
	case 2:
		var items []delivery.SettleItem
		for range min(len(j.out), 5) {
			i := rapid.IntRange(0, len(j.out)-1).Draw(j.t, "which")
			items = append(items, delivery.SettleItem{Receipt: j.out[i], Outcome: rapid.SampledFrom([]delivery.Outcome{delivery.Ack, delivery.Nack, delivery.Reject}).Draw(j.t, "how")})
			j.out = slices.Delete(j.out, i, i+1)
		}
		j.m.Settle(j.now, items, nil)
	case 3:
		if j.m.Pending() > 0 {
			j.entry(nil, 0)
		}
	}
}

// names says what the journal says about a message, by reading all of it.
func (j *journal) names(offset uint64) (at []mq.Position) {
	for i := range j.entries {
		n := 0
		if err := delivery.TraceEntry(&j.entries[i], offset, func(ev delivery.Event) {
			if ev.Type != delivery.EventPublished {
				n++
			}
		}); err != nil {
			j.t.Fatal(err)
		}
		if n > 0 {
			at = append(at, j.entries[i].At)
		}
	}
	return at
}

// build feeds the entries in order and cuts parts at random.
func (j *journal) build() *Footer {
	f := New(segmentID, mq.Position{Offset: 100, Seq: 3}, &j.next)
	b := NewBuilder(segmentID, f.To)
	var file []byte
	for i := range j.entries {
		if err := b.Add(&j.entries[i], 4<<10); err != nil {
			j.t.Fatal(err)
		}
		if rapid.IntRange(0, 9).Draw(j.t, "cut") == 0 {
			file = append(file, b.Next()...)
		}
	}
	file = append(file, b.Next()...)
	if n := f.Read(bytes.NewReader(file), int64(len(file))); n != int64(len(file)) || f.To != j.next {
		j.t.Fatalf("read %d of %d bytes, to %s, want %s", n, len(file), f.To, j.next)
	}
	return f
}

// anyJournal is one with some messages.
func anyJournal(t *rapid.T) *journal {
	j := newJournal(t)
	j.publish()
	for range rapid.IntRange(1, 80).Draw(t, "steps") {
		j.step()
	}
	return j
}

// wantLanes compares the lanes that a footer says with those of the journal.
func (j *journal) wantLanes(f *Footer) {
	var each [mq.Lanes][]uint64
	if err := f.EachLane(func(l mq.Lane, offsets []uint64) { each[l] = append(each[l], offsets...) }); err != nil || !reflect.DeepEqual(each, j.lanes) {
		j.t.Fatalf("%v: %v, want %v", err, each, j.lanes)
	}
}

func TestFooterSaysWhatTheEntriesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := anyJournal(t)
		f := j.build()
		j.wantLanes(f)
		var keys [][]dedup.Entry
		if err := f.Keys(0, func(list dedup.Form, own int) bool {
			keys = append(keys, list.AppendTo(nil))
			return own == list.Len()
		}); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(keys)
		if got := slices.Concat(keys...); !slices.Equal(got, j.keys) {
			t.Fatalf("keys %v, want %v", got, j.keys)
		}
		for offset := uint64(98); offset < j.next.Offset+2; offset++ {
			spans, err := f.Naming(offset)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range j.names(offset) {
				if !slices.ContainsFunc(spans, func(s Span) bool { return !at.Before(s.From) && at.Before(s.To) }) {
					t.Fatalf("offset %d is named at %s, which is not in %v", offset, at, spans)
				}
			}
			for _, s := range spans {
				if !slices.ContainsFunc(j.names(offset), func(at mq.Position) bool { return !at.Before(s.From) && at.Before(s.To) }) {
					t.Fatalf("offset %d: nothing in %v", offset, s)
				}
			}
		}
	})
}

func TestPartThatGrowsNamesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := newJournal(t)
		j.publish()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			j.step()
		}
		b := NewBuilder(segmentID, mq.Position{Offset: 100, Seq: 3})
		for i := range j.entries {
			if err := b.Add(&j.entries[i], 40<<10); err != nil {
				t.Fatal(err)
			}
		}
		f := New(segmentID, mq.Position{Offset: 100, Seq: 3}, nil)
		if !f.TakeBytes(b.Encode()) {
			t.Fatal("the part is not taken")
		}
		for offset := uint64(99); offset < j.next.Offset+1; offset++ {
			want, err := f.Naming(offset)
			if err != nil {
				t.Fatal(err)
			}
			if got := b.Naming(offset); !slices.Equal(got, want) {
				t.Fatalf("offset %d: %v while it grows, %v encoded", offset, got, want)
			}
		}
	})
}

// TestMuseum33ATraceReadsFewBlocks: what is about a message far behind the tail is found without a look at what lies
// between.
func TestMuseum33ATraceReadsFewBlocks(t *testing.T) {
	const rounds, batch = 90, 100 // within max_in_flight
	m := delivery.New(mq.PartitionID{Topic: 1})
	m.Lead(1, 1)
	if err := m.EnsureGroup(1, delivery.GroupConfig{ID: 1, Name: "g", Version: 1, Settings: mq.DefaultGroupSettings()}); err != nil {
		t.Fatal(err)
	}
	var build mq.BatchBuilder
	for range batch {
		build.Add(&mq.Message{Lane: mq.LaneNormal})
	}
	b, f, at := NewBuilder(1, mq.Position{}), New(1, mq.Position{}, nil), mq.Position{}
	for now := range int64(rounds) {
		e := mq.Entry{Segment: 1, At: at, Stamp: now, Count: batch, Records: mq.AppendRecord(m.TakeRecords(nil), mq.KindMessages, build.AppendTo(nil, "", "", mq.CodecNone, nil))}
		if err := b.Add(&e, blockBytes); err != nil { // a block each
			t.Fatal(err)
		}
		at = e.Next()
		m.Commit(at.Offset)
		if _, err := m.Receive(now, delivery.ReceiveRequest{Group: 1, Max: batch}); err != nil {
			t.Fatal(err)
		}
		if now%40 == 39 && !f.TakeBytes(b.Next()) {
			t.Fatal("not taken")
		}
	}
	if !f.TakeBytes(b.Next()) {
		t.Fatal("not taken")
	}
	for offset := uint64(0); offset < (rounds-1)*batch; offset += 77 {
		spans, err := f.Naming(offset)
		// Delivered by the entry after its own, which is a block of 100 messages.
		want := []Span{{mq.Position{Offset: (offset/batch + 1) * batch}, mq.Position{Offset: (offset/batch + 2) * batch}}}
		if err != nil || !slices.Equal(spans, want) {
			t.Fatalf("offset %d: %v %v, want %v", offset, spans, err, want)
		}
	}
}

// A record of a kind that is not known may be about anything.
func TestUnknownRecordNamesEverything(t *testing.T) {
	b := NewBuilder(1, mq.Position{})
	e := mq.Entry{Segment: 1, Records: mq.AppendRecord(nil, 200, []byte("?"))}
	if err := b.Add(&e, 100); err != nil {
		t.Fatal(err)
	}
	if got := b.Naming(12345); len(got) != 1 {
		t.Fatalf("%v", got)
	}
	f := New(1, mq.Position{}, nil)
	if !f.TakeBytes(b.Next()) {
		t.Fatal("not taken")
	}
	if got, err := f.Naming(99999999); err != nil || len(got) != 1 {
		t.Fatalf("%v %v", got, err)
	}
}

// No flipped bit is believed: either the part is not taken, or the section that it is in says that it is damaged.
func TestDamageIsNoticed(t *testing.T) {
	var b mq.BatchBuilder
	b.Add(&mq.Message{Lane: mq.LaneHigh, Idempotency: [16]byte{9}})
	m := delivery.New(mq.PartitionID{Topic: 1})
	m.Lead(1, 1)
	if err := m.EnsureGroup(1, delivery.GroupConfig{ID: 1, Name: "g", Version: 1, Settings: mq.DefaultGroupSettings()}); err != nil {
		t.Fatal(err)
	}
	first := mq.Entry{Segment: 1, Count: 1, Records: mq.AppendRecord(m.TakeRecords(nil), mq.KindMessages, b.AppendTo(nil, "", "", mq.CodecNone, nil))}
	m.Commit(1)
	if _, err := m.Receive(2, delivery.ReceiveRequest{Group: 1, Max: 1}); err != nil {
		t.Fatal(err)
	}
	second := mq.Entry{Segment: 1, At: first.Next(), Records: m.TakeRecords(nil)}
	x := NewBuilder(1, mq.Position{})
	if err := errors.Join(x.Add(&first, 1), x.Add(&second, 1)); err != nil {
		t.Fatal(err)
	}
	good := x.Next()
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0x10
		f := New(1, mq.Position{}, nil)
		if !f.TakeBytes(bad) {
			continue
		}
		_, named := f.Naming(0)
		_, waits := f.Scheduled()
		err := errors.Join(waits, f.EachLane(func(mq.Lane, []uint64) {}), f.Keys(0, func(dedup.Form, int) bool { return true }), named)
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d of %d: %v", i, len(good), err)
		}
	}
	for n := range good { // a torn end
		f := New(1, mq.Position{}, nil)
		if got := f.Read(bytes.NewReader(good[:n]), int64(n)); got != 0 {
			t.Fatalf("%d of %d bytes are taken for a part", n, len(good))
		}
	}
}

func FuzzPart(f *testing.F) {
	b := NewBuilder(1, mq.Position{})
	e := mq.Entry{Segment: 1, Records: mq.AppendRecord(nil, 200, nil)}
	if err := b.Add(&e, 1); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		ft := New(1, mq.Position{}, nil)
		if !ft.TakeBytes(in) {
			return
		}
		_ = ft.EachLane(func(mq.Lane, []uint64) {})
		_, _ = ft.Naming(3)
		_ = ft.Keys(0, func(dedup.Form, int) bool { return true })
	})
}
