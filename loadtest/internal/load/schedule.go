package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// Schedule publishes messages that are all due at one moment, and measures how late each is released and comes. An early
// one is an error.
type Schedule struct {
	Options  `embed:""`
	Group    string        `default:"schedule" help:"Group that receives them."`
	Messages int           `short:"n" default:"10000" help:"Messages that are due."`
	Ahead    time.Duration `default:"10s" help:"How long before they are due they begin to be published."`
	Spread   time.Duration `default:"0s" help:"Due evenly over so long a time, instead of at one moment."`
}

// Bounds of the mode.
const (
	scheduleBatch  = 1000
	mostDue        = 1_000_000 // their due times are kept
	scheduledAfter = 60 * time.Second
)

// Validate is called by the parser of the command line.
func (s *Schedule) Validate() error {
	switch {
	case s.Messages < 1 || s.Messages > mostDue:
		return fmt.Errorf("--messages must be 1 to %d", mostDue)
	case s.Ahead <= 0 || s.Spread < 0:
		return fmt.Errorf("--ahead must be more than 0s, --spread not less")
	}
	return s.Options.Validate()
}

// arrivals is what came so far.
type arrivals struct {
	mu                sync.Mutex
	due               map[string]time.Time // by id, of what has not come
	release, delivery *recorder
	early             int64
	whole             context.CancelFunc // all came
}

// Run schedules, waits and receives.
func (s *Schedule) Run(ctx context.Context) (*Report, error) {
	t, err := prepare(ctx, &s.Options)
	if err != nil {
		return nil, err
	}
	s.Warmup, s.Duration = 0, s.Ahead+s.Spread+scheduledAfter
	r := newRun("schedule", &s.Options, t, s)
	a := &arrivals{due: make(map[string]time.Time, s.Messages), release: r.all, delivery: newRecorder(r.window)}
	err = s.publish(ctx, t, a, r.start.Add(s.Ahead))
	if took := time.Since(r.start); err == nil && took > s.Ahead {
		err = fmt.Errorf("publishing took %s, more than --ahead", took.Round(time.Millisecond))
	}
	if err == nil {
		s.receive(ctx, t, a)
	}
	if r.report.Incomplete = len(a.due) > 0; !r.report.Incomplete {
		r.window.to = time.Now() // that is the end of the run
	}
	report, err := r.finish(ctx, "due to release", s.Size, err)
	report.Latency["due to delivery"] = summary(a.delivery.latencies)
	report.Notes = append(report.Notes, fmt.Sprintf("%d messages were early, %d did not come", a.early, len(a.due)))
	if a.early > 0 {
		err = errors.Join(err, fmt.Errorf("%d messages were early", a.early))
	}
	return report, err
}

func (s *Schedule) publish(ctx context.Context, t *target, a *arrivals, due time.Time) error {
	for from := 0; from < s.Messages; from += scheduleBatch {
		batch := make([]client.Message, min(scheduleBatch, s.Messages-from))
		partition := rand.Uint32N(s.Partitions)
		for i := range batch {
			at := due.Add(s.Spread * time.Duration(from+i) / time.Duration(s.Messages))
			batch[i] = client.Message{Value: randomText(s.Size), DeliverAt: at, Partition: &partition}
		}
		results, err := t.client.PublishBatch(ctx, t.topic, batch)
		if err != nil {
			return err
		}
		for i, r := range results {
			if r.Err != nil {
				return r.Err
			}
			a.due[r.ID] = batch[i].DeliverAt
		}
	}
	return nil
}

// receive receives with all connections until everything came, or long after it was due.
func (s *Schedule) receive(ctx context.Context, t *target, a *arrivals) {
	ctx, a.whole = context.WithTimeout(ctx, s.Ahead+s.Spread+scheduledAfter)
	defer a.whole()
	var group sync.WaitGroup
	for range s.Connections {
		group.Go(func() {
			for ctx.Err() == nil {
				got, err := t.client.Receive(ctx, t.topic, s.Group, api.ReceiveRequest{Max: scheduleBatch, Wait: api.Duration(10 * time.Second)})
				if err == nil && len(got) > 0 {
					err = s.settle(ctx, t, got, a.came(got, time.Now()))
				}
				if err != nil && ctx.Err() == nil {
					a.failed(err)
					retryPause(ctx, 0)
				}
			}
		})
	}
	group.Wait()
}

func (s *Schedule) settle(ctx context.Context, t *target, got []client.Delivery, all bool) error {
	receipts := make([]string, len(got))
	for i := range got {
		receipts[i] = got[i].Receipt
	}
	_, err := t.client.Settle(ctx, api.SettleRequest{Ack: receipts})
	if all {
		return nil
	}
	return err
}

// came files what came at a moment, and says whether nothing is missing.
func (a *arrivals) came(got []client.Delivery, now time.Time) (all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.release.requests++
	for i := range got {
		due, ok := a.due[got[i].ID]
		if !ok {
			continue // it came before, or is another run's
		}
		delete(a.due, got[i].ID)
		if got[i].Timestamp.Before(due) || now.Before(due) {
			a.early++
		}
		a.release.messages++
		a.release.latency(got[i].Timestamp.Sub(due))
		a.delivery.latency(now.Sub(due))
	}
	if len(a.due) == 0 {
		a.whole()
	}
	return len(a.due) == 0
}

func (a *arrivals) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var problem *client.Error
	code := "not_connected"
	if errors.As(err, &problem) {
		code = problem.Code
	}
	a.release.fail(code)
}
