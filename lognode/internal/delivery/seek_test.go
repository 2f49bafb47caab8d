package delivery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// kept is what a snapshot of the oracle says of one offset.
type kept struct{ unsettled, touched, dead bool }

// unsettled are the offsets that a group of the oracle has still to deliver.
func (w *world) unsettled(o *oracle) map[uint64]bool {
	out := map[uint64]bool{}
	for off := range w.tail.Offset {
		if s := o.state[off]; s != StateAcked && s != StateDead {
			out[off] = true
		}
	}
	return out
}

func (w *world) lost(off uint64) bool {
	return slices.ContainsFunc(w.holes, func(h span) bool { return off >= h.from && off < h.to })
}

// sought does to the oracle what a seek says, and tests what the machine says that it does.
func (w *world) sought(t *rapid.T, id mq.GroupID, to SeekTarget, move func(o *oracle, off uint64)) {
	plan, err := w.m.PlanSeek(id, to)
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.m.SeekGroup(w.now, id, to)
	if err != nil || plan != got {
		t.Fatalf("%+v, %v; the plan was %+v", got, err, plan)
	}
	o := w.groups[id]
	before, end := w.unsettled(o), w.tail.Offset
	want := SeekCounts{From: end, To: end}
	dead := map[uint64]bool{}
	for off := range end {
		if before[off] {
			want.From = min(want.From, off)
		}
		if o.state[off] == StateLeased {
			want.InFlight++
		}
		dead[off] = o.state[off] == StateDead
		if !w.lost(off) {
			move(o, off)
		}
	}
	after := w.unsettled(o)
	for off := range end {
		switch {
		case after[off] && !before[off]:
			want.Again++
			if dead[off] {
				want.DeadAgain++
			}
		case before[off] && !after[off]:
			want.Skipped++
		}
		if after[off] {
			want.To = min(want.To, off)
			want.Lag++
		}
	}
	if got != want {
		t.Fatalf("seek to %+v: %+v, want %+v", to, got, want)
	}
	o.generation++
	o.seen = 0
}

func (o *oracle) untouch(off uint64) {
	delete(o.state, off)
	delete(o.attempt, off)
	o.neverOut(off)
}

func (o *oracle) again(off uint64) {
	o.state[off], o.attempt[off] = StateReady, 0
	o.neverOut(off)
}

func (o *oracle) neverOut(off uint64) {
	delete(o.first, off)
	delete(o.last, off)
}

