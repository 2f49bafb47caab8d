package load

import (
	"context"
	"fmt"
	"time"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
)

// Wake measures how soon a long poll that waits at an empty group is answered once a message is published;
// with two servers or more the poll is at another one than the publish.
type Wake struct {
	Options `embed:""`
	Group   string        `default:"wake" help:"Group to wait in."`
	Idle    time.Duration `default:"50ms" help:"How long the poll waits before the message is sent."`
}

// waked is one answered poll.
type waked struct {
	at  time.Time
	err error
}

// Run measures round after round: a poll, a pause, a publish.
func (w *Wake) Run(ctx context.Context) (*Report, error) {
	t, err := prepare(ctx, &w.Options)
	if err != nil {
		return nil, err
	}
	r := newRun("wake", &w.Options, t, w)
	err = r.workers(ctx, 1, 0, func(ctx context.Context, _ int, rec *recorder) {
		publisher, consumer := t.conn(ctx, &w.Options, 0), t.conn(ctx, &w.Options, 1)
		defer publisher.Close()
		defer consumer.Close()
		for ctx.Err() == nil {
			if err := w.round(ctx, t, publisher, consumer, rec); err != nil && ctx.Err() == nil {
				rec.fail(err.Error())
				retryPause(ctx, 0)
			}
		}
	})
	return r.finish(ctx, "publish to delivery", w.Size, err)
}

func (w *Wake) round(ctx context.Context, t *target, publisher, consumer *wire.Conn, rec *recorder) error {
	polled := make(chan waked, 1)
	go func() { polled <- w.poll(t, consumer) }()
	pause(ctx, w.Idle)
	body := randomText(w.Size)
	start := time.Now()
	answer, err := publisher.Do(wire.Head(t.path("/messages"), "text/plain", len(body)), body)
	if err != nil || answer.Status != 201 {
		err = fmt.Errorf("publish_%s", codeOf(answer, err))
	}
	// The poll ends by its own wait when there was no publish, so this does not wait for ever.
	got := <-polled
	if err != nil {
		return err
	}
	if got.err != nil {
		return got.err
	}
	rec.done(start, got.at, 1)
	return nil
}

// poll waits for one message and acknowledges it.
func (w *Wake) poll(t *target, conn *wire.Conn) waked {
	body := []byte(`{"max":1,"wait":"10s"}`)
	answer, err := conn.Do(wire.Head(t.path("/groups/"+w.Group+"/receive"), "application/json", len(body)), body)
	at := time.Now()
	if err != nil || answer.Status != 200 {
		return waked{at, fmt.Errorf("receive_%s", codeOf(answer, err))}
	}
	receipt := wire.Field(answer.Body, "receipt")
	if receipt == "" {
		return waked{at, fmt.Errorf("receive_empty")}
	}
	answer, err = conn.Do(wire.Head("/v1/ack", "text/plain", len(receipt)), []byte(receipt))
	if err != nil || answer.Status != 200 {
		return waked{at, fmt.Errorf("ack_%s", codeOf(answer, err))}
	}
	return waked{at, nil}
}
