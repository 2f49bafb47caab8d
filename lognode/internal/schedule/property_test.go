package schedule

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// dumb is what the book must agree with: a list, looked through from its beginning.
type dumb struct {
	items []dumbItem // by number
}

type dumbItem struct {
	due    int64
	at     mq.Position
	state  State
	offset uint64
}

func (d *dumb) pending() (out []mq.Schedule) {
	for n, it := range d.items {
		if it.state == StatePending {
			out = append(out, mq.Schedule{Number: uint64(n), Due: it.due})
		}
	}
	slices.SortFunc(out, func(a, b mq.Schedule) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
	return out
}

// run is a leader with its journal.
type run struct {
	t       *rapid.T
	b       *Book
	d       dumb
	now     int64
	tail    mq.Position
	entries []mq.Entry
	late    []mq.Schedule
	saved   []byte // a checkpoint, and where it is as of
	asOf    mq.Position
}

// place ends an entry with what the book decided and more.
func (r *run) place(more []byte, count int) {
	e := mq.Entry{At: r.tail, Count: uint32(count), Stamp: r.now, Records: append(r.b.TakeRecords(nil), more...)}
	r.entries = append(r.entries, e)
	r.tail = e.Next()
}

func batchOf(n int) []byte {
	var b mq.BatchBuilder
	for range n {
		b.Add(&mq.Message{Value: []byte("v"), Lane: mq.LaneNormal})
	}
	return b.AppendTo(nil, "p", "g", mq.CodecNone, nil)
}

func (r *run) schedule() {
	n := rapid.SampledFrom([]int{1, 1, 2, 7, 300}).Draw(r.t, "n")
	dues := make([]int64, n)
	spread := rapid.SampledFrom([]int64{0, 3, 1000}).Draw(r.t, "spread")
	for i := range dues {
		dues[i] = r.now + 1 + rapid.Int64Range(0, spread).Draw(r.t, "due")
	}
	if r.b.Unwritten() > 0 { // a schedule's place is that of the entry that is placed now
		r.place(nil, 0)
	}
	got := slices.Clone(r.b.Schedule(r.tail, dues, 10))
	for i, s := range got {
		if s.Number != uint64(len(r.d.items)) || s.Due != dues[i] {
			r.t.Fatalf("schedule %d got %+v", len(r.d.items), s)
		}
		r.d.items = append(r.d.items, dumbItem{due: s.Due, at: r.tail, state: StatePending})
	}
	r.place(mq.AppendRecord(nil, mq.KindScheduled, mq.AppendScheduleBatch(nil, got, batchOf(n))), 0)
}

func (r *run) number() uint64 {
	return rapid.Uint64Range(0, uint64(len(r.d.items))+1).Draw(r.t, "number")
}

func (r *run) cancel() {
	n := r.number()
	want := Unknown
	if n < uint64(len(r.d.items)) {
		switch it := &r.d.items[n]; it.state {
		case StatePending:
			it.state, want = StateCancelled, OK
		case StateCancelled:
			want = OK
		case StateReleased:
			want = Released
		}
	}
	if got := r.b.Cancel(r.now, n); got != want {
		r.t.Fatalf("cancel of %d: %d, want %d", n, got, want)
	}
}

func (r *run) retime() {
	n := r.number()
	due := r.now + rapid.Int64Range(-3, 1000).Draw(r.t, "due")
	want := Unknown
	if n < uint64(len(r.d.items)) {
		switch it := &r.d.items[n]; it.state {
		case StatePending:
			it.due, want = due, OK
		case StateReleased:
			want = Released
		}
	}
	if got := r.b.Retime(r.now, n, due); got != want {
		r.t.Fatalf("re-timing of %d: %d, want %d", n, got, want)
	}
}

// release does what a leader does: take what is due soon, wait, release what is due, some of it later.
func (r *run) release() {
	wanted := r.b.Take(r.now+rapid.Int64Range(0, 500).Draw(r.t, "ahead"), rapid.IntRange(0, 400).Draw(r.t, "limit"), nil)
	for _, w := range wanted {
		if it := r.d.items[w.Number]; it.state != StatePending || it.due != w.Due || it.at != w.At {
			r.t.Fatalf("took %+v, which is %+v", w, it)
		}
		if rapid.IntRange(0, 30).Draw(r.t, "unread") == 0 {
			r.b.Untake(w.Number)
		}
	}
	for {
		s, ok := r.b.Due(r.now)
		if !ok {
			break
		}
		if s.Due > r.now {
			r.t.Fatalf("%+v is due at %d", s, r.now)
		}
		r.late = append(r.late, s)
	}
	var out []mq.Schedule
	keep := rapid.IntRange(0, len(r.late)).Draw(r.t, "keep")
	if r.b.Unwritten() > 0 {
		r.place(nil, 0)
	}
	for _, s := range r.late[keep:] {
		if !r.b.Holds(s) {
			continue
		}
		it := &r.d.items[s.Number]
		if it.state != StatePending || it.due > r.now {
			r.t.Fatalf("released %+v, which is %+v at %d", s, *it, r.now)
		}
		it.state, it.offset = StateReleased, r.tail.Offset+uint64(len(out))
		r.b.Release(s.Number, it.offset)
		out = append(out, s)
	}
	r.late = r.late[:keep]
	if len(out) > 0 {
		r.place(mq.AppendRecord(nil, mq.KindReleased, mq.AppendScheduleBatch(nil, out, batchOf(len(out)))), len(out))
	}
}

// carry writes pending schedules of the beginning again.
func (r *run) carry() {
	if len(r.entries) == 0 {
		return
	}
	end := r.entries[rapid.IntRange(0, len(r.entries)-1).Draw(r.t, "end")].At
	list := r.b.Before(end, rapid.IntRange(1, 50).Draw(r.t, "limit"), nil)
	if len(list) == 0 {
		for n, it := range r.d.items {
			if it.state == StatePending && it.at.Before(end) {
				r.t.Fatalf("%d is before %s and not listed", n, end)
			}
		}
		return
	}
	if r.b.Unwritten() > 0 {
		r.place(nil, 0)
	}
	schedules := make([]mq.Schedule, len(list))
	for i, w := range list {
		schedules[i] = w.Schedule
		r.d.items[w.Number].at = r.tail
	}
	r.b.Carry(r.tail, schedules)
	r.place(mq.AppendRecord(nil, mq.KindCarried, AppendCarried(nil, r.now, schedules, batchOf(len(list)))), 0)
}

func (r *run) save() {
	r.place(nil, 0)
	r.saved, r.asOf = r.b.AppendState(nil), r.tail
}

// failover makes the book anew from the journal: from the checkpoint, if there is one, and what follows.
func (r *run) failover() {
	r.place(nil, 0)
	b, from, err := Load(r.saved)
	if err != nil {
		r.t.Fatal(err)
	}
	gone := r.tail // retention has removed what nothing pending needs now
	for _, it := range r.d.items {
		if it.state == StatePending && it.at.Before(gone) {
			gone = it.at
		}
	}
	for i := range r.entries {
		e := &r.entries[i]
		switch {
		case !e.At.Before(r.asOf):
			continue
		case e.At.Before(from), e.At.Before(gone):
			continue
		}
		if err := b.Restore(e); err != nil {
			r.t.Fatal(err)
		}
	}
	for i := range r.entries {
		if e := &r.entries[i]; !e.At.Before(r.asOf) {
			if err := b.Apply(e); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	if lost := b.Restored(); lost != 0 {
		r.t.Fatalf("%d lost", lost)
	}
	r.b, r.late = b, nil
}

func (r *run) check() {
	if err := r.b.Check(); err != nil {
		r.t.Fatal(err)
	}
	want := r.d.pending()
	if r.b.Pending() != len(want) || r.b.Next() != uint64(len(r.d.items)) {
		r.t.Fatalf("%d pending of %d, want %d of %d", r.b.Pending(), r.b.Next(), len(want), len(r.d.items))
	}
	var got []mq.Schedule
	after := mq.Schedule{Due: -1 << 60}
	for page := r.b.List(after, 100); len(page) > 0; page = r.b.List(after, 100) {
		for _, w := range page {
			got = append(got, w.Schedule)
		}
		after = page[len(page)-1].Schedule
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("listed %v, want %v", got, want)
	}
	for n, it := range r.d.items {
		state, w := r.b.Look(uint64(n))
		if state != it.state || state == StatePending && (w.Due != it.due || w.At != it.at) {
			r.t.Fatalf("%d is %d %+v, want %+v", n, state, w, it)
		}
		if place, ok := r.b.Where(uint64(n)); ok && place.Offset != it.offset {
			r.t.Fatalf("%d is at %d, want %d", n, place.Offset, it.offset)
		}
	}
}

// The book agrees with a list over any sequence of decisions, checkpoints and failovers: nothing is released early,
// twice or not at all (museum 19, 42), and nothing that was cancelled is.
func TestBookAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &run{t: t, b: New(), now: 1_000_000}
		steps := map[string]func(){"schedule": r.schedule, "cancel": r.cancel, "retime": r.retime, "release": r.release,
			"carry": r.carry, "save": r.save, "failover": r.failover,
			"wait": func() { r.now += rapid.Int64Range(0, 400).Draw(t, "wait") }}
		names := []string{"schedule", "schedule", "cancel", "cancel", "retime", "release", "release", "release", "carry", "save", "failover", "wait", "wait"}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			steps[rapid.SampledFrom(names).Draw(t, "step")]()
			r.check()
		}
		// In the end everything comes, once.
		r.now += 1 << 20
		for range 1000 {
			for _, w := range r.b.Take(r.now, 1000, nil) {
				_ = w
			}
			for s, ok := r.b.Due(r.now); ok; s, ok = r.b.Due(r.now) {
				r.late = append(r.late, s)
			}
			if len(r.late) == 0 {
				break
			}
			for _, s := range r.late {
				if it := &r.d.items[s.Number]; r.b.Holds(s) && it.state == StatePending {
					it.state = StateReleased
					r.b.Release(s.Number, 0)
				}
			}
			r.late = nil
		}
		if left := r.d.pending(); len(left) > 0 || r.b.Pending() > 0 {
			t.Fatalf("never released: %v", left)
		}
	})
}

