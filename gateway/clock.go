package gateway

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// nodeTime is the time by which log nodes decide, as far as they told this gateway. Where the gateway's own clock is off it goes by
// theirs: whether a time has passed is not decided by a clock that nobody else has. nil and the zero value know the own one only.
type nodeTime struct {
	log   *slog.Logger
	began time.Time

	known  atomic.Bool
	offset atomic.Int64 // from what has passed since began to the nodes' time, nanoseconds
	off    atomic.Bool  // the own clock is too far from it, and that was logged

	mu sync.Mutex
	of map[string]nodeClock // by the node's name
}

// nodeClock is what one node said last.
type nodeClock struct{ at, offset int64 } // at: since began

const (
	// clockOld is when a node is forgotten that tells its time no longer, while others do.
	clockOld = int64(time.Minute)
)

func newNodeTime(log *slog.Logger) *nodeTime {
	return &nodeTime{log: log, began: time.Now(), of: map[string]nodeClock{}}
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
	c.known.Store(true)
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
