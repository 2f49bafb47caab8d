package clocks

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

const (
	second = int64(time.Second)
	start  = 1000 * second
)

// hear is some seconds of beats of nodes whose clocks differ from the own one by off, each with a delay.
func hear(c *Clocks, seconds int64, off map[mq.StoreID]int64, delay func(i int64) int64) (now int64) {
	for i := range seconds * 5 {
		now = start + i*second/5
		for s, d := range off {
			c.Heard(s, now-delay(i)+d, now)
		}
	}
	return now
}

func TestAhead(t *testing.T) {
	late := func(i int64) int64 { return second / 1000 * (1 + i%7*20) } // 1 to 121 ms
	for name, x := range map[string]struct {
		off  map[mq.StoreID]int64
		want int64 // seconds
	}{
		"nobody":                     {nil, 0},
		"one other: who is wrong?":   {map[mq.StoreID]int64{"a": -5 * second}, 0},
		"all agree":                  {map[mq.StoreID]int64{"a": 0, "b": 0}, 0},
		"this one is ahead":          {map[mq.StoreID]int64{"a": -5 * second, "b": -5 * second}, 5},
		"this one is behind":         {map[mq.StoreID]int64{"a": 5 * second, "b": 7 * second}, -5},
		"another one is off":         {map[mq.StoreID]int64{"a": 0, "b": 99 * second}, 0},
		"two of four are off":        {map[mq.StoreID]int64{"a": 0, "b": 9 * second, "c": 9 * second}, 0},
		"this one of five is ahead":  {map[mq.StoreID]int64{"a": -3 * second, "b": -3 * second, "c": -3 * second, "d": -2 * second}, 3},
		"off to both sides, as ever": {map[mq.StoreID]int64{"a": -9 * second, "b": 9 * second}, 0},
	} {
		c := New()
		now := hear(c, 10, x.off, late)
		if got := c.Ask(now, now).Ahead; (got - time.Duration(x.want)*time.Second).Abs() > 10*time.Millisecond {
			t.Errorf("%s: ahead by %s, want %d s", name, got, x.want)
		}
	}
}

func TestSilentNodesAreForgotten(t *testing.T) {
	c := New()
	now := hear(c, 5, map[mq.StoreID]int64{"a": -5 * second, "b": -5 * second}, func(int64) int64 { return 0 })
	if c.Ask(now, now).Ahead == 0 {
		t.Fatal("not heard")
	}
	if got := c.Ask(now+5*second, now+5*second).Ahead; got != 0 {
		t.Errorf("ahead by %s of nodes that are silent for five seconds", got)
	}
	c.Ask(now+60*second, now+60*second)
	if len(c.of) != 0 {
		t.Errorf("%d nodes are remembered", len(c.of))
	}
}

// Whatever a minority of wrong clocks says, a clock that agrees with the others is not taken for wrong.
func TestMinorityDoesNotMoveTheMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wrong := rapid.IntRange(0, 3).Draw(t, "wrong")
		off := map[mq.StoreID]int64{}
		for i := range wrong {
			off[mq.StoreID(rune('a'+i))] = rapid.Int64Range(-1e6*second, 1e6*second).Draw(t, "off")
		}
		for i := range wrong + rapid.IntRange(0, 2).Draw(t, "more") {
			off[mq.StoreID(rune('r'+i))] = rapid.Int64Range(-second/10, second/10).Draw(t, "right")
		}
		c := New()
		now := hear(c, 5, off, func(int64) int64 { return 0 })
		if got := c.Ask(now, now).Ahead; got.Abs() > time.Second/10 {
			t.Fatalf("ahead by %s with %v", got, off)
		}
	})
}

// A jump of the own clock is known at once, however far: what was heard of the others before does not hide it.
func TestOwnJumpIsKnownAtOnce(t *testing.T) {
	for _, jump := range []int64{-2 * second, 3 * second / 2, 2 * second, 3 * second, 4 * second, 3600 * second, -3600 * second} {
		c := New()
		now := hear(c, 5, map[mq.StoreID]int64{"a": 0, "b": 0}, func(int64) int64 { return second / 1000 })
		for _, later := range []int64{0, second / 2, 3 * second} {
			for s := range c.of {
				c.Heard(s, now+later-second/1000, now+later)
			}
			if got := c.Ask(now+later+jump, now+later).Ahead; (got-time.Duration(jump)).Abs() > 10*time.Millisecond || !c.Ask(now+later, now+later).Told {
				t.Errorf("a jump by %s: ahead by %s %s later", time.Duration(jump), got, time.Duration(later))
			}
		}
	}
}

