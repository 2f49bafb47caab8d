package router

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// pace is how long to wait between the tries of one request: twice as long each time, and from the beginning again when
// the view has another segment of the partition. It may have that before its leader itself knows of it, and serves.
type pace struct {
	revision func() int64 // of the partition's head
	seen     int64
	pause    time.Duration
}

func newPace(revision func() int64) pace { return pace{revision, revision(), firstPause} }

func (r *Router) pace(p mq.PartitionID) pace {
	return newPace(func() int64 {
		h, _ := r.cfg.View.Head(p)
		return h.Revision
	})
}

func (c *pace) next() time.Duration {
	if now := c.revision(); now != c.seen {
		c.seen, c.pause = now, firstPause
	}
	pause := c.pause
	c.pause = min(2*pause, lastPause)
	return pause
}
