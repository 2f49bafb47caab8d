package delivery

import (
	"testing"
	"time"
)

// What turns out to be past its TTL when it is read is settled, counted, and not given out again; what is not leased by
// that hand-over any more is left as it is.
func TestLapse(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(4)
	rs := receipts(j.receive(1, 4, 1))
	j.want(Nack, SettleOK, StateWaiting, rs[3])
	j.m.Lapse(j.now, 1, 1, []uint64{0, 2, 3, 77})
	j.m.Lapse(j.now, 1, 2, []uint64{1}) // another hand-over
	j.want(Nack, SettleStale, StateAcked, rs[0], rs[2])
	if f, _ := j.m.Figures(1); f.Lapsed != 2 || f.Acked != 0 || f.Leased != 1 || f.Waiting != 1 || f.Lag != 2 {
		t.Errorf("figures: %+v", f)
	}
	j.cut(0)
	j.failover()
	j.pass(time.Minute)
	j.offsets([]uint64{1, 3}, j.receive(1, 4, 3))
	var why string
	for i := range j.entries {
		if err := TraceEntry(&j.entries[i], 2, func(e Event) { why = e.Type + " " + e.Reason }); err != nil {
			t.Fatal(err)
		}
	}
	if why != "EXPIRED past its TTL" {
		t.Errorf("the last event is %q", why)
	}
	if err := j.m.Check(); err != nil {
		t.Error(err)
	}
}
