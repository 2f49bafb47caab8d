package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// At the bound of the checkpoint no fresh messages go out; what is out goes on, and settling makes room.
func TestFullStateGivesNothingFresh(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(0)
	j.m.Commit(1 << 30)
	var last []mq.Receipt
	reason := strings.Repeat("r", mq.MaxReasonBytes-10)
	n := 0
	for ; j.m.Ready(1) > 0; n++ { // a kilobyte of reason for each: full after about eight thousand
		g := j.receive(1, 100, uint64(n))
		last = receipts(g)
		for _, r := range last {
			j.m.Settle(j.now, []SettleItem{{Receipt: r, Outcome: Nack, Delay: int64(time.Hour), Reason: fmt.Sprint(reason, r.Offset)}}, nil)
		}
		j.m.TakeRecords(nil)
	}
	if size := j.m.Size(); size < MaxCheckpoint || size > MaxCheckpoint+200<<10 {
		t.Fatalf("full at %d bytes", size)
	}
	total := 0
	for _, p := range j.m.Checkpoint(j.tail, PartBytes) {
		if len(p) > PartBytes {
			t.Fatalf("a part of %d bytes", len(p))
		}
		total += len(p)
	}
	if total < MaxCheckpoint/2 || total > MaxCheckpoint+200<<10 {
		t.Fatalf("the checkpoint has %d bytes, the estimate was %d", total, j.m.Size())
	}
	if g := j.receive(1, 1, 1); g.Why != WhyFull || len(g.Runs) != 0 {
		t.Fatalf("%+v", g)
	}
	j.m.TakeReady(func(mq.GroupID) {})
	j.want(Ack, SettleOK, StateAcked, last...)
	ready := 0
	j.m.TakeReady(func(mq.GroupID) { ready++ })
	if ready != 1 || j.m.Ready(1) == 0 {
		t.Fatal("room was made and nobody was woken")
	}
	j.pass(time.Hour) // retries go on at the bound
	if g := j.receive(1, 10, 2); g.Messages() != 10 || g.Runs[0].First != 0 || g.Runs[0].Attempt != 2 {
		t.Fatalf("%+v", g)
	}
}

// A hundred thousand leases that end at once are handled in pieces, each with a timer that is due at once.
func TestManyExpiriesAreHandledInPieces(t *testing.T) {
	j := newJournal(t)
	j.group(1, func(c *GroupConfig) { c.Settings.MaxInFlight = mq.MaxInFlightCap })
	j.cut(100_000)
	for i := range uint64(1000) {
		j.receive(1, 100, i)
	}
	j.now += 10 * sec
	fires := 0
	for j.m.timer.ID != 0 && j.m.timer.Due <= j.now {
		before, _ := j.m.Figures(1)
		j.m.Fire(j.now, j.m.timer.ID)
		after, _ := j.m.Figures(1)
		if n := before.Leased - after.Leased; n <= 0 || n > fireBudget+100 {
			t.Fatalf("one Fire handled %d", n)
		}
		fires++
	}
	if f, _ := j.m.Figures(1); fires != 10 || f.Waiting != 100_000 || f.Leased != 0 {
		t.Fatalf("%d fires, %+v", fires, f)
	}
	j.cut(0)
	if got, want := dump(replay(t, New(part), j.entries), j.now), dump(j.m, j.now); got != want {
		t.Fatal("the replay differs")
	}
}

