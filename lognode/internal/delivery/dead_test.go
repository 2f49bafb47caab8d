package delivery

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// limitsOf gives one of the groups of the property test limits for its dead letters.
func limitsOf(id mq.GroupID) mq.DeadLimits {
	switch id {
	case 1:
		return mq.DeadLimits{MaxBytes: 8}
	case 3:
		return mq.DeadLimits{}
	}
	return mq.DeadLimits{MaxCount: 2, MaxAge: mq.Duration(20 * time.Second)}
}

// sizeAt is how large a message of the property tests is taken to be.
func sizeAt(off uint64) uint32 { return uint32(off%4) + 1 }

// weigh tells the machine the sizes that it asks for.
func (w *world) weigh() {
	for {
		offsets := w.m.TakeUnsized(3)
		if len(offsets) == 0 {
			return
		}
		sizes := make([]uint32, len(offsets))
		for i, off := range offsets {
			sizes[i] = sizeAt(off)
		}
		w.m.LearnSizes(w.now, offsets, sizes)
	}
}

// trim is what the limits take from the oracle: each that is too old, then the oldest while there are too many.
func (o *oracle) trim(now int64) {
	var dead []uint64
	for off, s := range o.state {
		if s == StateDead {
			dead = append(dead, off)
		}
	}
	slices.SortFunc(dead, func(a, b uint64) int {
		if o.died[a] < o.died[b] || o.died[a] == o.died[b] && a < b {
			return -1
		}
		return 1
	})
	bytes := int64(0)
	for _, off := range dead {
		bytes += int64(sizeAt(off))
	}
	for i, off := range dead {
		tooLarge := o.limits.MaxBytes > 0 && bytes > o.limits.MaxBytes
		bytes -= int64(sizeAt(off))
		tooOld := o.limits.MaxAge > 0 && o.died[off]+int64(o.limits.MaxAge) <= now
		if tooOld || tooLarge || o.limits.MaxCount > 0 && len(dead)-i > o.limits.MaxCount {
			o.state[off] = StateAcked
		}
	}
}

func (w *world) deadSteps() map[string]func(*rapid.T) {
	pick := func(t *rapid.T) (mq.GroupID, []uint64) {
		id := mq.GroupID(rapid.IntRange(1, len(w.groups)).Draw(t, "group"))
		from := rapid.Uint64Range(0, 30).Draw(t, "from")
		var offsets []uint64
		for _, h := range w.m.Dead(id, DeadFilter{Reason: rapid.SampledFrom([]string{"", "S", "lease"}).Draw(t, "reason")}, from, 3) {
			offsets = append(offsets, h.Offset)
		}
		for range rapid.IntRange(0, 2).Draw(t, "others") { // those that are not dead are passed over
			offsets = append(offsets, rapid.Uint64Range(0, 40).Draw(t, "other"))
		}
		slices.Sort(offsets)
		return id, slices.Compact(offsets)
	}
	each := func(t *rapid.T, id mq.GroupID, offsets []uint64, got int, err error, f func(o *oracle, off uint64, i int64)) {
		n := 0
		for _, off := range offsets {
			if o := w.groups[id]; o.state[off] == StateDead {
				f(o, off, int64(n))
				n++
			}
		}
		if err != nil || got != n {
			t.Fatalf("%d of %v, %v; want %d", got, offsets, err, n)
		}
	}
	return map[string]func(*rapid.T){
		"redrive": func(t *rapid.T) {
			id, offsets := pick(t)
			delay, interval := rapid.Int64Range(0, 2).Draw(t, "delay")*sec, rapid.Int64Range(0, 2).Draw(t, "interval")*sec
			got, err := w.m.Redrive(w.now, id, offsets, delay, interval)
			each(t, id, offsets, got, err, func(o *oracle, off uint64, i int64) {
				o.state[off], o.attempt[off], o.until[off] = StateWaiting, 0, w.now+delay+i*interval
				o.neverOut(off)
				if o.until[off] == w.now {
					o.state[off] = StateReady
				}
			})
		},
		"remove dead": func(t *rapid.T) {
			id, offsets := pick(t)
			got, err := w.m.RemoveDead(w.now, id, offsets)
			each(t, id, offsets, got, err, func(o *oracle, off uint64, _ int64) { o.state[off] = StateAcked })
		},
		// Its oracle is what replay and checkpoint say of the flag (dump), and Check, which counts it.
		"export dead": func(t *rapid.T) {
			id, offsets := pick(t)
			before := len(w.m.Dead(id, DeadFilter{Unexported: true}, 0, 1000))
			got, err := w.m.MarkExported(w.now, id, offsets, w.now)
			if left := len(w.m.Dead(id, DeadFilter{Unexported: true}, 0, 1000)); err != nil || got != before-left {
				t.Fatalf("exported %d, %v; %d before and %d after were not", got, err, before, left)
			}
			if again, _ := w.m.MarkExported(w.now, id, offsets, w.now); again != 0 {
				t.Fatalf("exported %d a second time", again)
			}
		},
	}
}

