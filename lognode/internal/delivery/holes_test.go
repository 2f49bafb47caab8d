package delivery

import (
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

const jump = 1 << 32

// beyond is a journal of 5 messages that went on 2^32 offsets further, with 3 more.
func beyond(t *testing.T) *journal {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(5)
	j.holes = []span{{5, 5 + jump}}
	j.tail = mq.Position{Offset: 5 + jump}
	j.failover()
	j.cut(3)
	return j
}

func TestGroupsPassOverAHole(t *testing.T) {
	j := beyond(t)
	g := j.receive(1, 100, 1)
	want := []uint64{0, 1, 2, 3, 4, 5 + jump, 6 + jump, 7 + jump}
	if got := offsets(g); !slices.Equal(got, want) {
		t.Fatalf("handed out %d, want %d", got, want)
	}
	j.want(Ack, SettleOK, StateAcked, receipts(g)...)
	if f, _ := j.m.Figures(1); f.Lag != 0 || f.Acked != 8 || f.Cursor != 8+jump {
		t.Errorf("%+v", f)
	}
}

func TestAHoleIsNoBacklog(t *testing.T) {
	j := beyond(t)
	f, _ := j.m.Figures(1)
	if f.Lag != 8 || f.Fresh != 8 || f.Acked != 0 || f.Ready != 8 {
		t.Errorf("%+v", f)
	}
	held := j.m.Held(1, StateReady, 3, 4)
	if len(held) != 4 || held[1].Offset != 4 || held[2].Offset != 5+jump {
		t.Errorf("listed %+v", held)
	}
	j.group(2, nil) // made behind the hole, from the start
	if f, _ := j.m.Figures(2); f.Lag != 8 {
		t.Errorf("a new group: %+v", f)
	}
}

// What retention removes is not counted as acked, though the hole goes with it.
func TestAHoleThatRetentionRemoved(t *testing.T) {
	j := beyond(t)
	j.want(Ack, SettleOK, StateAcked, receipts(j.receive(1, 2, 1))...)
	for range 2 { // once as it comes, once as a later leader says it again
		j.m.Drop(j.now, 6+jump)
		f, _ := j.m.Figures(1)
		if f.Acked != 2 || f.Dropped != 4 || f.Lag != 2 {
			t.Errorf("%+v", f)
		}
		m, _, err := LoadCheckpoint(part, j.m.Checkpoint(j.tail, 1<<10))
		if err != nil {
			t.Fatal(err)
		}
		if f, _ := m.Figures(1); f.Acked != 2 || f.Dropped != 4 || f.Lag != 2 {
			t.Errorf("from a checkpoint: %+v", f)
		}
	}
}

// With lanes in use the range of a hole takes no memory for each of its offsets.
func TestLanesAcrossAHole(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.publish(mq.LaneLow, mq.LaneNormal)
	j.holes = []span{{2, 2 + jump}}
	j.tail = mq.Position{Offset: 2 + jump}
	j.failover()
	j.publish(mq.LaneCritical, mq.LaneNormal)
	if n := len(j.m.lanes.lanes[mq.LaneNormal].chunks); n > 3 {
		t.Errorf("%d chunks for four messages", n)
	}
	if f, _ := j.m.Figures(1); f.Lag != 4 || f.Lanes[mq.LaneNormal].Fresh != 2 {
		t.Errorf("%+v", f)
	}
	got := offsets(j.receive(1, 10, 1))
	slices.Sort(got)
	if !slices.Equal(got, []uint64{0, 1, 2 + jump, 3 + jump}) {
		t.Errorf("handed out %d", got)
	}
}

// What a group that orders by key has handed out beyond messages that wait behind their keys, before those are lost, is not beyond
// anything any more, whether or not the lanes are known by then.
func TestHoleUnderWhatWasHandedOutEarly(t *testing.T) {
	for _, lane := range []mq.Lane{mq.LaneNormal, mq.LaneNormal + 1} {
		j := newJournal(t)
		j.group(1, func(c *GroupConfig) { c.Settings.Ordering = mq.OrderingKey })
		j.send(sent{key: "a"}, sent{key: "a"}, sent{key: "b"}, sent{key: "a"}, sent{key: "c", lane: lane}, sent{key: "d"})
		j.receive(1, 6, 1) // all but 1 and 3, which are behind 0
		j.cut(0)
		for _, hole := range []span{{1, 2}, {3, 4}, {1, 4}} {
			m, _, err := LoadCheckpoint(part, j.m.Checkpoint(j.tail, PartBytes))
			if err != nil {
				t.Fatal(err)
			}
			m.Hole(hole.from, hole.to)
			learn(t, m, j.entries)
			if err := m.Check(); err != nil {
				t.Errorf("lane %s, hole %v: %v", lane, hole, err)
			}
		}
	}
}
