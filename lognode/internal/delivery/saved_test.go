package delivery

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// saved is a checkpoint that a later leader finds, when retention may have removed much of what lies below it.
type saved struct {
	parts [][]byte
	asOf  mq.Position
}

// save makes a checkpoint as of now.
func (s *saved) save(w *world) {
	w.publish(w.t, 1) // a leader has nothing left to write when it makes one
	s.parts, s.asOf = w.m.Checkpoint(w.tail, PartBytes), w.tail
}

// replays makes a machine of the checkpoint and the entries that are left of the journal, which tell no lanes below
// what retention has removed. It has what the leader has.
func (s *saved) replays(t *rapid.T, w *world) {
	if s.parts == nil || s.asOf.Offset < w.base {
		return
	}
	w.t = t
	w.publish(t, 1)
	m, _, err := LoadCheckpoint(part, s.parts)
	if err != nil {
		t.Fatal(err)
	}
	var left []mq.Entry
	for _, e := range w.entries {
		if e.Next().Offset > w.base || !e.At.Before(s.asOf) {
			left = append(left, e)
		}
	}
	replay(t, m, left, w.holes...)
	m.Commit(w.tail.Offset)
	if got, want := dump(m, w.now, w.base), dump(w.m, w.now, w.base); got != want {
		t.Fatalf("after replay from %s, kept from %d:\n%s\nthe leader has:\n%s", s.asOf, w.base, got, want)
	}
}

// Random operations while retention removes the journal from the front, also such as lies between a checkpoint and what the next
// leader finds of it.
func TestRetentionBelowACheckpointAgainstMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t, true, rapid.Bool().Draw(rt, "keys"))
		s := &saved{}
		steps := w.steps()
		steps["retain"], steps["retain again"] = w.expire, w.expire
		steps["save"] = func(t *rapid.T) { w.t = t; s.save(w) }
		steps["load"] = func(t *rapid.T) { s.replays(t, w) }
		steps["load again"] = steps["load"]
		rt.Repeat(steps)
	})
}

// A leader after another finds a checkpoint with messages of a lane that lie in a segment which is gone by now. Records that
// follow it are about those messages, not about others of the same offsets beside them: else they would count as leased,
// without being listed, until the next leader. One that was fresh in the checkpoint and is dead by now is still there.
func TestRecordsBelowWhatIsKeptAfterACheckpoint(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.publish(mq.LaneHigh, mq.LaneHigh, mq.LaneHigh, mq.LaneHigh)
	rs := receipts(j.receive(1, 3, 1)) // the normal lane is fresh from 0 on
	j.cut(1)
	parts, asOf := j.m.Checkpoint(j.tail, PartBytes), j.tail
	j.want(Nack, SettleOK, StateWaiting, rs[0])
	j.want(Extend, SettleOK, StateLeased, rs[1])
	j.want(Reject, SettleOK, StateDead, receipts(j.receive(1, 1, 2))...)
	j.cut(1)
	j.retain(4)
	j.cut(1)
	m, _, err := LoadCheckpoint(part, parts)
	if err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(slices.Clone(j.entries), func(e mq.Entry) bool { return e.Next().Offset <= 4 && e.At.Before(asOf) })
	replay(t, m, left)
	m.Commit(j.tail.Offset)
	m.Lead(2, j.now)
	m.Drop(j.now, 4)
	want := GroupFigures{Generation: 1, Cursor: 4, Next: 4, Committed: 7, Ready: 3, Fresh: 3, Dead: 1, Dropped: 3, Lag: 3}
	want.Lanes[mq.LaneNormal].Fresh = 3
	got, _ := m.Figures(1)
	want.Lanes[mq.LaneHigh].Dead, want.Lanes[mq.LaneNormal].Dead = got.Lanes[mq.LaneHigh].Dead, got.Lanes[mq.LaneNormal].Dead // no record says its lane
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}
