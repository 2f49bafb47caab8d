package clocks

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const hour = 3600 * second

// A clock that jumps by an hour is not followed before the others were asked, and then not at all if they disagree.
func TestJumpIsNotFollowed(t *testing.T) {
	for _, jump := range []int64{hour, -hour, 2 * second, -2 * second} {
		s := NewSteady(start, 0)
		if got := s.Now(start+second/2+jump, second/2); got != start+second/2 {
			t.Fatalf("after a jump by %s it is %d ns later", time.Duration(jump), got-start)
		}
		s, by := s.Settle(start+second+jump, second, Word{Ahead: time.Duration(jump), Told: true})
		if now := s.Now(start+9*second+jump, 9*second); now != start+9*second || by != 0 {
			t.Errorf("a jump by %s: eight seconds later it is %d ns later; moved by %d", time.Duration(jump), now-start-second, by)
		}
		s, by = s.Settle(start+10*second+jump, 10*second, Word{}) // nobody is heard: what was known stays
		if now := s.Now(start+11*second+jump, 11*second); now != start+11*second || by != 0 {
			t.Errorf("a jump by %s: cut off it is %d ns later; moved by %d", time.Duration(jump), now-start, by)
		}
		s, by = s.Settle(start+12*second, 12*second, Word{Told: true}) // it was set right
		if now := s.Now(start+13*second, 13*second); now != start+13*second || by != 0 {
			t.Errorf("a jump by %s: set right it is %d ns later; moved by %d", time.Duration(jump), now-start, by)
		}
	}
}

// Where nobody can tell, a clock that was set is followed, and says by how much. So is what the others say to a clock that was
// wrong from the start.
func TestSettleSaysByHowMuchTheTimeMoves(t *testing.T) {
	s := NewSteady(start, 0)
	s, by := s.Settle(start+second-hour, second, Word{})
	if now := s.Now(start+2*second-hour, 2*second); by != -hour || now != start+2*second-hour {
		t.Errorf("moved by %d, now %d", by, now-start)
	}
	s = NewSteady(start+hour, 0)
	s, by = s.Settle(start+hour+second, second, Word{Ahead: time.Hour, Told: true})
	if now := s.Now(start+hour+2*second, 2*second); by != -hour || now != start+2*second {
		t.Errorf("moved by %d, now %d", by, now-start)
	}
}

// Whatever a clock does, as long as the others are heard the time never runs from theirs by more than clocks may differ.
func TestSteadyKeepsToTheOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		off := rapid.Int64Range(-second/2, second/2).Draw(t, "off")
		s := NewSteady(start+off, 0)
		var mono int64
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			d := rapid.Int64Range(1, second/2).Draw(t, "pass")
			mono += d
			off = rapid.OneOf(rapid.Just(off), rapid.Just(int64(0)), rapid.Int64Range(-hour, hour)).Draw(t, "off")
			truth, own := start+mono, start+mono+off
			if now := s.Now(own, mono); abs(now-truth) > 2*MaxSkew {
				t.Fatalf("%d ns off with a clock that is %d ns off", now-truth, off)
			}
			if rapid.Bool().Draw(t, "settle") {
				if s, _ = s.Settle(own, mono, Word{Ahead: time.Duration(off), Told: true}); abs(s.Now(own, mono)-truth) > MaxSkew {
					t.Fatalf("%d ns off after it was settled", s.Now(own, mono)-truth)
				}
			}
		}
	})
}

// While those who may tell are waited for a jump is not followed, and what was known stays.
func TestNoJumpIsFollowedWhileItMayBeTold(t *testing.T) {
	s := NewSteady(start, 0)
	for i := range int64(4) {
		var by int64
		at := (i + 1) * second / 2
		if s, by = s.Settle(start+at+hour, at, Word{Soon: true}); by != 0 || s.Now(start+at+hour, at) != start+at {
			t.Fatalf("a jump was followed after %s", time.Duration(at))
		}
	}
	s, by := s.Settle(start+3*second+hour, 3*second, Word{})
	if now := s.Now(start+3*second+hour, 3*second); by != hour || now != start+3*second+hour {
		t.Errorf("moved by %d, now %d", by, now-start)
	}
}