// What waited while the process was stopped, or the connection was cut, is old by as long, and says nothing of the own clock.
func TestWhatWaitedDoesNotCount(t *testing.T) {
	for _, stopped := range []int64{second, 3 * second, 5 * second, 30 * second} {
		c := New()
		now := hear(c, 5, map[mq.StoreID]int64{"a": 0, "b": 0}, func(int64) int64 { return second / 1000 })
		began := now
		for now += stopped; began < now; began += second / 5 {
			for s := range map[mq.StoreID]bool{"a": true, "b": true} {
				if said := c.Ask(now, now); said.Ahead.Abs() > 10*time.Millisecond || !said.Told && !said.Soon {
					t.Fatalf("%s were read, %s later: %+v", time.Duration(stopped-(now-began)), time.Duration(stopped), said)
				}
				c.Heard(s, began+second/5, now)
			}
		}
		for _, s := range []mq.StoreID{"a", "b"} {
			c.Heard(s, now+second/5, now+second/5)
		}
		if said := c.Ask(now+second/5+hour, now+second/5); !said.Told || (said.Ahead-time.Hour).Abs() > 10*time.Millisecond {
			t.Errorf("%s later, the clock was set meanwhile: %+v", time.Duration(stopped), said)
		}
	}
}

// Those who may tell are waited for, but not for long.
func TestSoonIsNotForLong(t *testing.T) {
	c := New()
	for _, x := range []struct {
		at   int64
		want Word
	}{{second, Word{Soon: true}}, {2 * second, Word{Soon: true}}, {3 * second, Word{}}, {60 * second, Word{}}} {
		if said := c.Ask(start+x.at, x.at); said != x.want {
			t.Errorf("alone for %s: %+v", time.Duration(x.at), said)
		}
	}
	now := hear(c, 5, map[mq.StoreID]int64{"a": 0, "b": 0}, func(int64) int64 { return 0 })
	if said := c.Ask(now, now); said != (Word{Told: true}) {
		t.Errorf("with two others: %+v", said)
	}
	for _, x := range []struct {
		at   int64
		want Word
	}{{30 * second, Word{Soon: true}}, {31 * second, Word{Soon: true}}, {32 * second, Word{}}} {
		if said := c.Ask(now+x.at, now+x.at); said != x.want {
			t.Errorf("they are silent for %s: %+v", time.Duration(x.at), said)
		}
	}
}

// Who starts long before the others has given them up when they come: they are waited for anew. Who has heard them waits for nobody.
func TestWhoComesLateIsExpected(t *testing.T) {
	c := New()
	c.Ask(start+second, second)
	if said := c.Ask(start+60*second, 60*second); said != (Word{}) {
		t.Fatalf("alone: %+v", said)
	}
	c.Expect(60 * second)
	for _, x := range []struct {
		at   int64
		want Word
	}{{60 * second, Word{Soon: true}}, {61 * second, Word{Soon: true}}, {62 * second, Word{}}} {
		if said := c.Ask(start+x.at, x.at); said != x.want {
			t.Errorf("they came %s ago: %+v", time.Duration(x.at-60*second), said)
		}
	}
	c = New()
	now := hear(c, 5, map[mq.StoreID]int64{"a": 0, "b": 0}, func(int64) int64 { return 0 })
	c.Ask(now, now)
	c.Expect(now)
	if said := c.Ask(now, now); said != (Word{Told: true}) {
		t.Errorf("with two others, when a third one comes: %+v", said)
	}
}

// A clock that was wrong and is right again counts as right at once: with another one that is wrong then it would make up a majority.
// What comes late, in whatever rows, does not look like one.
func TestClockThatWasSetBack(t *testing.T) {
	c := New()
	off := map[mq.StoreID]int64{"a": hour, "b": 0}
	now := hear(c, 3, off, func(int64) int64 { return second / 1000 })
	step := func(late int64) Word {
		now += second / 5
		for range 2 { // there are two streams between two nodes
			for s, d := range off {
				c.Heard(s, now-late+d, now)
			}
			now += second / 1000
		}
		return c.Ask(now, now)
	}
	off["a"] = 0
	step(0)
	step(0)
	off["b"] = second * 700
	for range 20 {
		if said := step(0); said.Ahead.Abs() > 10*time.Millisecond || !said.Told {
			t.Fatalf("%+v", said)
		}
	}
	off["b"] = 0
	for range 20 {
		step(0)
	}
	for range 5 { // stopped for three seconds again and again
		now += 3 * second
		for late := 14 * second / 5; late >= 0; late -= second / 5 {
			for s := range off {
				c.Heard(s, now-late, now)
				if said := c.Ask(now, now); said.Ahead.Abs() > 10*time.Millisecond {
					t.Fatalf("late by %s: %+v", time.Duration(late), said)
				}
			}
		}
		step(0)
	}
}
