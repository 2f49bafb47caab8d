package load

import (
	"context"
	"time"
)

// pace says when a connection's requests are due. In a closed loop that is at once; in an open loop the
// times are fixed beforehand, and one that has passed stays due when it was: a server that stalls is
// charged for every request that it kept from being sent (no coordinated omission).
type pace struct {
	interval time.Duration // 0: closed loop
	due      time.Time
}

// newPace spreads rate requests a second over connections, of which number is one, so that their times interleave.
func newPace(rate float64, connections, number int, start time.Time) *pace {
	if rate <= 0 {
		return &pace{}
	}
	interval := time.Duration(float64(time.Second) * float64(connections) / rate)
	return &pace{interval: max(interval, 1), due: start.Add(interval * time.Duration(number) / time.Duration(connections))}
}

// next waits until the next request is due and returns when it was.
func (p *pace) next(ctx context.Context) time.Time {
	if p.interval == 0 {
		return time.Now()
	}
	due := p.due
	p.due = due.Add(p.interval)
	pause(ctx, time.Until(due))
	return due
}
