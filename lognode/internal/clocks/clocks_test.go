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
		if got := c.Ahead(now); (got - time.Duration(x.want)*time.Second).Abs() > 10*time.Millisecond {
			t.Errorf("%s: ahead by %s, want %d s", name, got, x.want)
		}
	}
}

func TestSilentNodesAreForgotten(t *testing.T) {
	c := New()
	now := hear(c, 5, map[mq.StoreID]int64{"a": -5 * second, "b": -5 * second}, func(int64) int64 { return 0 })
	if c.Ahead(now) == 0 {
		t.Fatal("not heard")
	}
	if got := c.Ahead(now + 5*second); got != 0 {
		t.Errorf("ahead by %s of nodes that are silent for five seconds", got)
	}
	c.Ahead(now + 60*second)
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
		if got := c.Ahead(now); got.Abs() > time.Second/10 {
			t.Fatalf("ahead by %s with %v", got, off)
		}
	})
}