// Museum 30: a redrive made messages ready where nobody reads, and said that it had worked. Here they come to the same
// group, counted from the first attempt, and what is said is what was moved.
func TestMuseum30RedriveReachesTheSameGroup(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.group(2, nil)
	j.cut(5)
	j.want(Reject, SettleOK, StateDead, receipts(j.receive(1, 5, 1))...)
	all := []uint64{0, 1, 2, 3, 4}
	if f, _ := j.m.Figures(1); f.Cursor != 5 {
		t.Errorf("all are dead, and the cursor is %d", f.Cursor)
	}
	moved, err := j.m.Redrive(j.now, 1, []uint64{1, 2, 4}, 0, 0)
	if moved != 3 || err != nil {
		t.Fatalf("moved %d, %v; want 3", moved, err)
	}
	if f, _ := j.m.Figures(1); f.Cursor != 1 { // what retention keeps
		t.Errorf("the cursor is %d", f.Cursor)
	}
	if again, _ := j.m.Redrive(j.now, 1, []uint64{1, 2, 4}, 0, 0); again != 0 {
		t.Errorf("what is not dead was moved again: %d", again)
	}
	j.cut(0)
	j.failover()
	g := j.receive(1, 10, 2)
	j.offsets([]uint64{1, 2, 4}, g)
	if g.Runs[0].Attempt != 1 {
		t.Errorf("attempt %d, want 1", g.Runs[0].Attempt)
	}
	j.offsets(all, j.receive(2, 10, 3)) // the other group never had dead ones
	j.want(Ack, SettleOK, StateAcked, receipts(g)...)
	if f, _ := j.m.Figures(1); f.Dead != 2 || f.Acked != 3 || f.Lag != 0 {
		t.Errorf("figures: %+v", f)
	}
}

func TestRedriveAtARate(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(3)
	j.want(Reject, SettleOK, StateDead, receipts(j.receive(1, 3, 1))...)
	if moved, err := j.m.Redrive(j.now, 1, []uint64{0, 1, 2}, 0, sec); moved != 3 || err != nil {
		t.Fatalf("moved %d, %v", moved, err)
	}
	j.offsets([]uint64{0}, j.receive(1, 3, 2))
	j.pass(time.Second - 1)
	j.offsets(nil, j.receive(1, 3, 3))
	j.pass(1)
	j.offsets([]uint64{1}, j.receive(1, 3, 4))
	j.pass(time.Second)
	j.offsets([]uint64{2}, j.receive(1, 3, 5))
}

func TestDeadLimitsRemoveTheOldest(t *testing.T) {
	j := newJournal(t)
	limits := func(n int, age time.Duration, version uint64) {
		j.group(1, func(c *GroupConfig) {
			c.Version, c.Settings.Dead = version, mq.DeadLimits{MaxCount: n, MaxAge: mq.Duration(age)}
		})
	}
	dead := func(want ...uint64) {
		t.Helper()
		var got []uint64
		for _, h := range j.m.Dead(1, DeadFilter{}, 0, 100) {
			got = append(got, h.Offset)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("dead: %v, want %v", got, want)
		}
		if err := j.m.Check(); err != nil {
			t.Fatal(err)
		}
	}
	limits(3, 0, 1)
	j.cut(6)
	rs := receipts(j.receive(1, 6, 1))
	for _, i := range []int{5, 0, 1, 2} { // 5 dies first
		j.want(Reject, SettleOK, StateDead, rs[i])
		j.pass(time.Second)
	}
	dead(0, 1, 2)
	limits(2, 0, 2)
	dead(1, 2)
	limits(0, 10*time.Second, 3) // 1 is 2s old, 2 is 1s old
	j.cut(0)
	j.failover()
	dead(1, 2)
	j.pass(8 * time.Second)
	dead(2)
	j.pass(time.Second)
	dead()
	if f, _ := j.m.Figures(1); f.Discarded != 4 || f.Acked != 0 {
		t.Errorf("figures: %+v", f)
	}
	var why []string
	j.cut(0)
	for i := range j.entries {
		for _, off := range []uint64{5, 2} {
			if err := TraceEntry(&j.entries[i], off, func(e Event) {
				if e.Type == EventDeadRemoved {
					why = append(why, e.Reason)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(why, []string{deadReasons[deadTooMany], deadReasons[deadTooOld]}) {
		t.Errorf("traced: %q", why)
	}
}

func TestDeadFilter(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(3)
	for i, r := range receipts(j.receive(1, 3, 1)) {
		reason := []string{"Card declined", "timeout", "card expired"}[i]
		j.m.Settle(j.now, []SettleItem{{Receipt: r, Outcome: Reject, Reason: reason}}, nil)
		j.pass(time.Second)
	}
	for _, c := range []struct {
		f    DeadFilter
		want []uint64
	}{
		{DeadFilter{}, []uint64{0, 1, 2}},
		{DeadFilter{Reason: "card"}, []uint64{0, 2}},
		{DeadFilter{Since: base + sec}, []uint64{1, 2}},
		{DeadFilter{Before: base + sec}, []uint64{0}},
		{DeadFilter{Offsets: []uint64{1, 2, 9}, Reason: "card"}, []uint64{2}},
		{DeadFilter{Offsets: []uint64{}}, nil},
	} {
		var got []uint64
		for _, h := range j.m.Dead(1, c.f, 0, 10) {
			got = append(got, h.Offset)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.f, got, c.want)
		}
	}
}
