package delivery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// fillWithDead makes dead letters of a group, with a reason of its own each if size is not 0, until it is given nothing fresh.
func (j *journal) fillWithDead(id mq.GroupID, size int) (n int) {
	reason := strings.Repeat("r", size)
	for j.m.Ready(id) > 0 {
		rs := receipts(j.receive(id, MaxReceive, uint64(n)+1))
		items := make([]SettleItem, len(rs))
		for i, r := range rs {
			items[i] = SettleItem{Receipt: r, Outcome: Reject, Reason: "broken"}
			if size > 0 {
				items[i].Reason = fmt.Sprint(r.Offset, reason)
			}
		}
		j.m.Settle(j.now, items, nil)
		j.m.TakeRecords(nil)
		n += len(rs)
	}
	return n
}

// A group whose dead letters fill the partition's state stops itself. Another one goes on, in its share, and is woken.
func TestFullGroupStopsNoOtherOne(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.group(2, func(c *GroupConfig) { c.Settings.MaxInFlight = mq.MaxInFlightCap })
	j.cut(0)
	j.m.Commit(1 << 30)
	if n := j.fillWithDead(1, 0); n < MaxCheckpoint/sizeMessage/2 {
		t.Fatalf("full after %d dead letters", n)
	}
	if g := j.receive(1, 10, 1); g.Why != WhyFull {
		t.Fatalf("the full one got %+v", g)
	}
	for range 100 { // far more than its share, settled as it comes
		g := j.receive(2, MaxReceive, 2)
		if g.Messages() == 0 {
			t.Fatalf("the other one got %+v", g)
		}
		j.settle(Ack, receipts(g)...)
		j.m.TakeRecords(nil)
	}
	before := j.m.Size()
	var last []mq.Receipt
	for j.m.Ready(2) > 0 {
		last = receipts(j.receive(2, 1000, 3))
	}
	if took := j.m.Size() - before; took < MaxCheckpoint/8 || took > MaxCheckpoint/4+MaxReceive*sizeMessage {
		t.Fatalf("its share was %d bytes", took)
	}
	j.m.TakeReady(func(mq.GroupID) {})
	j.settle(Ack, last...)
	woken := 0
	j.m.TakeReady(func(id mq.GroupID) {
		if id == 2 {
			woken++
		}
	})
	if woken != 1 {
		t.Fatal("it has room again and was not woken")
	}
}

// A group that was full in its share has more of it when another one is deleted, and is woken.
func TestShareGrowsWhenAGroupGoes(t *testing.T) {
	j := newJournal(t)
	for id := range mq.GroupID(3) {
		j.group(id+1, func(c *GroupConfig) { c.Settings.MaxInFlight = mq.MaxInFlightCap })
	}
	j.cut(0)
	j.m.Commit(1 << 30)
	j.fillWithDead(1, 0)
	for j.m.Ready(2) > 0 {
		j.receive(2, 1000, 1)
	}
	j.m.TakeReady(func(mq.GroupID) {})
	if err := j.m.DeleteGroup(j.now, 3); err != nil {
		t.Fatal(err)
	}
	woken := false
	j.m.TakeReady(func(id mq.GroupID) { woken = woken || id == 2 })
	if !woken || j.m.Ready(2) == 0 {
		t.Fatal("there is room, and nobody was woken")
	}
	for id := range mq.GroupID(3) { // nothing is left to share with
		if err := j.m.DeleteGroup(j.now, id); err != nil {
			t.Fatal(err)
		}
	}
}

// However many messages are out, each failed for a reason of its own and at a consumer of its own, the state is bounded; who
// replays what the leader wrote has the same.
func TestDifferentReasonsAreBounded(t *testing.T) {
	j := newJournal(t)
	j.group(1, func(c *GroupConfig) {
		c.Settings.MaxInFlight, c.Settings.MaxAttempts = mq.MaxInFlightCap, 1
	})
	j.cut(0)
	for range 4 {
		j.cut(10_000)
	}
	var rs []mq.Receipt
	for i := range 400 {
		g, err := j.m.Receive(j.now, ReceiveRequest{Group: 1, Max: 100, Stream: 1, Delivery: uint64(i), Consumer: fmt.Sprintf("%0250d", i)})
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, receipts(g)...)
	}
	reason := strings.Repeat("r", mq.MaxReasonBytes-10)
	for _, r := range rs {
		j.m.Settle(j.now, []SettleItem{{Receipt: r, Outcome: Reject, Reason: fmt.Sprint(r.Offset, reason)}}, nil)
	}
	j.cut(0)
	if f, _ := j.m.Figures(1); f.Dead != 40_000 {
		t.Fatalf("%+v", f)
	}
	if size, most := j.m.Size(), 40_000*sizeMessage+MaxTexts+4096; size > most {
		t.Fatalf("the state takes %d bytes, at most %d", size, most)
	}
	first, _ := j.m.Explain(Question{Group: 1, Offset: rs[0].Offset})
	last, _ := j.m.Explain(Question{Group: 1, Offset: rs[len(rs)-1].Offset})
	if !strings.HasSuffix(first.Reason, reason) || last.Reason != otherReason {
		t.Fatalf("the first one failed because of %.20q, the last one of %.20q", first.Reason, last.Reason)
	}
	if got, want := dump(replay(t, New(part), j.entries), j.now), dump(j.m, j.now); got != want {
		t.Fatal("the replay differs")
	}
}
