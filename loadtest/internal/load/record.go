package load

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
)

// window is the part of a run that counts.
type window struct{ from, to time.Time }

func windowOf(o *Options, now time.Time) window {
	from := now.Add(o.Warmup)
	return window{from, from.Add(o.Duration)}
}

func (w window) has(t time.Time) bool { return !t.Before(w.from) && t.Before(w.to) }

// open says whether there is time for another request.
func (w window) open(ctx context.Context) bool { return ctx.Err() == nil && time.Now().Before(w.to) }

// finishing is how long requests that are under way at the end of the window may go on.
const finishing = 2 * time.Second

// Latencies are recorded from 1 µs to 2 minutes with three digits; what is longer counts as that.
const longest = int64(2 * time.Minute / time.Microsecond)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, 3) }

// recorder counts for one worker, which alone uses it until the end of the run.
type recorder struct {
	window    window
	latencies *hdrhistogram.Histogram
	requests  int64
	messages  int64
	failed    map[string]int64 // by code
	last      time.Time        // of the last message in the window
}

func newRecorder(w window) *recorder {
	return &recorder{window: w, latencies: newHistogram(), failed: map[string]int64{}, last: w.from}
}

// done files a request that carried messages and was answered with success at end.
func (r *recorder) done(start, end time.Time, messages int) {
	if !r.window.has(end) {
		return
	}
	r.requests++
	r.messages += int64(messages)
	r.last = end
	r.latency(end.Sub(start))
}

func (r *recorder) latency(d time.Duration) {
	// The value is within the histogram's range, which is the only error there is.
	_ = r.latencies.RecordValue(min(max(d.Microseconds(), 1), longest))
}

// fail files what went wrong, in the warm-up too: a run with faults is no clean figure.
func (r *recorder) fail(code string) { r.failed[code]++ }

func (r *recorder) merge(other *recorder) {
	r.latencies.Merge(other.latencies)
	r.requests += other.requests
	r.messages += other.messages
	for code, n := range other.failed {
		r.failed[code] += n
	}
	if other.last.After(r.last) {
		r.last = other.last
	}
}

// codeOf names what went wrong: the code of the problem, else the status, else that there was no answer.
func codeOf(a *wire.Answer, err error) string {
	var e *wire.Error
	switch {
	case errors.As(err, &e) && e.Sent:
		return "connection_lost"
	case err != nil:
		return "not_connected"
	}
	if code := wire.Field(a.Body, "code"); code != "" {
		return code
	}
	return "http_" + strconv.Itoa(a.Status)
}
