package delivery

import (
	"slices"
	"testing"
)

// The table of docs/api/groups.md, a message for each of its cases: what a seek to a snapshot delivers again, and what not.
func TestWhatASnapshotBringsBack(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(10)
	rs := receipts(j.receive(1, 8, 1))
	done := func(n int, err error) {
		t.Helper()
		if err != nil || n != 1 {
			t.Fatalf("%d: %v", n, err)
		}
	}
	j.want(Ack, SettleOK, StateAcked, rs[0])
	j.want(Reject, SettleOK, StateDead, rs[4:8]...)
	done(j.m.RemoveDead(j.now, 1, []uint64{7}))
	if err := j.m.CreateSnapshot(j.now, 1, "s"); err != nil {
		t.Fatal(err)
	}
	// 0 acked, 1 to 3 leased, 4 to 6 dead, 7 deleted as a dead letter, 8 and 9 ready, the rest not published yet.
	low := func() {
		t.Helper()
		if s := j.m.Snapshots(1); len(s) != 1 || s[0].Low != 1 {
			t.Errorf("%+v, want 1 as the lowest that is not settled", s)
		}
	}
	low()
	j.want(Ack, SettleOK, StateAcked, rs[1])
	j.want(Reject, SettleOK, StateDead, rs[2])
	done(j.m.Redrive(j.now, 1, []uint64{5}, 0, 0))
	j.want(Ack, SettleOK, StateAcked, receipts(j.receive(1, 1, 2))...)
	done(j.m.RemoveDead(j.now, 1, []uint64{6}))
	j.cut(3)
	rest := receipts(j.receive(1, 4, 3)) // 8 to 11
	j.want(Ack, SettleOK, StateAcked, rest[0], rest[2])
	j.want(Reject, SettleOK, StateDead, rest[3])

	if c, err := j.m.SeekGroup(j.now, 1, SeekTarget{Snapshot: "s"}); err != nil || c.DeadAgain != 2 || c.Lag != 10 {
		t.Errorf("%+v, %v; want the dead 2 and 11, and 10 to deliver", c, err)
	}
	for range 2 { // by this leader and by the next
		var dead []uint64
		for _, h := range j.m.Dead(1, DeadFilter{}, 0, 100) {
			dead = append(dead, h.Offset)
		}
		if !slices.Equal(dead, []uint64{4}) {
			t.Errorf("dead are %v", dead)
		}
		g := j.receive(1, 100, 4)
		j.offsets([]uint64{1, 2, 3, 5, 6, 8, 9, 10, 11, 12}, g)
		for _, r := range g.Runs {
			if r.Attempt != 1 {
				t.Errorf("attempt %d from %d on", r.Attempt, r.First)
			}
		}
		if err := j.m.Check(); err != nil {
			t.Error(err)
		}
		j.m.Return(j.now, 1, 4)
		j.cut(0)
		j.failover()
		low()
	}
}