// A steady flow of leases that are settled in time sets hardly any timers, and what is stale does not pile up.
func TestSteadyFlowSetsFewTimers(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(0)
	j.m.Commit(1 << 40)
	ops, most := 0, 0
	for i := range uint64(100_000) { // 100 seconds
		j.pass(time.Millisecond)
		g := j.receive(1, 1, i)
		o := Ack
		if i%50 == 0 && i > 50_000 {
			o = Nack
		}
		j.settle(o, receipts(g)...)
		j.m.TakeRecords(nil)
		j.m.TakeTimers(func(TimerOp) { ops++ })
		most = max(most, len(j.m.deadlines.items))
		// A lease of ten seconds: one timer for each ten seconds.
		if i == 50_000 && ops > 6 {
			t.Fatalf("%d timer operations for 50 seconds", ops)
		}
	}
	// Twenty nacks a second: their timers are the retries', each set and perhaps moved once.
	if f, _ := j.m.Figures(1); ops > 4000 || f.Dead == 0 {
		t.Fatalf("%d timer operations, %+v", ops, f)
	}
	if most > 2*4096 {
		t.Fatalf("%d deadlines were kept", most)
	}
	if err := j.m.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestBackoff(t *testing.T) {
	b := mq.Backoff{Initial: mq.Duration(time.Second), Multiplier: 3, Max: mq.Duration(20 * time.Second)}
	for attempt, want := range []int64{1, 1, 3, 9, 20, 20} {
		if got := backoff(b, 1, 5, uint32(attempt)); got != want*sec {
			t.Fatalf("attempt %d waits %d", attempt, got)
		}
	}
	if got := backoff(b, 1, 5, 1<<31); got != 20*sec {
		t.Fatalf("after very many attempts %d", got)
	}
	b.Jitter = 0.25
	low, high := false, false
	for off := range uint64(1000) {
		got := backoff(b, 1, off, 1)
		if got < 3*sec/4 || got > 5*sec/4 || got != backoff(b, 1, off, 1) {
			t.Fatalf("offset %d waits %d", off, got)
		}
		low, high = low || got < 8*sec/10, high || got > 12*sec/10
	}
	if !low || !high {
		t.Fatal("the jitter does not spread")
	}
	if got := backoff(mq.Backoff{Multiplier: 100}, 1, 1, 1<<31); got != 0 {
		t.Fatalf("no back-off waits %d", got)
	}
}

// Records as they are meant: acks of a call are runs of one record, and only first attempts may wait.
func TestRecordsOfACall(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(200)
	g := j.receive(1, 100, 1)
	if j.m.Urgent() {
		t.Fatal("first attempts are not urgent")
	}
	size := j.m.Pending()
	r := receipts(g)
	j.settle(Ack, append(r[:40:40], r[60:]...)...)
	if !j.m.Urgent() || size > 48 || j.m.Pending()-size > 48 {
		t.Fatalf("100 delivered take %d bytes, 80 acked in two runs %d", size, j.m.Pending()-size)
	}
	kinds := []mq.Kind{}
	for rest := j.m.TakeRecords(nil); len(rest) > 0; {
		rec, next, err := mq.NextRecord(rest)
		if err != nil {
			t.Fatal(err)
		}
		kinds, rest = append(kinds, rec.Kind), next
	}
	if len(kinds) != 2 || kinds[0] != mq.KindDelivered || kinds[1] != mq.KindSettled || j.m.Urgent() {
		t.Fatalf("records %v", kinds)
	}
}

// A deleted group leaves nothing behind: no memory, no timers that matter, no receipts that count.
func TestDeleteGroup(t *testing.T) {
	j := newJournal(t)
	empty := j.m.Size()
	j.group(1, nil)
	j.cut(10)
	r := receipts(j.receive(1, 10, 1))
	j.settle(Nack, r[:3]...)
	j.settle(Reject, r[3])
	if err := j.m.DeleteGroup(j.now, 1); err != nil {
		t.Fatal(err)
	}
	if j.m.Size() != empty || len(j.m.unconfirmed[1]) != 0 {
		t.Fatalf("size %d, was %d; unconfirmed %v", j.m.Size(), empty, j.m.unconfirmed)
	}
	if got := j.settle(Ack, r[5])[0]; got.Code != SettleGroupNotFound {
		t.Fatalf("%+v", got)
	}
	j.m.StreamGone(j.now, 1)
	j.pass(time.Hour)
	j.group(2, nil)
	j.offsets([]uint64{0, 1}, j.receive(2, 2, 1))
	j.cut(0)
	if got, want := dump(replay(t, New(part), j.entries), j.now), dump(j.m, j.now); got != want {
		t.Fatalf("got:\n%s\nwant:\n%s", got, want)
	}
	if g := j.m.Groups(); len(g) != 1 || g[0].ID != 2 {
		t.Fatalf("%+v", g)
	}
}

// What its heap no longer needs does not pile up: answers that were written although their gateway then died.
func TestStaleAgainIsThrownOut(t *testing.T) {
	j := newJournal(t)
	j.group(1, func(c *GroupConfig) { c.Settings.MaxInFlight = mq.MaxInFlightCap })
	j.cut(20_001)
	a, b, last := j.receive(1, 10_000, 1), j.receive(1, 10_000, 2), j.receive(1, 1, 3)
	j.m.Return(j.now, 1, 1)
	j.m.Return(j.now, 1, 2)
	again := &j.m.groups[1].again[mq.LaneNormal]
	if n := len(again.items); n != 20_000 {
		t.Fatalf("%d to be handed out again", n)
	}
	j.want(Ack, SettleOK, StateAcked, receipts(a)[1:]...)
	j.want(Ack, SettleOK, StateAcked, receipts(b)...)
	j.m.Return(j.now, 1, 3)
	if n := len(again.items); n != 2 {
		t.Fatalf("%d are kept, want 2", n)
	}
	j.offsets([]uint64{0, 20_000}, j.receive(1, 9, 4))
	j.want(Ack, SettleStale, StateLeased, receipts(last)...)
	if err := j.m.Check(); err != nil {
		t.Fatal(err)
	}
}
