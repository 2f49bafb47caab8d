package seal

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

const (
	restFirst = int64(time.Second)      // a segment is left alone that long after its opening,
	restMost  = int64(60 * time.Second) // doubling up to that for seals without progress
	degraded  = int64(10 * time.Second) // how long a replica is missing before it is replaced
	retryMost = int64(2 * time.Second)  // between tries that did not get as far as a new segment
)

// History is what the controller remembers of a partition; the zero value is "nothing".
type History struct {
	Segment  mq.SegmentID // the open segment that the rest is about
	Opened   int64        // when it was opened, 0 if before this controller's time
	Idle     int          // seals in a row whose segment was empty
	Tries    int          // tries in a row that did not open a segment
	RetryAt  int64        // not before that
	Degraded int64        // since when a replica is missing, 0 if none is
	Vain     int          // seals in a row for better replicas
}

// Watched is the history with what the cluster shows now of the replicas that a partition lacks. Once it has lacked none for as
// long as it would have waited for better ones, what came of the seals before does not count.
func (h History) Watched(head *mq.Head, c *Cluster) History {
	switch lacking := Degraded(head, c); {
	case !lacking:
		h.Degraded = 0
		if h.Vain > 0 && c.Now >= h.Opened+h.vainRest() && !replaceable(head, c) {
			h.Vain = 0
		}
	case h.Degraded == 0:
		h.Degraded = c.Now
	}
	return h
}

// vainRest is how long after its opening a segment is not sealed for better replicas, as the seals before did not bring them: some
// node answers, and for some reason never becomes a replica, or one that works.
func (h History) vainRest() int64 {
	if h.Vain < 2 {
		return 0
	}
	return degraded << min(h.Vain-2, 6)
}

// Failed is the history after a try that opened nothing.
func (h History) Failed(now int64) History {
	h.RetryAt = now + min(int64(100*time.Millisecond)<<min(h.Tries, 8), retryMost)
	h.Tries++
	return h
}

// Moved is the history after the opening of next in place of old (nil for a partition's first segment), for a reason.
func (h History) Moved(now int64, reason Reason, old, next *mq.Segment) History {
	idle, vain := 0, h.Vain
	if old != nil && old.Base == next.Base {
		idle = h.Idle + 1
	}
	if reason == Redundancy {
		vain++
	}
	return History{Segment: next.ID, Opened: now, Idle: idle, Vain: vain}
}

// rest is until when the open segment is left alone.
func (h History) rest() int64 {
	if h.Opened == 0 {
		return 0
	}
	return h.Opened + min(restFirst<<min(h.Idle, 6), restMost)
}
