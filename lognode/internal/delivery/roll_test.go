package delivery

import "testing"

// Found by deploy/sim: over a roll the machine is kept and the wheel forgets its timers. Leases and waits from before
// must still end.
func TestLeadAgainSetsTheTimerAgain(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(2)
	j.receive(1, 2, 1)
	taken := func() (ops []TimerOp) {
		j.m.TakeTimers(func(op TimerOp) { ops = append(ops, op) })
		return ops
	}
	if ops := taken(); len(ops) != 1 || ops[0].Due != j.now+10*sec {
		t.Fatalf("the lease of 10 s set %+v", ops)
	}
	j.now += sec
	j.m.Lead(2, j.now)
	ops := taken()
	if len(ops) != 1 || ops[0].Cancel || ops[0].Due != base+10*sec {
		t.Fatalf("after the roll: %+v", ops)
	}
	j.now = ops[0].Due
	j.m.Fire(j.now, ops[0].ID)
	if f, _ := j.m.Figures(1); f.Leased != 0 || f.Waiting != 2 {
		t.Fatalf("the leases did not end: %+v", f)
	}
}
