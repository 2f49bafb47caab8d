package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
	"github.com/splashdam/splashdam/shared/api"
)

// Seek measures how long a group's seek to a random time takes, in a topic that is filled before. The seeks are dry runs but for one
// in ten, which is a change with its commit.
type Seek struct {
	Options `embed:""`
	Group   string `default:"seek" help:"Group that seeks."`
	Prefill int    `default:"10000000" help:"Messages to publish before, in batches of 1000."`
}

// Run fills the topic and seeks in it, one connection after another's answer.
func (s *Seek) Run(ctx context.Context) (*Report, error) {
	if s.Prefill < 1 {
		return nil, errors.New("--prefill must be at least 1")
	}
	t, err := prepare(ctx, &s.Options)
	if err != nil {
		return nil, err
	}
	first := time.Now()
	err = prefill(ctx, t, &s.Options, s.Prefill)
	last := time.Now()
	if err == nil {
		_, err = t.client.PutGroup(ctx, t.topic, s.Group, api.GroupInput{})
	}
	if err != nil {
		return nil, errors.Join(err, t.done(ctx))
	}
	r := newRun("seek", &s.Options, t, s)
	err = r.workers(ctx, s.Connections, 0, func(ctx context.Context, number int, rec *recorder) {
		conn := t.conn(ctx, &s.Options, number)
		defer conn.Close()
		for n := 0; ctx.Err() == nil; n++ {
			query := "?dry_run=true"
			if n%10 == 0 {
				query = ""
			}
			to := first.Add(rand.N(last.Sub(first))).UTC().Format(time.RFC3339Nano)
			body := fmt.Appendf(nil, `{"to":{"time":%q}}`, to)
			start := time.Now()
			answer, err := conn.Do(wire.Head(t.path("/groups/"+s.Group+"/seek"+query), "application/json", len(body)), body)
			if err != nil || answer.Status != 200 {
				if ctx.Err() == nil {
					rec.fail(codeOf(answer, err))
					retryPause(ctx, 0)
				}
				continue
			}
			rec.done(start, time.Now(), 1)
		}
	})
	return r.finish(ctx, "seek by time", s.Size, err)
}
