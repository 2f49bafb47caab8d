package delivery

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// after is a partition whose leader died with everything that it had handed out still unwritten.
type after struct {
	*journal
	lost      []mq.Receipt
	state     []State // by offset
	handedOut []bool  // by the next leader
}

// Receipts come in any order while the next leader hands out the rest: each message goes to exactly one of them, lowest
// first, and Drop counts what it removes.
func TestEarlyOffsets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := &after{journal: newJournal(t)}
		a.group(1, nil)
		n := rapid.IntRange(1, 40).Draw(rt, "messages")
		a.cut(n)
		a.lost = receipts(a.receive(1, n, 1))
		a.failover()
		a.state, a.handedOut = make([]State, n), make([]bool, n)
		rt.Repeat(map[string]func(*rapid.T){
			"settle":  a.settleLost,
			"receive": a.take,
			"drop":    a.drop,
			"":        a.look,
			// With decisions that no entry holds yet: what replays them from a checkpoint that has them ends the same.
			"commit": func(t *rapid.T) {
				m, _, err := LoadCheckpoint(part, a.m.Checkpoint(a.tail, PartBytes))
				if err != nil {
					t.Fatal(err)
				}
				a.journal.cut(0)
				same(t, a.journal, New(part))
				same(t, a.journal, m)
			},
		})
	})
}

func (a *after) settleLost(t *rapid.T) {
	r := rapid.SampledFrom(a.lost).Draw(t, "receipt")
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		o := rapid.SampledFrom([]Outcome{Ack, Ack, Reject, Extend}).Draw(t, "outcome")
		res := a.settle(o, r)[0]
		s := a.state[r.Offset]
		want := s == StateAcked && o == Ack || s != StateAcked && s != StateDead && !a.handedOut[r.Offset]
		if (res.Code == SettleOK) != want {
			t.Fatalf("offset %d is %s: code %d", r.Offset, s, res.Code)
		}
		if want {
			a.state[r.Offset] = map[Outcome]State{Ack: StateAcked, Reject: StateDead, Extend: StateLeased}[o]
		}
	}
}

func (a *after) take(t *rapid.T) {
	var want []uint64
	most := rapid.IntRange(1, 12).Draw(t, "n")
	for off, s := range a.state {
		if s == StateReady && len(want) < most {
			want = append(want, uint64(off))
			a.state[off], a.handedOut[off] = StateLeased, true
		}
	}
	if got := offsets(a.receive(1, most, 2)); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func (a *after) drop(t *rapid.T) {
	before, _ := a.m.Figures(1)
	base := rapid.IntRange(0, len(a.state)).Draw(t, "base")
	count := uint64(0)
	for off := range a.state[:base] {
		if a.state[off] != StateAcked {
			count++
			a.state[off] = StateAcked // gone for good
		}
	}
	a.m.Drop(a.now, uint64(base))
	if after, _ := a.m.Figures(1); after.Dropped-before.Dropped != count {
		t.Fatalf("%d dropped below %d, want %d", after.Dropped-before.Dropped, base, count)
	}
}

func (a *after) look(t *rapid.T) {
	if err := a.m.Check(); err != nil {
		t.Fatal(err)
	}
	var want, got []uint64
	count := map[State]int{}
	for off, s := range a.state {
		count[s]++
		if h := a.m.groups[1].held(uint64(off)); h.State != s {
			t.Fatalf("offset %d is %s, want %s", off, h.State, s)
		}
		if s == StateReady {
			want = append(want, uint64(off))
		}
	}
	for _, h := range a.m.Held(1, StateReady, 0, 100) {
		got = append(got, h.Offset)
	}
	if !slices.Equal(got, want) || a.m.Ready(1) != len(want) {
		t.Fatalf("ready %v (%d), want %v", got, a.m.Ready(1), want)
	}
	f, _ := a.m.Figures(1)
	if int(f.Acked+f.Dropped) != count[StateAcked] || f.Leased != count[StateLeased] || f.Dead != count[StateDead] || int(f.Lag) != len(want)+f.Leased {
		t.Fatalf("%+v, want %v", f, count)
	}
}

// A checkpoint that is ahead of its place: records of what it has acked early do not bring it back.
func TestEarlyAckSurvivesReplay(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(9)
	r := receipts(j.receive(1, 9, 1))
	j.failover()
	j.want(Extend, SettleOK, StateLeased, r[5])
	j.want(Ack, SettleOK, StateAcked, r[5])
	m, _, err := LoadCheckpoint(part, j.m.Checkpoint(j.tail, PartBytes))
	if err != nil {
		t.Fatal(err)
	}
	j.cut(0)
	same(t, j, m)
	j.m = m
	j.m.Lead(9, j.now)
	j.offsets([]uint64{0, 1, 2, 3, 4, 6, 7, 8}, j.receive(1, 9, 1))
}

// same compares a leader with m after the replay of all that was written behind it.
func same(t fataler, j *journal, m *Machine) {
	if got, want := dump(replay(t, m, j.entries), j.now), dump(j.m, j.now); got != want {
		t.Fatalf("after replay:\n%s\nthe leader has:\n%s", got, want)
	}
}

// A receipt with a fence that nobody has given yet must not raise the message's fence above those to come.
func TestFenceThatWasNeverGiven(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(2)
	r := receipts(j.receive(1, 1, 1))[0]
	ahead := r
	ahead.Counter++
	j.want(Nack, SettleStale, StateLeased, ahead)
	ahead = r
	ahead.Segment++
	j.want(Ack, SettleStale, StateLeased, ahead)
	other := r
	other.Generation++
	j.want(Ack, SettleStale, StateLeased, other)
	other = r
	other.Partition = mq.PartitionID{Topic: 8}
	j.want(Ack, SettleStale, StateLeased, other)
	other = r
	other.Offset = 2
	j.want(Ack, SettleStale, StateReady, other)
	j.want(Ack, SettleOK, StateAcked, r)
}

// Messages that differ in what a receipt can tell are not written as one run.
func TestRunsKeepAttemptsAndFences(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.group(2, nil)
	j.cut(4)
	nack := func(rs ...mq.Receipt) {
		var items []SettleItem
		for _, r := range rs {
			items = append(items, SettleItem{Receipt: r, Outcome: Nack, Delay: 3 * sec})
		}
		j.m.Settle(j.now, items, nil)
		j.cut(0)
		same(t, j, New(part))
	}
	first := receipts(j.receive(1, 1, 1))
	j.m.Return(j.now, 1, 1)
	first = receipts(j.receive(1, 1, 2))
	j.settle(Nack, first...)
	j.pass(time.Second)
	nack(receipts(j.receive(1, 2, 3))...) // the second attempt of 0, the first of 1, one counter after the other
	r := receipts(j.receive(1, 1, 4))
	j.receive(2, 1, 5)
	r = append(r, receipts(j.receive(1, 1, 6))...)
	j.failover() // nobody but the receipts knows these two
	nack(r...)
	x, y := j.m.groups[1].out[2], j.m.groups[1].out[3]
	if x.fence.counter != r[0].Counter || y.fence.counter != r[1].Counter || y.fence.counter != x.fence.counter+2 {
		t.Fatalf("fences %v and %v", x.fence, y.fence)
	}
}
