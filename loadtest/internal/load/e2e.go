package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
)

// E2E publishes and consumes at once and checks every promise with package checker. Servers may be killed
// and started again meanwhile (--disturbed): what was surely not stored is sent again, what may have been
// stored is tracked as such.
type E2E struct {
	Options     `embed:""`
	Group       string        `default:"checker" help:"Group to consume with."`
	Rate        float64       `default:"2000" help:"Messages a second over all connections; 0: as many as are answered."`
	Batch       int           `short:"b" default:"10" help:"Messages of a publish."`
	Consumers   int           `default:"4" help:"Connections that receive and acknowledge."`
	Max         int           `short:"m" default:"100" help:"Messages of a receive, and of its ack."`
	Lease       time.Duration `default:"30s" help:"Lease of a receive."`
	Keys        int           `default:"1000" help:"Keys; each belongs to one connection. 0: no keys."`
	NackEvery   int           `default:"0" help:"Give every n-th delivery back once, to have redeliveries; 0: none."`
	Drain       time.Duration `default:"60s" help:"How long to wait at the end for all messages to be acknowledged; more than the lease."`
	Check       bool          `help:"Exit with status 1 if a promise was broken, or messages were left at the end."`
	Disturbed   bool          `help:"Servers are killed during the run: a first delivery may come twice."`
	MaxMessages int           `default:"5000000" help:"Messages at most (the checker takes about 50 bytes each)."`
}

// quiet is how long consumers go on once everything is acknowledged, to see what comes back.
const quiet = 2 * time.Second

func (e *E2E) valid() error {
	switch {
	case e.Batch < 1 || e.Batch > 10_000 || e.Max < 1 || e.Max > 10_000:
		return errors.New("--batch and --max must be 1 to 10000")
	case e.Consumers < 1 || e.Consumers > maxConnections:
		return fmt.Errorf("--consumers must be 1 to %d", maxConnections)
	case e.Rate < 0 || e.Keys < 0 || e.Keys > 1<<16 || e.Keys > 0 && e.Keys < e.Connections:
		return errors.New("--rate must not be negative; --keys must be 0, or --connections to 65536")
	case e.MaxMessages < 1 || e.MaxMessages > 1<<28:
		return errors.New("--max-messages must be 1 to 268435456")
	case e.Size < checker.MinSize:
		return fmt.Errorf("--size must be at least %d, so that a value can name itself", checker.MinSize)
	}
	return nil
}

// e2eRun is what the workers share.
type e2eRun struct {
	*E2E
	target *target
	check  *checker.Checker
	window window
	sentAt []atomic.Int64 // by message id, nanoseconds since the start; 0: not sent
	start  time.Time
	full   atomic.Bool // MaxMessages is reached
}

// Run publishes for the duration, waits until everything is acknowledged, and judges.
func (e *E2E) Run(ctx context.Context) (*Report, error) {
	if err := e.valid(); err != nil {
		return nil, err
	}
	t, err := prepare(ctx, &e.Options)
	if err != nil {
		return nil, err
	}
	r := newRun("e2e", &e.Options, t, e)
	run := &e2eRun{E2E: e, target: t, window: r.window, start: r.start, sentAt: make([]atomic.Int64, e.MaxMessages+1),
		check: checker.New(checker.Options{Run: t.run, Fresh: t.fresh, Disturbed: e.Disturbed, MaxMessages: e.MaxMessages})}

	// A signal ends the publishing only: what is stored by then is still consumed and judged.
	consuming, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var consumers sync.WaitGroup
	delivered := make([]*recorder, e.Consumers)
	for i := range delivered {
		delivered[i] = newRecorder(r.window)
		consumers.Go(func() { run.consume(consuming, i, delivered[i]) })
	}
	err = r.workers(ctx, e.Connections, finishing, run.publish)
	drained := run.drain(consuming)
	stop()
	consumers.Wait()

	end := newRecorder(r.window)
	for _, rec := range delivered {
		end.merge(rec)
	}
	report, err := r.finish(ctx, "publish", e.Size, err)
	run.describe(report, end, drained)
	return report, err
}

// drain waits until every stored message is acknowledged and it has been quiet, or the time is up.
func (r *e2eRun) drain(ctx context.Context) bool {
	deadline := time.Now().Add(r.Drain)
	for r.check.Unacked() > 0 {
		if ctx.Err() != nil || time.Now().After(deadline) {
			return false
		}
		pause(ctx, 20*time.Millisecond)
	}
	pause(ctx, quiet)
	return r.check.Unacked() == 0
}

func (r *e2eRun) describe(report *Report, delivered *recorder, drained bool) {
	verdict := r.check.Finish()
	report.Check = &verdict
	report.Latency["publish to delivery"] = summary(delivered.latencies)
	for code, n := range delivered.failed {
		report.Failed["consumer: "+code] += n
	}
	if !drained {
		report.Incomplete = true
		report.Notes = append(report.Notes, "not everything was acknowledged when --drain had passed")
	}
	if r.full.Load() {
		report.Notes = append(report.Notes, "publishing ended early, at --max-messages")
	}
}
