package load

import (
	"context"
	"errors"
	"sync"
	"time"
)

// run is the frame of a mode: workers that record, a window, a report.
type run struct {
	target *target
	start  time.Time
	window window
	pids   []int
	report *Report
	all    *recorder
}

func newRun(mode string, o *Options, t *target, options any) *run {
	now := time.Now()
	w := windowOf(o, now)
	return &run{target: t, start: now, window: w, pids: o.PID, all: newRecorder(w),
		report: &Report{Mode: mode, Started: now.UTC(), Servers: o.Server, Topic: t.topic, Options: options}}
}

// workers runs n workers, ends their context grace after the window, and merges what they recorded. With a
// grace workers look at the time themselves and finish what is under way.
func (r *run) workers(ctx context.Context, n int, grace time.Duration, work func(ctx context.Context, number int, rec *recorder)) error {
	ctx, cancel := context.WithDeadline(ctx, r.window.to.Add(grace))
	defer cancel()
	var group sync.WaitGroup
	recorders := make([]*recorder, n)
	for i := range n {
		rec := newRecorder(r.window)
		recorders[i] = rec
		group.Go(func() { work(ctx, i, rec) })
	}
	cores, err := measureCPU(ctx, r.pids, r.window)
	group.Wait()
	r.report.CPU = cores
	for _, rec := range recorders {
		r.all.merge(rec)
	}
	return err
}

// finish makes the report and removes the topic. A run that was broken off reports what it had by then.
func (r *run) finish(ctx context.Context, what string, size int, err error) (*Report, error) {
	err = errors.Join(err, r.target.done(ctx))
	end := r.window.to
	if now := time.Now(); now.Before(end) {
		end = now
		r.report.Notes = append(r.report.Notes, "the run was broken off")
	}
	r.report.fill(what, r.all, max(end.Sub(r.window.from).Seconds(), 0), size)
	return r.report, err
}
