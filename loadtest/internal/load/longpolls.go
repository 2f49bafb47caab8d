package load

import (
	"bytes"
	"context"
	"time"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
)

// LongPolls holds --connections long polls open that get nothing; with --pid the CPU time that this costs
// the servers is reported. Latencies are how much later than its wait a poll was answered.
type LongPolls struct {
	Options `embed:""`
	Group   string        `default:"idle" help:"Group to wait in."`
	Wait    time.Duration `default:"30s" help:"Long poll of a receive."`
	Ramp    time.Duration `default:"5s" help:"Time over which the polls begin, so that they don't end all at once."`
}

// Run waits.
func (l *LongPolls) Run(ctx context.Context) (*Report, error) {
	t, err := prepare(ctx, &l.Options)
	if err != nil {
		return nil, err
	}
	r := newRun("longpolls", &l.Options, t, l)
	body := []byte(`{"wait":"` + l.Wait.String() + `"}`)
	head := wire.Head(t.path("/groups/"+l.Group+"/receive"), "application/json", len(body))
	timeout := l.Options
	timeout.Timeout = max(l.Timeout, l.Wait+10*time.Second)
	err = r.workers(ctx, l.Connections, 0, func(ctx context.Context, number int, rec *recorder) {
		pause(ctx, l.Ramp*time.Duration(number)/time.Duration(l.Connections))
		conn := t.conn(ctx, &timeout, number)
		defer conn.Close()
		for ctx.Err() == nil {
			start := time.Now()
			answer, err := conn.Do(head, body)
			if ctx.Err() != nil {
				return
			}
			if err != nil || answer.Status != 200 {
				rec.fail(codeOf(answer, err))
				retryPause(ctx, 0)
				continue
			}
			if bytes.Contains(answer.Body, []byte(`"receipt"`)) {
				rec.fail("message_received")
			}
			rec.done(start.Add(l.Wait), time.Now(), 0)
		}
	})
	return r.finish(ctx, "late by", 0, err)
}
