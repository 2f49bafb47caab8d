package segment

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// A follower lags from the moment on at which the leader was where it has not come since; one that keeps its distance but
// goes on is not late.
func TestLag(t *testing.T) {
	at := func(n uint64) mq.Position { return mq.Position{Offset: n} }
	f := NewFollower(at(0))
	for i, x := range []struct {
		now   int64
		next  uint64 // of the leader
		acked uint64
		lag   int64
	}{
		{100, 0, 0, 0},   // nothing to have
		{105, 10, 0, 0},  // the first 10 are there since now, as far as is known
		{110, 20, 5, 5},  // it lacks some of those that were there at 105
		{115, 20, 10, 0}, // it has them now, and lacks what was there at 115
		{120, 20, 20, 0},
		{500, 20, 20, 0}, // idle
		{505, 30, 20, 0},
		{520, 90, 29, 15},
		{521, 90, 90, 0},
	} {
		f.Acked(at(x.acked))
		if got := f.Lag(x.now, at(x.next)); got != x.lag {
			t.Errorf("step %d: a lag of %d, want %d", i, got, x.lag)
		}
	}
}

// A node that answers is no replica that can acknowledge, if its copy is missing, damaged or sealed.
func TestCommits(t *testing.T) {
	three := []mq.Replica{{Store: "a"}, {Store: "b"}, {Store: "c"}}
	l, err := NewLeader(mq.Segment{ID: 5, Quorum: 2, Replicas: three, Leader: mq.Incarnation{Store: "a", Boot: 1}}, mq.Position{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, c := NewFollower(mq.Position{}), NewFollower(mq.Position{})
	for gone, want := range []bool{true, true, false} {
		b.Gone, c.Gone = gone > 0, gone > 1
		if got := l.Commits([]*Follower{nil, b, c}); got != want {
			t.Errorf("without %d of two followers: %v", gone, got)
		}
	}
}

// A copy is late for what it lacks while others go on, or have everything; where they stand still, too, with more to write, it is not.
func TestOwnLag(t *testing.T) {
	at := func(n uint64) mq.Position { return mq.Position{Offset: n} }
	var o OwnLag
	for i, x := range []struct {
		now               int64
		has, commit, next uint64
		lag               int64
	}{
		{100, 10, 10, 10, 0},
		{110, 10, 20, 20, 0},  // what was committed by then, it lacks from now on
		{120, 10, 30, 40, 10}, // the others go on
		{124, 10, 30, 40, 14},
		{130, 10, 30, 40, 0},  // and stand still since 120
		{140, 10, 30, 30, 30}, // nothing waits for them
		{150, 10, 31, 40, 40},
		{151, 31, 31, 40, 0}, // it has caught up
		{500, 31, 31, 31, 0},
	} {
		if got := o.Of(x.now, at(x.has), at(x.commit), at(x.next)); got != x.lag {
			t.Errorf("step %d: a lag of %d, want %d", i, got, x.lag)
		}
	}
}
