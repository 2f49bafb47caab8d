package delivery

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

func TestMuseum06ResyncDoesNotBringBackAcked(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(3)
	g := j.receive(1, 3, 1)
	j.cut(0)
	j.want(Ack, SettleOK, StateAcked, receipts(g)...)
	j.cut(0)
	// The machine has all of it; the same entries once more are refused, and an old record inside a new entry
	// about acked messages does nothing.
	m := replay(t, New(part), j.entries)
	before := dump(m, j.now)
	if err := m.Apply(&j.entries[1]); err == nil {
		t.Fatal("an entry was applied twice")
	}
	again := mq.Entry{At: m.Next(), Records: j.entries[1].Records}
	if err := m.Apply(&again); err != nil {
		t.Fatal(err)
	}
	if got := dump(m, j.now); got != before {
		t.Fatalf("got:\n%s\nwant:\n%s", got, before)
	}
	m.Lead(9, j.now)
	if n := m.Ready(1); n != 0 {
		t.Fatalf("%d ready after everything was acked", n)
	}
}

func TestMuseum07LeaseSurvivesALongStart(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(2)
	old := receipts(j.receive(1, 1, 1))[0]
	j.cut(0)
	// The next leader needs an hour: the lease has run out, which it does at once and counts, and the retry follows.
	j.now += 3600 * sec
	j.failover()
	var ops []TimerOp
	j.m.TakeTimers(func(op TimerOp) { ops = append(ops, op) })
	if len(ops) != 1 || ops[0].Cancel || ops[0].Due != base+10*sec {
		t.Fatalf("timers after the start: %+v, want one that is due at the lease's end", ops)
	}
	j.m.Fire(j.now, ops[0].ID)
	if h := j.m.Held(1, StateWaiting, 0, 9); len(h) != 1 || h[0].Attempt != 1 || h[0].Until != j.now+sec {
		t.Fatalf("waiting %+v, want offset 0 for a second", h)
	}
	j.pass(time.Second)
	j.offsets([]uint64{0, 1}, j.receive(1, 9, 2))
	j.want(Ack, SettleStale, StateLeased, old) // an expired lease is not used again
}

func TestMuseum08CursorDoesNotStepBack(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(100)
	last := uint64(0)
	for i := range uint64(10) {
		g := j.receive(1, 10, i)
		j.want(Ack, SettleOK, StateAcked, receipts(g)...)
		j.cut(0)
		if i%3 == 0 {
			m, _, err := LoadCheckpoint(part, j.m.Checkpoint(j.tail, PartBytes))
			if err != nil {
				t.Fatal(err)
			}
			j.segment++
			j.m = m
			j.m.Lead(j.segment, j.now)
		} else {
			j.failover()
		}
		f, _ := j.m.Figures(1)
		if f.Cursor != 10*(i+1) || f.Cursor < last {
			t.Fatalf("cursor %d after %d acks, was %d", f.Cursor, 10*(i+1), last)
		}
		last = f.Cursor
	}
}

func TestMuseum25KilledWorkerCountsAsAttempt(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(1)
	for attempt := range 3 {
		j.offsets([]uint64{0}, j.receive(1, 1, uint64(attempt)))
		j.m.Confirm(1, uint64(attempt)) // the worker has it, and dies
		j.cut(0)
		if attempt == 1 {
			j.failover() // attempts are counted in the journal
		}
		j.pass(15 * time.Second)
	}
	h := j.m.Held(1, StateDead, 0, 9)
	if len(h) != 1 || h[0].Attempt != 3 || h[0].Reason != reasonExpired || h[0].Consumer != "c" {
		t.Fatalf("dead %+v, want offset 0 after 3 attempts", h)
	}
}

func TestMuseum26PrefetchedIsNotBlamed(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(100)
	for round := range uint64(20) { // far more than max_attempts
		g := j.receive(1, 100, round)
		if g.Messages() != 100 || g.Runs[0].Attempt != 1 || g.MustCommit {
			t.Fatalf("round %d: %+v", round, g)
		}
		j.m.StreamGone(j.now, 1)
		j.cut(0)
	}
	if f, _ := j.m.Figures(1); f.Again != 100 || f.Dead != 0 {
		t.Fatalf("%+v", f)
	}
}

func TestMuseum27RenewalRacesExpiry(t *testing.T) {
	for _, first := range []string{"renewal", "expiry"} {
		j := newJournal(t)
		j.group(1, nil)
		j.cut(2)
		r := receipts(j.receive(1, 2, 1))
		timer := j.m.timer
		j.now = timer.Due
		if first == "renewal" {
			j.want(Extend, SettleOK, StateLeased, r[0])
			j.m.Fire(j.now, timer.ID) // is for the other one only
			if h := j.m.Held(1, StateWaiting, 0, 9); len(h) != 1 || h[0].Offset != 1 {
				t.Fatalf("waiting %+v, want 1", h)
			}
		} else {
			j.m.Fire(j.now, timer.ID)
			j.want(Extend, SettleOK, StateLeased, r[0])
		}
		j.m.Fire(j.now, timer.ID) // a timer that has fired is a no-op
		// One lease, until ten seconds from now: neither lost nor handed out twice, nor hidden for longer.
		j.pass(10*time.Second - 1)
		j.offsets([]uint64{1}, j.receive(1, 9, 2))
		j.pass(1)
		j.pass(time.Second)
		j.offsets([]uint64{0}, j.receive(1, 9, 3))
		j.want(Extend, SettleStale, StateLeased, r[0])
		j.cut(0)
		if got, want := dump(replay(t, New(part), j.entries), j.now), dump(j.m, j.now); got != want {
			t.Fatalf("%s first, replay:\n%s\nwant:\n%s", first, got, want)
		}
	}
}