// FuzzLoad: any state in a checkpoint is refused or loads to a book that holds its invariants.
func FuzzLoad(f *testing.F) {
	b := New()
	b.Schedule(mq.Position{Offset: 3}, []int64{5, 6, 7}, 9)
	b.Cancel(1, 1)
	b.Retime(1, 2, 9)
	f.Add(b.AppendState(nil))
	f.Fuzz(func(t *testing.T, state []byte) {
		b, _, err := Load(state)
		if err != nil {
			return
		}
		b.Restored()
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzApply(f *testing.F) {
	f.Add(mq.AppendRecord(nil, mq.KindScheduled, mq.AppendScheduleBatch(nil, []mq.Schedule{{Number: 0, Due: 5}}, batchOf(1))))
	f.Add(mq.AppendRecord(nil, mq.KindCancelled, change{op: opRetime, now: 4, number: 0, due: 9}.append(nil)))
	f.Add(mq.AppendRecord(nil, mq.KindCarried, AppendCarried(nil, 3, []mq.Schedule{{Number: 0, Due: 5}}, batchOf(1))))
	f.Fuzz(func(t *testing.T, records []byte) {
		b := New()
		b.Schedule(mq.Position{}, []int64{5, 6, 7}, 9)
		if b.Apply(&mq.Entry{At: mq.Position{Offset: 1}, Records: records}) != nil && fmt.Sprint(b.Pending()) != "3" {
			t.Fatal("an error changed the state")
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
	})
}