func (w *world) seekSteps() map[string]func(*rapid.T) {
	group := func(t *rapid.T) mq.GroupID {
		return mq.GroupID(rapid.IntRange(1, len(w.groups)).Draw(t, "group"))
	}
	name := func(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name") }
	return map[string]func(*rapid.T){
		"seek": func(t *rapid.T) {
			if rapid.IntRange(0, 2).Draw(t, "seldom") > 0 {
				return
			}
			to := max(w.base, rapid.Uint64Range(0, w.tail.Offset+2).Draw(t, "to"))
			w.sought(t, group(t), SeekTarget{Offset: to}, func(o *oracle, off uint64) {
				if off >= to {
					o.untouch(off)
				} else if o.state[off] != StateDead {
					o.state[off] = StateAcked
				}
			})
		},
		"snapshot": func(t *rapid.T) {
			id, name := group(t), name(t)
			o := w.groups[id]
			err := w.m.CreateSnapshot(w.now, id, name)
			have := o.snapshots[name] != nil
			if again := have && w.m.groups[id].snapshot(name).made == w.now; have && !again != errors.Is(err, ErrSnapshotExists) || !have && err != nil {
				t.Fatalf("snapshot %s: %v", name, err)
			} else if have {
				return
			}
			o.snapshots[name] = map[uint64]kept{}
			for off := range w.tail.Offset {
				s, touched := o.state[off]
				o.snapshots[name][off] = kept{s != StateAcked && s != StateDead, touched, s == StateDead}
			}
		},
		"delete snapshot": func(t *rapid.T) {
			id, name := group(t), name(t)
			err := w.m.DeleteSnapshot(w.now, id, name)
			if have := w.groups[id].snapshots[name] != nil; have != (err == nil) {
				t.Fatalf("delete snapshot %s: %v", name, err)
			}
			delete(w.groups[id].snapshots, name)
		},
		"seek to snapshot": func(t *rapid.T) {
			id, name := group(t), name(t)
			snap := w.groups[id].snapshots[name]
			if snap == nil {
				return
			}
			w.sought(t, id, SeekTarget{Snapshot: name}, func(o *oracle, off uint64) {
				was, ok := snap[off]
				dead := o.state[off] == StateDead
				switch {
				case off < w.base: // it is there only if it was carried
					if _, out := o.state[off]; out && o.state[off] != StateAcked && !dead {
						if o.state[off] = StateAcked; !ok || was.unsettled || was.dead { // not there yet when it was made is unsettled
							o.again(off)
						}
					}
				case !ok, was.unsettled && !was.touched:
					o.untouch(off)
				case was.unsettled, was.dead && !dead:
					o.again(off)
				case !dead:
					o.state[off] = StateAcked
				}
			})
		},
	}
}

// A receipt from before a seek is stale, whatever it says, and does no harm to what is delivered again.
func TestSeekMakesReceiptsStale(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(6)
	old := receipts(j.receive(1, 6, 1))
	j.want(Ack, SettleOK, StateAcked, old[:3]...)
	j.want(Reject, SettleOK, StateDead, old[0+3])
	if c, err := j.m.SeekGroup(j.now, 1, SeekTarget{Offset: 2}); err != nil || c != (SeekCounts{From: 4, To: 2, Lag: 4, Again: 2, InFlight: 2, DeadAgain: 1}) {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, o := range []Outcome{Ack, Nack, Extend, Reject} {
		for _, r := range j.settle(o, old...) {
			if r.Code != SettleStale {
				t.Errorf("outcome %d of a receipt from before: %+v", o, r)
			}
		}
	}
	g := j.receive(1, 9, 2)
	j.offsets([]uint64{2, 3, 4, 5}, g)
	if g.Runs[0].Attempt != 1 || g.Generation != 2 {
		t.Errorf("after the seek: %+v", g)
	}
	j.cut(0)
	j.failover()
	j.want(Ack, SettleOK, StateAcked, receipts(g)...)
	j.pass(time.Hour)
	j.offsets(nil, j.receive(1, 9, 3))
}

// Retention takes what a snapshot would bring back: the group goes to the first offset that is kept.
func TestSeekToWhatIsGone(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(10)
	rs := receipts(j.receive(1, 6, 1))
	j.want(Ack, SettleOK, StateAcked, rs[1], rs[4])
	if err := j.m.CreateSnapshot(j.now, 1, "s"); err != nil {
		t.Fatal(err)
	}
	j.want(Ack, SettleOK, StateAcked, rs[0], rs[2], rs[3], rs[5])
	j.m.Drop(j.now, 3)
	for _, to := range []SeekTarget{{Offset: 0}, {Offset: 1, Floor: 3}} {
		if c, err := j.m.PlanSeek(1, to); err != nil || c.To != 3 || c.Lag != 7 {
			t.Errorf("to %+v: %+v, %v", to, c, err)
		}
	}
	if c, err := j.m.SeekGroup(j.now, 1, SeekTarget{Snapshot: "s", Floor: 3}); err != nil || c.To != 3 || c.Lag != 6 || c.Again != 2 {
		t.Errorf("to the snapshot: %+v, %v", c, err)
	}
	j.offsets([]uint64{3, 5, 6, 7, 8, 9}, j.receive(1, 10, 2))
	if err := j.m.Check(); err != nil {
		t.Error(err)
	}
}

func TestSnapshotBounds(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	for i := range MaxSnapshots {
		if err := j.m.CreateSnapshot(j.now, 1, fmt.Sprint("s", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.m.CreateSnapshot(j.now, 1, "more"); !errors.Is(err, ErrTooManySnapshots) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := j.m.SeekGroup(j.now, 1, SeekTarget{Snapshot: "none"}); !errors.Is(err, ErrSnapshotNotFound) {
		t.Errorf("seek to none: %v", err)
	}
	if err := j.m.CreateSnapshot(j.now, 1, ".."); err == nil {
		t.Error("a snapshot is called ..")
	}
	if err := j.m.DeleteGroup(j.now, 1); err != nil || j.m.snapshotBytes != 0 {
		t.Errorf("%v; %d bytes of snapshots without a group", err, j.m.snapshotBytes)
	}
	// Every second message is out: each is a span of its own, and the state fills up.
	j.group(2, func(c *GroupConfig) { c.Settings.MaxInFlight = 100_000 })
	for range 16 {
		j.cut(10_000)
		var odd []mq.Receipt
		for i, r := range receipts(j.receive(2, 10_000, 1)) {
			if i%2 == 1 {
				odd = append(odd, r)
			}
		}
		j.settle(Ack, odd...)
	}
	var err error
	made := 0
	for ; err == nil && made < MaxSnapshots; made++ {
		err = j.m.CreateSnapshot(j.now, 2, fmt.Sprint("s", made))
	}
	if !errors.Is(err, ErrSnapshotTooLarge) || j.m.Size() > snapshotRoom {
		t.Errorf("%d snapshots, then %v; the state has %d bytes", made, err, j.m.Size())
	}
	names := maps.Collect(func(yield func(string, int) bool) {
		for _, s := range j.m.Snapshots(2) {
			if !yield(s.Name, s.Bytes) {
				return
			}
		}
	})
	if len(names) != made-1 || names["s0"] < 80_000*sizeSpan {
		t.Errorf("snapshots: %v", names)
	}
}

// A snapshot takes little and brings back much: what it brings back may not lift the state above its bound, over all groups.
func TestSnapshotsRestoredStayWithinTheBound(t *testing.T) {
	j := newJournal(t)
	const groups, each = 30, 10_000 // 400 kB in each, when they are back
	j.cut(each)
	for g := mq.GroupID(1); g <= groups; g++ {
		j.group(g, nil)
		j.receive(g, each, uint64(g))
		if err := j.m.CreateSnapshot(j.now, g, "s"); err != nil {
			t.Fatal(err)
		}
		if _, err := j.m.SeekGroup(j.now, g, SeekTarget{Offset: each}); err != nil {
			t.Fatal(err)
		}
	}
	restored, full := 0, false
	for g := mq.GroupID(1); g <= groups; g++ {
		_, planned := j.m.PlanSeek(g, SeekTarget{Snapshot: "s"})
		_, err := j.m.SeekGroup(j.now, g, SeekTarget{Snapshot: "s"})
		switch {
		case !errors.Is(planned, err):
			t.Fatalf("group %d: the dry run says %v, the seek %v", g, planned, err)
		case err == nil && !full:
			restored++
		case !errors.Is(err, ErrSeekTooLarge):
			t.Fatalf("group %d: %v", g, err)
		default:
			full = true
		}
		if size := j.m.Size(); size > MaxCheckpoint {
			t.Fatalf("the state has %d bytes with %d groups restored", size, restored)
		}
	}
	if want := MaxCheckpoint / (each * sizeMessage); restored < want-2 || restored > want {
		t.Errorf("%d groups were restored, there is room for about %d", restored, want)
	}
	// Going on makes room, and is always possible.
	if _, err := j.m.SeekGroup(j.now, 1, SeekTarget{Offset: each}); err != nil {
		t.Error(err)
	}
	if _, err := j.m.SeekGroup(j.now, groups, SeekTarget{Snapshot: "s"}); err != nil {
		t.Errorf("after there is room: %v", err)
	}
	j.m.TakeRecords(nil)
}