// Whatever makes a message ready wakes the group, also when it was ready before.
func TestMuseum29NoLostWakeUp(t *testing.T) {
	j := newJournal(t)
	woken := func(what string, want ...mq.GroupID) {
		t.Helper()
		var got []mq.GroupID
		j.m.TakeReady(func(id mq.GroupID) { got = append(got, id) })
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%s woke %v, want %v", what, got, want)
		}
	}
	j.group(1, func(c *GroupConfig) { c.Settings.MaxInFlight = 2 })
	woken("an empty group")
	j.cut(1)
	woken("a commit", 1)
	j.cut(2)
	woken("a commit while ready", 1)
	r := receipts(j.receive(1, 1, 1))
	woken("a receive")
	r = append(r, receipts(j.receive(1, 1, 2))...)
	j.cut(1)
	woken("a commit at max_in_flight")
	j.want(Ack, SettleOK, StateAcked, r[0])
	woken("room below max_in_flight", 1)
	j.receive(1, 1, 3)
	j.m.Return(j.now, 1, 2)
	woken("a return", 1)
	j.receive(1, 2, 4)
	j.pass(10 * time.Second)
	woken("an expired lease that freed room", 1)
	j.receive(1, 9, 5)
	j.m.StreamGone(j.now, 1)
	woken("a gateway that went", 1)
	j.group(1, func(c *GroupConfig) { c.Version, c.Paused = 2, true })
	j.cut(1)
	woken("a paused group")
	j.group(1, func(c *GroupConfig) { c.Version = 3 })
	woken("an unpaused group", 1)
	j.cut(0)
	j.failover()
	woken("a new leader", 1)
}

// A backlog costs nothing: neither memory nor a longer receive.
func TestMuseum33FarBehindCostsNothing(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	small := j.m.Size()
	j.m.Commit(10_000_000)
	if j.m.Size() != small {
		t.Fatalf("10 million behind takes %d bytes, not %d", j.m.Size(), small)
	}
	for i := range uint64(100) {
		g := j.receive(1, 1000, i)
		if len(g.Runs) != 1 || g.Runs[0].First != 1000*i {
			t.Fatalf("%+v", g)
		}
		j.want(Ack, SettleOK, StateAcked, receipts(g)...)
	}
	f, _ := j.m.Figures(1)
	if f.Lag != 9_900_000 || f.Cursor != 100_000 || f.Acked != 100_000 || j.m.Size() != small {
		t.Fatalf("%+v, size %d", f, j.m.Size())
	}
	if parts := j.m.Checkpoint(j.tail, PartBytes); len(parts) != 1 || len(parts[0]) > 512 {
		t.Fatalf("%d parts, the first has %d bytes", len(parts), len(parts[0]))
	}
	// Acked out of order around one that is out: it alone is remembered.
	stuck := receipts(j.receive(1, 1, 100))
	for i := range uint64(100) {
		j.want(Ack, SettleOK, StateAcked, receipts(j.receive(1, 5000, 101+i))...)
	}
	if got := j.m.messages; got != 1 {
		t.Fatalf("%d messages are remembered, want 1", got)
	}
	j.want(Ack, SettleOK, StateAcked, stuck...)
	if f, _ := j.m.Figures(1); f.Cursor != 600_001 {
		t.Fatalf("cursor %d", f.Cursor)
	}
}

// A receive whose caller has gone swallows nothing.
func TestMuseum41AbandonedReceive(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(5)
	g := j.receive(1, 5, 1)
	j.m.Return(j.now, 1, 1, 3, 4, 77) // what did not fit into the answer
	j.offsets([]uint64{3, 4}, j.receive(1, 9, 2))
	j.m.Return(j.now, 1, 1)
	j.m.Return(j.now, 1, 1)
	got := j.receive(1, 9, 3)
	j.offsets([]uint64{0, 1, 2}, got)
	if got.Runs[0].Attempt != 1 {
		t.Fatalf("attempt %d, want 1", got.Runs[0].Attempt)
	}
	j.want(Ack, SettleStale, StateLeased, receipts(g)...)
}

