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
	giveBackWait = 5 * time.Second
	// A stream that ends is taken for read to its end when it has said nothing for so many turns in a row. It is several short ones,
	// because what is short of a processor has only one of them, however long it lasts: then there may be something to read.
	quietTurns = 4
	quietTurn  = 50 * time.Millisecond
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
	busy  atomic.Bool  // the reader is not reading
	quiet atomic.Int32 // turns in which it has read nothing
	over  atomic.Bool  // there are no more turns
	turn  *time.Timer
	until time.Time
	leave func() bool
}

// newLastWords calls end when the stream is over; wanted is what ends when no more is wanted while the reader waits.
func newLastWords(wanted context.Context, end func()) *lastWords {
	l := &lastWords{}
	l.turn = time.AfterFunc(time.Hour, func() {
		switch n := l.quiet.Add(1); {
		case l.over.Load():
		case n < quietTurns:
			l.turn.Reset(quietTurn)
		default:
			end()
		}
	})
	l.turn.Stop()
	l.leave = context.AfterFunc(wanted, func() {
		if !l.busy.Load() { // else it sees that by itself
			l.begin()
		}
	})
	return l
}

func (l *lastWords) begin() {
	l.quiet.Store(0)
	l.turn.Reset(quietTurn)
}

// more says whether to read on, to be called before each time once no more is wanted.
func (l *lastWords) more() bool {
	if l.until.IsZero() {
		l.until = time.Now().Add(giveBackWait)
	}
	l.begin()
	return time.Now().Before(l.until)
}

func (l *lastWords) stop() {
	l.over.Store(true)
	l.leave()
	l.turn.Stop()
}
