package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
)

// Consume receives and acknowledges: a backlog that it publishes first, or what others publish.
type Consume struct {
	Options `embed:""`
	Group   string `default:"loadtest" help:"Group to consume with."`
	Max     int    `short:"m" default:"100" help:"Messages of a receive, and of its ack."`
	Wait    string `default:"1s" help:"Long poll of a receive."`
	Prefill int    `default:"200000" help:"Messages to publish before, in batches of 1000; the run ends when they are consumed."`
}

// Run puts the load on and reports it. The rate counts from the end of the warm-up to the last message.
func (c *Consume) Run(ctx context.Context) (*Report, error) {
	if c.Max < 1 || c.Max > 10_000 || c.Prefill < 0 {
		return nil, fmt.Errorf("--max must be 1 to 10000, --prefill not negative")
	}
	t, err := prepare(ctx, &c.Options)
	if err != nil {
		return nil, err
	}
	if err := prefill(ctx, t, &c.Options, c.Prefill); err != nil {
		return nil, errors.Join(err, t.done(ctx))
	}
	if c.Prefill > 0 {
		c.Warmup = 0 // it would consume what is to be measured
	}
	r := newRun("consume", &c.Options, t, c)
	ctx2, stop := context.WithCancel(ctx)
	defer stop()
	var left atomic.Int64
	left.Store(int64(c.Prefill))
	err = r.workers(ctx2, c.Connections, 0, func(ctx context.Context, number int, rec *recorder) {
		loop := newConsumeLoop(ctx, t, c, number, rec)
		defer loop.conn.Close()
		for ctx.Err() == nil {
			n := loop.once(ctx)
			if c.Prefill > 0 && n > 0 && left.Add(-int64(n)) <= 0 {
				stop()
			}
		}
	})
	report, err := r.finish(ctx, "receive and ack", c.Size, err)
	report.fill("receive and ack", r.all, r.all.last.Sub(r.window.from).Seconds(), c.Size)
	report.Notes = nil
	return report, err
}

// consumeLoop is one connection that receives and acknowledges in turn.
type consumeLoop struct {
	conn     *wire.Conn
	receive  []byte
	body     []byte
	recorder *recorder
	head     []byte
	ack      []byte
}

func newConsumeLoop(ctx context.Context, t *target, c *Consume, number int, rec *recorder) *consumeLoop {
	body := fmt.Appendf(nil, `{"max":%d,"wait":%q}`, c.Max, c.Wait)
	return &consumeLoop{conn: t.conn(ctx, &c.Options, number), recorder: rec, body: body,
		receive: wire.Head(t.path("/groups/"+c.Group+"/receive"), "application/json", len(body))}
}

// once receives and acknowledges once and returns how many messages it was.
func (l *consumeLoop) once(ctx context.Context) int {
	start := time.Now()
	answer, err := l.conn.Do(l.receive, l.body)
	if !l.good(ctx, answer, err) {
		return 0
	}
	n := 0
	l.ack = append(l.ack[:0], `{"ack":[`...)
	wire.Fields(answer.Body, "receipt", func(receipt []byte) {
		if n > 0 {
			l.ack = append(l.ack, ',')
		}
		l.ack = append(append(append(l.ack, '"'), receipt...), '"')
		n++
	})
	if n == 0 {
		return 0
	}
	l.ack = append(l.ack, "]}"...)
	l.head = wire.AppendHead(l.head[:0], "/v1/settle", "application/json", len(l.ack))
	answer, err = l.conn.Do(l.head, l.ack)
	if !l.good(ctx, answer, err) {
		return 0
	}
	if !bytes.Contains(answer.Body, []byte(`"failed":0`)) {
		l.recorder.fail(codeOf(answer, nil))
		return 0
	}
	l.recorder.done(start, time.Now(), n)
	return n
}

func (l *consumeLoop) good(ctx context.Context, answer *wire.Answer, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if err == nil && answer.Status <= 207 {
		return true
	}
	l.recorder.fail(codeOf(answer, err))
	var after time.Duration
	if err == nil {
		after = answer.RetryAfter
	}
	retryPause(ctx, after)
	return false
}

// prefill publishes n messages over four connections. The first fault ends it.
func prefill(ctx context.Context, t *target, o *Options, n int) error {
	const batch, connections = 1000, 4
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for number := range connections {
		group.Go(func() {
			conn := t.conn(ctx, o, number)
			defer conn.Close()
			for ctx.Err() == nil {
				count := batch + min(0, int(left.Add(-batch)))
				if count <= 0 {
					return
				}
				body := batchBody(count, o.Size, 0)
				answer, err := conn.Do(wire.Head(t.path("/messages/batch"), "application/json", len(body)), body)
				if err != nil || answer.Status != 200 {
					cancel(fmt.Errorf("prefilling topic %s: %s", t.topic, codeOf(answer, err)))
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}
