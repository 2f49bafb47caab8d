// Package beat has what is done again and again happen at the same moments by the machine's clock, in all of its processes. What
// an idle machine takes is mostly how often it is woken, so it should be once for everything.
//
// It is for what recurs within seconds for as long as a process lives; intervals should be multiples of Base.
package beat

import (
	"sync"
	"time"
)

// Base is the beat that is kept up: log nodes greet each other with it.
const Base = 200 * time.Millisecond

// Until is how long it is from now until the clock's next multiple of every that is not too near: from a half to one and
// a half of every.
func Until(now time.Time, every time.Duration) time.Duration {
	wait := every - time.Duration(now.UnixNano())%every
	if wait < every/2 {
		wait += every
	}
	return wait
}

// Below is d, rounded down to a multiple of Base; less than that is left as it is.
func Below(d time.Duration) time.Duration {
	if d < Base {
		return d
	}
	return d - d%Base
}

// Ticker is a time.Ticker that ticks at multiples of its interval by the machine's clock. After that was set it goes by it anew.
type Ticker struct {
	C     <-chan time.Time // capacity 1, as time.Ticker's
	every time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// NewTicker starts one; Stop ends it. every is more than 0.
func NewTicker(every time.Duration) *Ticker {
	c := make(chan time.Time, 1)
	t := &Ticker{C: c, every: every}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(Until(time.Now(), every), func() {
		now := time.Now()
		select {
		case c <- now:
		default: // the last one was not taken yet
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.stopped {
			t.timer.Reset(Until(now, every))
		}
	})
	return t
}

// Stop ends the ticks; C is not closed.
func (t *Ticker) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}
