package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

const (
	// giveBackWait bounds what a subscription that ends waits for: its last messages, and that they are given back. What is
	// not given back by then stays leased, and counts when the lease ends.
	giveBackWait = 2 * time.Second
	// quietStream is how long a stream that ends says nothing before it is taken for read to its end.
	quietStream = 50 * time.Millisecond
)

// giveBack releases what came and nobody has begun to work on. It is called when ctx may have ended.
func (c *Client) giveBack(ctx context.Context, settle func(context.Context, api.SettleRequest) ([]error, error), all []Delivery) {
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackWait)
	defer cancel()
	var r api.SettleRequest
	for i := range all {
		r.Release = append(r.Release, all[i].Receipt)
	}
	if _, err := settle(ctx, r); err != nil {
		c.log.Warn("messages could not be given back; they come again when their leases end", "messages", len(all), "err", err)
	}
}

// lastWords ends a stream that nobody wants more of: once it says nothing for a moment, or when it goes on for too long,
// since what is settled meanwhile makes room for more.
type lastWords struct {
	busy  atomic.Bool // the reader is not reading
	timer *time.Timer
	until time.Time
	leave func() bool
}

// newLastWords calls end when the stream is over; wanted is what ends when no more is wanted while the reader waits.
func newLastWords(wanted context.Context, end func()) *lastWords {
	l := &lastWords{timer: time.AfterFunc(time.Hour, end)}
	l.timer.Stop()
	l.leave = context.AfterFunc(wanted, func() {
		if !l.busy.Load() { // else it sees that by itself
			l.timer.Reset(quietStream)
		}
	})
	return l
}

// more says whether to read on, to be called before each time once no more is wanted.
func (l *lastWords) more() bool {
	if l.until.IsZero() {
		l.until = time.Now().Add(giveBackWait)
	}
	l.timer.Reset(quietStream)
	return time.Now().Before(l.until)
}

func (l *lastWords) stop() {
	l.leave()
	l.timer.Stop()
}
