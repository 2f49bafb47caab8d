package clocks

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// link is one direction of a stream between two nodes: what is said arrives in order, late by what the network takes.
type link struct {
	delay   int64
	sent    []int64 // what was said, and with right clocks when
	arrives []int64
}

func (l *link) say(now int64) {
	at := now + l.delay
	if n := len(l.arrives); n > 0 {
		at = max(at, l.arrives[n-1])
	}
	l.sent, l.arrives = append(l.sent, now), append(l.arrives, at)
}

func (l *link) hear(now int64, f func(said int64)) {
	for len(l.arrives) > 0 && l.arrives[0] <= now {
		f(l.sent[0])
		l.sent, l.arrives = l.sent[1:], l.arrives[1:]
	}
}

// TestDelayMakesNothingEarly: a delay that lasts, on whichever ways, looks to who hears late as if the others' clocks were behind. All clocks
// are right here. Then the time that a node goes by is behind by as much as the delay at most, and never ahead: what is scheduled comes
// late, leases last longer, and nothing ends or comes early. It is right again soon after the network is.
func TestDelayMakesNothingEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const (
			nodes = 3
			tick  = int64(100 * time.Millisecond)
			start = int64(1e18)
			good  = int64(2 * time.Millisecond)
		)
		var all [nodes]*Clocks
		var steady [nodes]Steady
		var links [nodes][nodes]*link // from, to
		for i := range nodes {
			all[i], steady[i] = New(), NewSteady(start, start)
			for j := range nodes {
				links[i][j] = &link{delay: good}
			}
		}
		now, most := start, int64(0) // the longest delay under which something is on its way, or is remembered
		run := func(d time.Duration, checks func(node int, off int64)) {
			for end := now + int64(d); now < end; now += tick {
				for i := range nodes {
					for j := range nodes {
						if i == j {
							continue
						}
						if (now-start)/tick%2 == 0 {
							links[i][j].say(now)
						}
						links[i][j].hear(now, func(said int64) { all[j].Heard(mq.StoreID(rune('a'+i)), said, now) })
					}
				}
				for i := range nodes {
					steady[i], _ = steady[i].Settle(now, now, all[i].Ask(now, now))
					checks(i, steady[i].Now(now, now)-now)
				}
			}
		}
		for range rapid.IntRange(1, 4).Draw(t, "phases") {
			for i := range nodes {
				for j := range nodes {
					links[i][j].delay = good
					if rapid.Bool().Draw(t, "late") {
						links[i][j].delay = rapid.Int64Range(int64(time.Second), int64(10*time.Second)).Draw(t, "by")
					}
					most = max(most, links[i][j].delay)
				}
			}
			run(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds"))*time.Second, func(node int, off int64) {
				if off > MaxSkew || off < -most-MaxSkew {
					t.Fatalf("node %d goes by a time that is %s off, at a delay of %s at most", node, time.Duration(off), time.Duration(most))
				}
			})
		}
		for i := range nodes {
			for j := range nodes {
				links[i][j].delay = good
			}
		}
		run(time.Duration(most)+3*time.Duration(window), func(int, int64) {})
		run(time.Second, func(node int, off int64) {
			if abs(off) > MaxSkew {
				t.Fatalf("node %d is %s off although the network is well", node, time.Duration(off))
			}
		})
	})
}
