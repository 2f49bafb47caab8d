// Package clocks compares a node's clock with those of the nodes that it hears from. It is pure: the caller brings what
// it heard and its own time.
//
// A message says what its sender's clock was. The way takes time, so what is seen is the difference of the clocks less the delay; the
// largest value of some seconds is the one with the least delay, which between machines of one cluster is about a millisecond.
package clocks

import (
	"slices"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// window is for how long a value counts, about: between one and two of them.
const window = int64(2 * time.Second)

// Clocks is what was heard of the other clocks. One goroutine at a time uses it.
type Clocks struct{ of map[mq.StoreID]*heard }

type heard struct {
	began     int64 // of the present window, by the own clock
	now, last int64 // the largest difference in it, and in the one before
	hasLast   bool
}

// New has heard nothing.
func New() *Clocks { return &Clocks{of: map[mq.StoreID]*heard{}} }

// Heard takes that a node's clock said clock when the own one says now (Unix nanoseconds).
func (c *Clocks) Heard(from mq.StoreID, clock, now int64) {
	h := c.of[from]
	if h == nil {
		c.of[from] = &heard{began: now, now: clock - now}
		return
	}
	if age := now - h.began; age < 0 || age >= window { // also when the own clock was set back
		h.last, h.hasLast = h.now, age >= 0 && age < 2*window
		h.began, h.now = now, clock-now
		return
	}
	h.now = max(h.now, clock-now)
}

// Told says whether enough others are heard of to tell who is wrong.
func (c *Clocks) Told(now int64) bool {
	n := 0
	for _, h := range c.of {
		if age := now - h.began; age >= 0 && age < 2*window {
			n++
		}
	}
	return n >= 2
}

// Ahead is by how much the own clock is ahead of the median of all clocks (negative: behind), the own one among them. It is 0
// while fewer than two others are heard of: then nobody can tell who is wrong. Of an even number the two in the middle
// are equally good, and the one nearer to the own clock is taken.
func (c *Clocks) Ahead(now int64) time.Duration {
	all := []int64{0}
	for from, h := range c.of {
		age := now - h.began
		switch {
		case age < 0 || age >= 2*window:
			if age >= 4*window || age < -4*window {
				delete(c.of, from)
			}
			continue
		case h.hasLast:
			all = append(all, max(h.now, h.last))
		default:
			all = append(all, h.now)
		}
	}
	if len(all) < 3 {
		return 0
	}
	slices.Sort(all)
	median := all[len(all)/2]
	if low := all[(len(all)-1)/2]; abs(low) < abs(median) {
		median = low
	}
	return time.Duration(-median)
}

func abs(x int64) int64 { return max(x, -x) }
