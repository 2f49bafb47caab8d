package delivery

import (
	"testing"
	"time"
)

// What is released is ready at once and has not used up an attempt, however often: also for a leader that only has the
// journal. What it had failed before stays counted.
func TestReleasedDoesNotCount(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil) // three attempts
	j.cut(2)
	r := receipts(j.receive(1, 2, 1))
	j.want(Nack, SettleOK, StateWaiting, r[1])
	j.want(Release, SettleOK, StateReady, r[0], r[0]) // twice is once
	j.pass(time.Second)
	for round := range uint64(5) { // more than there are attempts
		g := j.receive(1, 2, 2+round)
		j.offsets([]uint64{0, 1}, g)
		for i, run := range g.Runs {
			if want := uint32(i + 1); run.Attempt != want {
				t.Fatalf("round %d: offset %d is attempt %d, want %d", round, run.First, run.Attempt, want)
			}
		}
		j.want(Release, SettleOK, StateReady, receipts(g)...)
		if round == 2 {
			j.cut(0)
			j.failover()
		}
	}
	j.cut(0)
	same(t, j, New(part))
	m, _, err := LoadCheckpoint(part, j.m.Checkpoint(j.tail, PartBytes))
	if err != nil {
		t.Fatal(err)
	}
	same(t, j, m)
}

// A release takes nothing from anybody else: not what is settled, not what failed meanwhile, not what was handed out again.
func TestReleaseIsOfItsOwnHandOver(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(4)
	r := receipts(j.receive(1, 4, 1))
	j.want(Ack, SettleOK, StateAcked, r[0])
	j.want(Release, SettleStale, StateAcked, r[0])
	j.want(Reject, SettleOK, StateDead, r[1])
	j.want(Release, SettleStale, StateDead, r[1])
	j.want(Nack, SettleOK, StateWaiting, r[2])
	j.want(Release, SettleOK, StateWaiting, r[2]) // it comes again as it is, and the failure counts
	j.want(Release, SettleOK, StateReady, r[3])
	j.want(Extend, SettleOK, StateLeased, r[3]) // nobody else has it: who released it may think again
	j.want(Release, SettleOK, StateReady, r[3])
	j.offsets([]uint64{3}, j.receive(1, 4, 2))
	j.want(Release, SettleStale, StateLeased, r[3])
	if h := j.m.Held(1, StateWaiting, 0, 9); len(h) != 1 || h[0].Attempt != 1 {
		t.Fatalf("%+v", h)
	}
}

// In order by key a released message goes in front of its key again, and holds back what is behind it.
func TestReleasedStaysInOrder(t *testing.T) {
	j := newJournal(t)
	j.group(1, byKey)
	j.keyed("a", "b", "a", "b")
	r := receipts(j.receive(1, 9, 1))
	j.want(Ack, SettleOK, StateAcked, r[1])
	j.want(Release, SettleOK, StateReady, r[0])
	j.offsets([]uint64{0, 3}, j.receive(1, 9, 2))
}

// Museum 26 for what is prefetched: who stops in order releases what it had not begun, and only what it worked on is blamed
// however often that kills it.
func TestMuseum26ReleasedIsNotBlamed(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil) // three attempts
	j.cut(10)
	for round := range uint64(3) {
		rs := receipts(j.receive(1, 10, round))
		j.settle(Release, rs[1:]...)
		j.settle(Nack, rs[0])
		j.pass(time.Minute)
	}
	var attempts []uint32
	g := j.receive(1, 10, 9)
	for _, run := range g.Runs {
		for range run.Count {
			attempts = append(attempts, run.Attempt)
		}
	}
	if f, _ := j.m.Figures(1); f.Dead != 1 || len(attempts) != 9 || attempts[0] != 1 || attempts[8] != 1 {
		t.Fatalf("%d dead, the others at attempts %v", f.Dead, attempts)
	}
	j.cut(0)
	var types []string
	for i := range j.entries {
		if err := TraceEntry(&j.entries[i], 5, func(e Event) { types = append(types, e.Type) }); err != nil {
			t.Fatal(err)
		}
	}
	returned := 0
	for _, name := range types {
		if name == EventReturned {
			returned++
		}
	}
	if returned != 3 {
		t.Errorf("the trace tells %v", types)
	}
}
