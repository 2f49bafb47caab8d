// Package clocks compares a node's clock with those of the nodes that it hears from. It is pure: the caller brings what
// it heard and its own time.
//
// A message says what its sender's clock was. It is compared with a clock here that only counts on: what was heard stays right when the
// own clock on the wall is set, and so a jump of it is known at once. The way takes time, so what is seen is the difference less the
// delay; the largest value of some seconds is the one with the least delay, which between machines of one cluster is about a millisecond.
//
// A process that was stopped finds what the others said meanwhile, and a connection that was cut brings it: it is old by as long. So
// after a gap in which all was forgotten nothing counts before something came by itself, and not in a row with others.
package clocks

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// window is for how long a value counts, about: between one and two of them.
	window = int64(2 * time.Second)
	// apart is how long after the one before a message comes that did not wait with it. Nodes say something every 200 ms.
	apart = int64(50 * time.Millisecond)
	// setBack is how many messages in a row that say much less than before are a clock that was set back: what waited comes with
	// others, the last of which has not waited for long.
	setBack = 2
	// patience is how long those that may tell soon are waited for: at the start, and when enough others fall silent at once.
	patience = int64(2 * time.Second)
)

// Clocks is what was heard of the other clocks. One goroutine at a time uses it.
type Clocks struct {
	of     map[mq.StoreID]*heard
	silent int64 // since when too few are heard of, by the clock that counts on; 0 if enough are
}

type heard struct {
	began     int64 // of the present window, by the clock that counts on
	now, last int64 // the largest difference in it, and in the one before
	hasLast   bool
	at        int64 // when the last message came
	fresh     bool  // what came last of all, or something before it, has not waited
	low       int   // messages in a row that said much less, of those that came by themselves
}

// Word is what the others say of the own clock.
type Word struct {
	// Ahead is by how much the own clock is ahead of the median of all clocks (negative: behind), the own one among them. It is 0
	// while it is not Told. Of an even number the two in the middle are equally good, and the one nearer to the own clock is taken.
	Ahead time.Duration
	// Told says that at least two others are heard of: with fewer nobody can tell who is wrong.
	Told bool
	// Soon says that it is not Told, but may be within a moment, so that nothing should be decided by the own clock before.
	Soon bool
}

// New has heard nothing.
func New() *Clocks { return &Clocks{of: map[mq.StoreID]*heard{}} }

// Heard takes that a node's clock said clock (Unix nanoseconds) now, by the clock here that only counts on.
func (c *Clocks) Heard(from mq.StoreID, clock, now int64) {
	h, d := c.of[from], clock-now
	if h == nil || now-h.began >= 2*window {
		c.of[from] = &heard{began: now, at: now, now: d}
		return
	}
	late := d < h.best()-MaxSkew // or its clock was set back
	if !late {
		h.low = 0
	}
	if now-h.at >= apart {
		h.fresh = true
		if late {
			h.low++
		}
	}
	h.at = now
	if h.low >= setBack {
		*h = heard{began: now, at: now, now: d, fresh: true}
		return
	}
	if now-h.began >= window {
		h.last, h.hasLast = h.now, true
		h.began, h.now = now, d
		return
	}
	h.now = max(h.now, d)
}

// Expect says that enough others have just come to tell of the own clock: if they have not told yet, they are waited for anew. Who
// starts long before the others has waited for them in vain.
func (c *Clocks) Expect(now int64) {
	if c.silent != 0 {
		c.silent = max(now, 1)
	}
}

// best is the difference with the least delay.
func (h *heard) best() int64 {
	if h.hasLast {
		return max(h.now, h.last)
	}
	return h.now
}

// Ask is what the others say of a clock that says own (Unix nanoseconds); now as for Heard.
func (c *Clocks) Ask(own, now int64) Word {
	all := []int64{0} // how far they are ahead of the own one
	for from, h := range c.of {
		age := now - h.began
		if age >= 4*window {
			delete(c.of, from)
		}
		if age >= 2*window || !h.fresh {
			continue
		}
		all = append(all, h.best()-(own-now))
	}
	if len(all) < 3 {
		if c.silent == 0 {
			c.silent = max(now, 1)
		}
		return Word{Soon: now-c.silent < patience}
	}
	c.silent = 0
	return Word{Ahead: time.Duration(-mq.Median(all, 0)), Told: true}
}

func abs(x int64) int64 { return max(x, -x) }