func TestMuseum43GroupsDoNotShareMessages(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.group(2, nil)
	j.cut(4)
	j.offsets([]uint64{0, 1, 2, 3}, j.receive(1, 9, 1))
	g := j.receive(2, 9, 2)
	j.offsets([]uint64{0, 1, 2, 3}, g)
	j.want(Ack, SettleOK, StateAcked, receipts(g)...)
	if f, _ := j.m.Figures(1); f.Leased != 4 {
		t.Fatalf("group 1: %+v", f)
	}
}

// An entry that can't be read changes nothing and panics nobody, wherever the bad record is in it.
func TestMuseum45BadEntryChangesNothing(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(3)
	j.receive(1, 2, 1)
	good := j.m.TakeRecords(nil)
	m := replay(t, New(part), j.entries)
	before := dump(m, j.now)
	bad := map[string][]byte{
		"empty messages":   mq.AppendRecord(nil, mq.KindMessages, nil),
		"empty delivered":  mq.AppendRecord(nil, mq.KindDelivered, nil),
		"empty settled":    mq.AppendRecord(nil, mq.KindSettled, nil),
		"empty group":      mq.AppendRecord(nil, mq.KindGroup, nil),
		"a later kind":     mq.AppendRecord(nil, mq.KindTransaction, []byte("x")),
		"a released one":   mq.AppendRecord(nil, mq.KindReleased, nil),
		"unknown kind":     mq.AppendRecord(nil, 200, nil),
		"no kind":          mq.AppendRecord(nil, 0, nil),
		"unknown version":  {byte(mq.KindSettled), 2, 0},
		"cut off":          good[:len(good)-1],
		"beyond the end":   mq.AppendRecord(nil, mq.KindSettled, (&settled{group: 1, generation: 1, outcome: outAcked, marks: []mark{{first: 3, count: 1}}}).append(nil)),
		"too many":         mq.AppendRecord(nil, mq.KindDelivered, (&delivered{group: 1, generation: 1, runs: []Run{{0, 1 << 31, 1, 1}}}).append(nil)),
		"unknown outcome":  mq.AppendRecord(nil, mq.KindSettled, (&settled{group: 1, generation: 1, outcome: 99}).append(nil)),
		"a byte too many":  mq.AppendRecord(nil, mq.KindSettled, append((&settled{group: 1, generation: 1, outcome: outAcked}).append(nil), 0)),
		"invalid settings": mq.AppendRecord(nil, mq.KindGroup, (&groupChange{op: groupSet, config: GroupConfig{ID: 5}}).append(nil)),
	}
	for name, record := range bad {
		e := mq.Entry{At: m.Next(), Records: append(slices.Clone(good), record...)}
		if err := m.Apply(&e); err == nil || !strings.Contains(err.Error(), m.Next().String()) {
			t.Fatalf("%s: error %v does not say where", name, err)
		}
		if got := dump(m, j.now); got != before {
			t.Fatalf("%s changed the state:\n%s", name, got)
		}
	}
	if err := m.Apply(&mq.Entry{At: m.Next(), Count: 2}); err == nil {
		t.Fatal("offsets without messages were taken")
	}
	if err := m.Apply(&mq.Entry{At: m.Next(), Records: good}); err != nil {
		t.Fatal(err)
	}
	m.Lead(3, j.now)
	if err := m.Apply(&mq.Entry{At: m.Next()}); err == nil {
		t.Fatal("a leader applied an entry")
	}
}

// Museum 9 from this side: what is no whole checkpoint is an error by which an older one is taken.
func TestMuseum09BrokenCheckpoint(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(400)
	for i, r := range receipts(j.receive(1, 400, 1)) {
		if i%2 == 0 {
			j.want(Nack, SettleOK, StateWaiting, r)
		}
	}
	parts := j.m.Checkpoint(j.tail, 512)
	if len(parts) < 4 {
		t.Fatalf("only %d parts", len(parts))
	}
	for i, p := range parts {
		h, err := ParseCheckpointHeader(p)
		if err != nil || int(h.Part) != i || int(h.Parts) != len(parts) || h.AsOf != j.tail || len(p) > 512 {
			t.Fatalf("part %d: %+v %v, %d bytes", i, h, err, len(p))
		}
	}
	other := mq.PartitionID{Topic: 7, Number: 3}
	damaged := slices.Clone(parts)
	damaged[2] = slices.Clone(parts[2])
	damaged[2][300] ^= 1
	swapped := slices.Clone(parts)
	swapped[1], swapped[2] = parts[2], parts[1]
	for name, try := range map[string][][]byte{"none": nil, "empty": {nil}, "short": parts[:2], "damaged": damaged, "swapped": swapped} {
		if _, _, err := LoadCheckpoint(part, try); !errors.Is(err, ErrCheckpoint) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if _, _, err := LoadCheckpoint(other, parts); !errors.Is(err, ErrCheckpoint) {
		t.Fatalf("other partition: %v", err)
	}
	m, asOf, err := LoadCheckpoint(part, parts)
	if err != nil || asOf != j.tail || dump(m, j.now) != dump(j.m, j.now) {
		t.Fatalf("as of %s: %v", asOf, err)
	}
}
