package delivery

import (
	"testing"
	"time"
)

// A dead letter is exported once for each death, also by the next leader, and stays where it is.
func TestExportedOncePerDeath(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(3)
	j.want(Reject, SettleOK, StateDead, receipts(j.receive(1, 3, 1))...)
	looked := j.now
	mark := func(since int64, want int, offsets ...uint64) {
		t.Helper()
		if n, err := j.m.MarkExported(j.now, 1, offsets, since); n != want || err != nil {
			t.Fatalf("marked %d, %v; want %d", n, err, want)
		}
	}
	left := func(want int) {
		t.Helper()
		f, _ := j.m.Figures(1)
		if n := len(j.m.Dead(1, DeadFilter{Unexported: true}, 0, 9)); n != want || f.Dead-f.Exported != want {
			t.Fatalf("%d are not exported, figures %+v; want %d", n, f, want)
		}
	}
	left(3)
	mark(looked, 2, 0, 1)
	mark(looked, 0, 0, 1)
	j.cut(0)
	j.failover()
	left(1)
	// Redriven and dead again: another death, which who looked before it has not seen.
	if n, err := j.m.Redrive(j.now, 1, []uint64{0}, 0, 0); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	j.pass(time.Second)
	j.want(Reject, SettleOK, StateDead, receipts(j.receive(1, 1, 2))...)
	left(2)
	mark(looked, 0, 0)
	mark(j.now, 1, 0)
	mark(j.now, 1, 2)
	left(0)
	var events []string
	for i := range j.entries {
		_ = TraceEntry(&j.entries[i], 1, func(ev Event) { events = append(events, ev.Type) })
	}
	if n := len(events); n == 0 || events[n-1] != EventDeadExported {
		t.Errorf("the trace of a letter that was exported: %v", events)
	}
	if n, err := j.m.RemoveDead(j.now, 1, []uint64{0, 1, 2}); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	left(0)
}
