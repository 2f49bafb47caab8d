package delivery

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// expire does to the oracle what retention does up to base: what is dead in some group, and what was kept so before, stays
// as it is in each group that has touched it; all else below is settled.
func (w *world) expire(t *rapid.T) {
	base := max(w.base, rapid.Uint64Range(0, w.tail.Offset).Draw(t, "base"))
	stays := map[uint64]bool{}
	for _, o := range w.groups {
		for off := range base {
			s, touched := o.state[off]
			stays[off] = stays[off] || s == StateDead || off < w.base && touched && s != StateAcked
		}
	}
	want := 0
	for off := range base {
		if stays[off] {
			want++
		}
	}
	w.retain(base)
	if w.m.MustCarry(mq.Position{Offset: base}) != nil || len(w.m.carried) != want {
		t.Fatalf("%d are carried, want %d; left %v", len(w.m.carried), want, w.m.MustCarry(mq.Position{Offset: base}))
	}
	for _, o := range w.groups {
		for off := range base {
			if _, touched := o.state[off]; !touched || !stays[off] {
				o.state[off] = StateAcked
			}
		}
	}
}

// Random operations while retention removes the journal from the front.
func TestRetentionAgainstMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t, rapid.Bool().Draw(rt, "lanes"), rapid.Bool().Draw(rt, "keys"))
		steps := w.steps()
		steps["retain"], steps["retain again"] = w.expire, w.expire
		rt.Repeat(steps)
	})
}

// A dead letter outlives its segment: it is listed, redriven, handed out and settled as before, across failovers, and is
// carried on for as long as any group has it.
func TestDeadLettersAreCarriedPastRetention(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.group(2, nil)
	j.cut(6)
	rs := receipts(j.receive(1, 6, 1))
	j.want(Reject, SettleOK, StateDead, rs[1], rs[4])
	j.want(Ack, SettleOK, StateAcked, rs[0], rs[2])
	j.want(Reject, SettleOK, StateDead, receipts(j.receive(2, 2, 2))...)
	if !j.m.Keeps(1, 6) || j.m.Keeps(1, 2) {
		t.Error("offset 3 is leased and keeps its segment, and dead ones keep none")
	}
	if got := j.retain(4); !slices.Equal(got, []uint64{0, 1}) {
		t.Fatalf("carried %v", got)
	}
	if f, _ := j.m.Figures(1); f.Dead != 2 || f.Dropped != 1 {
		t.Errorf("%+v", f)
	}
	j.cut(1)
	j.failover()
	dead := j.m.Dead(1, DeadFilter{}, 0, 10)
	if len(dead) != 2 || dead[0].Offset != 1 || dead[0].Reason != "because" || dead[0].First != j.now || dead[0].Attempt != 1 {
		t.Fatalf("%+v", dead)
	}
	first, _ := j.m.CarriedAt(1)
	if got := j.retain(7); !slices.Equal(got, []uint64{0, 1, 4}) {
		t.Fatalf("carried %v", got)
	}
	if second, ok := j.m.CarriedAt(1); !ok || second.Was != first.At || !first.At.Before(second.At) {
		t.Errorf("carried to %+v after %+v", second, first)
	}
	if n, err := j.m.Redrive(j.now, 1, []uint64{1, 4}, 0, 0); n != 2 || err != nil {
		t.Fatalf("redriven %d, %v", n, err)
	}
	if j.m.Keeps(1, 7) {
		t.Error("what was carried keeps a segment")
	}
	j.cut(0)
	if got := j.retain(7); got != nil {
		t.Errorf("carried %v, which are behind what is removed", got)
	}
	j.failover()
	g := j.receive(1, 10, 3)
	j.offsets([]uint64{1, 4}, g)
	j.want(Ack, SettleOK, StateAcked, receipts(g)...)
	if n, err := j.m.RemoveDead(j.now, 2, []uint64{0, 1}); n != 2 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	if len(j.m.carried) != 0 || j.m.CarriedBytes() != 0 {
		t.Errorf("%v, %d bytes are carried and settled everywhere", j.m.carried, j.m.CarriedBytes())
	}
}

// What was carried to a range that is lost then is gone, and is not waited for.
func TestCarriedAndLost(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(2)
	j.want(Reject, SettleOK, StateDead, receipts(j.receive(1, 2, 1))...)
	j.retain(2)
	all := j.m.AllCarried()
	if lost := j.m.LoseCarried(func(at mq.Position) bool { return at != all[0].At }); lost != 2 {
		t.Errorf("lost %d", lost)
	}
	if f, _ := j.m.Figures(1); f.Dead != 0 || len(j.m.carried) != 0 {
		t.Errorf("%+v", f)
	}
	if err := j.m.Check(); err != nil {
		t.Error(err)
	}
	j.pass(time.Hour)
}

func FuzzCarriedBatch(f *testing.F) {
	var b mq.BatchBuilder
	b.Add(&mq.Message{Value: []byte("v"), Lane: mq.LaneNormal})
	c := CarriedBatch{Stamp: 5, Leader: "n", Quorum: 1, Replicas: []string{"n"}, Offsets: []uint64{7}, Kind: mq.KindMessages,
		Body: b.AppendTo(nil, "", "", mq.CodecNone, nil)}
	f.Add(c.AppendTo(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		var c, again CarriedBatch
		if ours, err := c.Read(mq.Record{Kind: mq.KindCarried, Version: 1, Body: body}); !ours || err != nil {
			return
		}
		if ours, err := again.Read(mq.Record{Kind: mq.KindCarried, Version: 1, Body: c.AppendTo(nil)}); !ours || err != nil || !slices.Equal(c.Offsets, again.Offsets) {
			t.Fatalf("%+v read back as %+v, %v", c, again, err)
		}
	})
}
