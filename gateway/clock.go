package gateway

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// nodeTime is the time by which log nodes decide, as far as they told this gateway. Where the gateway's own clock is off it goes by
// theirs: whether a time has passed is not decided by a clock that nobody else has. nil and the zero value know the own one only.
type nodeTime struct {
	log   *slog.Logger
	began time.Time

	known  atomic.Bool
	learnt chan struct{} // closed when known; nil in the zero value
	offset atomic.Int64  // from what has passed since began to the nodes' time, nanoseconds
	off    atomic.Bool   // the own clock is too far from it, and that was logged

	mu sync.Mutex
	of map[string]nodeClock // by the node's name
}

// nodeClock is what one node said last.
type nodeClock struct{ at, offset int64 } // at: since began

const (
	// clockOld is when a node is forgotten that tells its time no longer, while others do.
	clockOld = int64(time.Minute)
	// firstWord is how long a start, or a call that can do without, waits for the nodes' time. A node that was just started does not
	// know it for as long.
	firstWord = 2 * time.Second
)

func newNodeTime(log *slog.Logger) *nodeTime {
	return &nodeTime{log: log, began: time.Now(), learnt: make(chan struct{}), of: map[string]nodeClock{}}
}

// told takes the time that a node tells (Unix nanoseconds). The way takes milliseconds, which don't matter here.
func (c *nodeTime) told(node string, at int64) {
	now := time.Now()
	passed := int64(now.Sub(c.began))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[node] = nodeClock{at: passed, offset: at - passed}
	var all []int64
	for name, x := range c.of {
		if passed-x.at > clockOld {
			delete(c.of, name)
			continue
		}
		all = append(all, x.offset)
	}
	own := now.UnixNano() - passed
	median := mq.Median(all, own)
	c.offset.Store(median)
	if !c.known.Swap(true) {
		close(c.learnt)
	}
	ahead := time.Duration(own - median)
	if off := ahead.Abs() > mq.MaxSkew; off != c.off.Swap(off) {
		c.log.Warn("this gateway's clock beside the log nodes', by which it decides where its own is off", "ahead", ahead, "off", off)
	}
}

// now is the time.
func (c *nodeTime) now() time.Time {
	own := time.Now()
	if ahead := c.aheadAt(own); ahead.Abs() > mq.MaxSkew {
		return own.Round(0).Add(-ahead)
	}
	return own
}

// ahead is by how much the own clock is ahead of the nodes' time, negative if it is behind; 0 while no node told.
func (c *nodeTime) ahead() time.Duration { return c.aheadAt(time.Now()) }

func (c *nodeTime) aheadAt(own time.Time) time.Duration {
	if c == nil || !c.known.Load() {
		return 0
	}
	return time.Duration(own.UnixNano() - c.offset.Load() - int64(own.Sub(c.began)))
}

// knowTime waits until a node has told its time, or ctx ends: for what others will act upon, or what can't be mended, and what a clock
// that is an hour off must not decide. Streams are opened when they are needed, so it opens them.
func (g *Gateway) knowTime(ctx context.Context) error {
	if g.clock.known.Load() {
		return nil
	}
	changes, cancel := g.view.Subscribe()
	defer cancel()
	for {
		for _, n := range g.view.Nodes() {
			_, _ = g.router.ControlNode(n.Name) // connects; which of them can't be reached does not matter
		}
		select {
		case <-g.clock.learnt:
			return nil
		case <-changes:
		case <-ctx.Done():
			return mqerr.New(mqerr.NoLeader, "no log node has told yet what time it is")
		}
	}
}

// awaitTime is knowTime for what goes on without, by the own clock, rather than fail while no node can be reached.
func (g *Gateway) awaitTime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstWord)
	defer cancel()
	_ = g.knowTime(ctx)
}
