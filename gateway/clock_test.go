package gateway

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A gateway goes by its own clock where that agrees with what nodes tell, and by theirs where it does not.
func TestTimeOfTheNodes(t *testing.T) {
	for _, x := range []struct {
		name  string
		nodes []time.Duration // their clocks beside the own one
		want  time.Duration
	}{
		{"nobody told", nil, 0},
		{"all agree", []time.Duration{time.Millisecond, 0, -time.Second / 2}, 0},
		{"the own one is an hour behind", []time.Duration{time.Hour, time.Hour, time.Hour}, time.Hour},
		{"it is an hour ahead of the only node, which decides", []time.Duration{-time.Hour}, -time.Hour},
		{"one of three nodes is wrong", []time.Duration{0, time.Hour, 0}, 0},
		{"one of two is, and the other one agrees", []time.Duration{-time.Hour, 0}, 0},
		{"one of two is, and the other one agrees", []time.Duration{0, time.Hour}, 0},
		{"one of four is", []time.Duration{time.Hour, 2 * time.Hour, time.Hour, time.Hour}, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newNodeTime(slog.New(slog.DiscardHandler))
			for i, off := range x.nodes {
				c.told(string(rune('a'+i)), time.Now().Add(off).UnixNano())
			}
			time.Sleep(time.Minute) // what was told goes on with what passes
			if got := c.now(); !got.Equal(time.Now().Add(x.want)) {
				t.Errorf("%s: %s off, want %s", x.name, time.Until(got), x.want)
			}
			if at, bad := c.deliverTime(time.Now().Add(x.want + time.Second).Format(time.RFC3339Nano)); at == 0 || bad != "" {
				t.Errorf("%s: a time to come has passed: %s", x.name, bad)
			}
			if at, _ := c.deliverTime(time.Now().Add(x.want - time.Second).Format(time.RFC3339Nano)); at != 0 {
				t.Errorf("%s: a time that has passed is to come", x.name)
			}
		})
	}
}

// A node that is gone does not decide for ever.
func TestTimeOfANodeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newNodeTime(slog.New(slog.DiscardHandler))
		c.told("wrong", time.Now().Add(time.Hour).UnixNano())
		if c.ahead() != -time.Hour {
			t.Errorf("ahead by %s", c.ahead())
		}
		time.Sleep(2 * time.Minute)
		c.told("right", time.Now().UnixNano())
		if c.ahead() != 0 || len(c.of) != 1 {
			t.Errorf("ahead by %s of %v", c.ahead(), c.of)
		}
	})
}
