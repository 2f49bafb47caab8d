package delivery

import (
	"testing"
	"time"
)

// What is postponed waits and has not used up an attempt, also for a leader that only has the journal; saying it
// twice does not give an attempt back twice.
func TestPostponedDoesNotCount(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil) // three attempts
	j.cut(1)
	for round := range 5 { // more than there are attempts
		r := receipts(j.receive(1, 1, uint64(round+1)))
		items := []SettleItem{{Receipt: r[0], Outcome: Postpone, Delay: 3 * sec, Reason: "the endpoint is down"}}
		items = append(items, items[0])
		for _, got := range j.m.Settle(j.now, items, nil) {
			if got.Code != SettleOK || got.State != StateWaiting {
				t.Fatalf("round %d: %+v", round, got)
			}
		}
		if h := j.m.Held(1, StateWaiting, 0, 9); len(h) != 1 || h[0].Attempt != 0 || h[0].Until != j.now+3*sec || h[0].Reason != "the endpoint is down" {
			t.Fatalf("round %d: held %+v", round, h)
		}
		j.cut(0)
		if round == 2 {
			j.failover()
		}
		j.pass(3 * time.Second)
	}
	r := receipts(j.receive(1, 1, 9))
	j.want(Nack, SettleOK, StateWaiting, r...)
	if h := j.m.Held(1, StateWaiting, 0, 9); len(h) != 1 || h[0].Attempt != 1 {
		t.Fatalf("after a failure that counts: %+v", h)
	}
}

// An ack keeps its reason in the journal, where the trace finds it.
func TestAckKeepsItsReason(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(1)
	r := receipts(j.receive(1, 1, 1))
	j.cut(0)
	j.m.Settle(j.now, []SettleItem{{Receipt: r[0], Outcome: Ack, Reason: "200 in 3ms"}}, nil)
	j.cut(0)
	var reasons []string
	for i := range j.entries {
		if err := TraceEntry(&j.entries[i], 0, func(ev Event) {
			if ev.Type == EventAcknowledged {
				reasons = append(reasons, ev.Reason)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(reasons) != 1 || reasons[0] != "200 in 3ms" {
		t.Fatalf("reasons of acks: %q", reasons)
	}
}
