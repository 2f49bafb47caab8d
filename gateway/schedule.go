package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	headerDelay     = "Mq-Delay"
	headerDeliverAt = "Mq-Deliver-At"
)

// A message's time says when it is to be delivered: 0 at once, above 0 at that time (Unix nanoseconds), below 0 after
// so long by the clock of the leader that stores it.

// timeFromHeaders is the time of a raw publish.
func timeFromHeaders(h http.Header, clock *nodeTime) (int64, error) {
	delay, at := h[headerDelay], h[headerDeliverAt]
	switch {
	case len(delay)+len(at) == 0:
		return 0, nil
	case len(delay)+len(at) > 1:
		return 0, invalid("header/"+headerDelay, "one of %s and %s is given, once", headerDelay, headerDeliverAt)
	case len(delay) == 1:
		t, bad := delayTime(delay[0])
		if bad != "" {
			return 0, invalid("header/"+headerDelay, "%s", bad)
		}
		return t, nil
	}
	t, bad := clock.deliverTime(at[0])
	if bad != "" {
		return 0, invalid("header/"+headerDeliverAt, "%s", bad)
	}
	return t, nil
}

// delayTime reads a delay; bad says what is wrong with it.
func delayTime(s string) (t int64, bad string) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, "a delay looks like 30s, 5m or 24h, and not like " + quoted(s)
	case d < 0:
		return 0, "a delay is 0s or more"
	case int64(d) > mq.MaxDelay:
		return 0, "a delay is at most 8784h, which is a year"
	}
	return -int64(d), ""
}

// deliverTime reads a time; one that has passed is as good as none.
func (c *nodeTime) deliverTime(s string) (t int64, bad string) {
	at, err := time.Parse(time.RFC3339Nano, s)
	now := c.now()
	switch {
	case err != nil:
		return 0, "a time looks like 2026-12-24T18:00:00Z (RFC 3339), and not like " + quoted(s)
	case !at.After(now):
		return 0, ""
	case at.After(now.Add(time.Duration(mq.MaxDelay))):
		return 0, "a message is delivered within a year (8784h)"
	}
	return at.UnixNano(), ""
}

func quoted(s string) string {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return "\"" + s + "\""
}

// sendSchedules sends a batch of scheduled messages to its leader and takes the numbers and due times that the leader
// gave.
func (g *Gateway) sendSchedules(ctx context.Context, t meta.Topic, b *outgoing, packed []byte) error {
	p := mq.PartitionID{Topic: t.ID, Number: b.to}
	answer, err := g.sendOnce(ctx, t, func(route uint64) ([]byte, error) {
		return g.sender(b)(ctx, p, frame.TypeSchedule, &frame.Schedule{Partition: p, Route: route, Times: b.times, Batch: packed})
	})
	if err != nil {
		return err
	}
	var done frame.Scheduled
	if err := done.Parse(answer); err != nil {
		return mqerr.New(mqerr.OutcomeUnknown, "the leader's answer can't be read: %w", err)
	}
	b.times = done.Dues
	return b.took(&frame.Appended{First: done.First, Count: uint32(len(done.Dues)), Stamp: done.Stamp, Repeats: done.Repeats})
}
