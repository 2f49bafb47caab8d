package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
	"github.com/splashdam/splashdam/shared/api"
)

// Webhook publishes batches and measures how soon, and how many a second, reach an endpoint in this process over
// a webhook. With a rate beyond what webhooks can do a backlog grows, and messages a second is what they can do.
type Webhook struct {
	Options  `embed:""`
	Rate     float64       `default:"1000" help:"Messages a second."`
	Batch    int           `short:"b" default:"20" help:"Messages of a publish."`
	InFlight int           `name:"in-flight" default:"64" help:"The webhook's max_in_flight."`
	Answer   time.Duration `help:"How long the endpoint takes to answer."`
	Ordering string        `enum:"none,key" default:"none" help:"The webhook's ordering: none or key."`
	Keys     int           `default:"0" help:"Keys of the messages; 0: none."`
}

// Run publishes and receives.
func (w *Webhook) Run(ctx context.Context) (*Report, error) {
	if w.Rate <= 0 || w.Batch < 1 || w.Batch > 10_000 || w.Keys < 0 {
		return nil, fmt.Errorf("--rate must be more than 0, --batch 1 to 10000, --keys not less than 0")
	}
	t, err := prepare(ctx, &w.Options)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	private := true
	_, err = t.client.CreateWebhook(ctx, t.topic, "load", api.WebhookInput{URL: "http://" + ln.Addr().String() + "/", MaxInFlight: &w.InFlight,
		Ordering: &w.Ordering, AllowPrivate: &private, Start: &api.StartInput{At: "earliest"}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the webhook: %w", err), ln.Close(), t.done(ctx))
	}
	r := newRun("webhook", &w.Options, t, w)
	const publishers = 2
	err = r.workers(ctx, publishers+1, 0, func(ctx context.Context, number int, rec *recorder) {
		var err error
		if number == publishers {
			err = w.endpoint(ctx, ln, rec)
		} else {
			err = w.publish(ctx, t, number, publishers, rec)
		}
		if err != nil && ctx.Err() == nil {
			rec.fail(err.Error())
		}
	})
	if about, aboutErr := t.client.Webhook(context.WithoutCancel(ctx), t.topic, "load"); aboutErr == nil {
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("left at the end: %d; dead: %d", about.Lag, about.Dead))
	}
	return r.finish(ctx, "publish to endpoint", w.Size, err)
}

// endpoint answers every request until ctx ends.
func (w *Webhook) endpoint(ctx context.Context, ln net.Listener, rec *recorder) error {
	var mu sync.Mutex // the recorder is for one
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		at := time.Now()
		pause(r.Context(), w.Answer)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			rec.fail("body")
			return
		}
		text, _, _ := strings.Cut(string(body), " ")
		nanos, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			rec.fail("not_ours")
			return
		}
		rec.done(time.Unix(0, nanos), at, 1)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	<-ctx.Done()
	err := server.Close()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// publish publishes this worker's share of the batches.
func (w *Webhook) publish(ctx context.Context, t *target, number, publishers int, rec *recorder) error {
	conn := t.conn(ctx, &w.Options, number)
	defer conn.Close()
	due := newPace(w.Rate/float64(w.Batch), publishers, number, time.Now())
	for n := 0; ctx.Err() == nil; {
		due.next(ctx)
		batch := api.PublishBatch{Messages: make([]api.PublishItem, w.Batch)}
		for i := range batch.Messages {
			value, err := json.Marshal(string(stamped(w.Size, time.Now())))
			if err != nil {
				return err
			}
			batch.Messages[i].Value = value
			if w.Keys > 0 {
				key := strconv.Itoa(n % w.Keys)
				batch.Messages[i].Key = &key
			}
			n++
		}
		body, err := json.Marshal(batch)
		if err != nil {
			return err
		}
		answer, err := conn.Do(wire.Head(t.path("/messages/batch"), "application/json", len(body)), body)
		if ctx.Err() == nil && (err != nil || answer.Status != 200) {
			rec.fail("publish_" + codeOf(answer, err))
			retryPause(ctx, 0)
		}
	}
	return nil
}
