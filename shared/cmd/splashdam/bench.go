package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// benchCmd publishes for a while and says how fast that was.
type benchCmd struct {
	Topic     string        `arg:"" help:"Topic; what is published stays in it."`
	Duration  time.Duration `default:"10s" help:"How long."`
	Producers int           `short:"c" default:"16" help:"Publishes at once, 1 to 1000."`
	Size      int           `default:"1024" help:"Bytes of a message."`
	Batch     int           `default:"1" help:"Messages in a publish, 1 to 10000."`
	Rate      float64       `blank:"" help:"Publishes a second; 0 and default: as many as the producers can."`
}

// benchResult is what bench shows. Latencies are those of publishes that were answered.
type benchResult struct {
	Topic     string       `json:"topic"`
	Seconds   float64      `json:"seconds"`
	Messages  int64        `json:"messages"` // that are stored
	Failed    int64        `json:"failed"`
	PerSecond float64      `json:"messages_per_second"`
	Bytes     float64      `json:"bytes_per_second"`
	P50       api.Duration `json:"p50"`
	P90       api.Duration `json:"p90"`
	P99       api.Duration `json:"p99"`
	P999      api.Duration `json:"p999"`
	Max       api.Duration `json:"max"`
	Error     string       `json:"error,omitempty"` // the first one
}

// longestLatency is what is told of a latency beyond it.
const longestLatency = 10 * time.Minute

func (b *benchCmd) Validate() error {
	switch {
	case b.Producers < 1 || b.Producers > 1000:
		return wrongUsage("--producers is 1 to 1000")
	case b.Batch < 1 || b.Batch > 10_000:
		return wrongUsage("--batch is 1 to 10000")
	case b.Size < 0 || b.Size > 16<<20 || b.Size*b.Batch > 32<<20:
		return wrongUsage("--size is 0 to 16777216, and --size times --batch at most 33554432")
	case b.Duration <= 0:
		return wrongUsage("--duration is more than 0s")
	case b.Rate < 0 || math.IsNaN(b.Rate) || math.IsInf(b.Rate, 0):
		return wrongUsage("--rate is a number of publishes a second")
	}
	return nil
}

// bench is a run.
type bench struct {
	*benchCmd
	s        *session
	start    time.Time
	next     atomic.Int64 // publishes that were begun
	stored   atomic.Int64
	failed   atomic.Int64
	messages []client.Message

	mu        sync.Mutex
	latencies *hdrhistogram.Histogram // microseconds
	first     error
}

func (b *benchCmd) Run(s *session) error {
	run := bench{benchCmd: b, s: s, start: time.Now(), messages: make([]client.Message, b.Batch),
		latencies: hdrhistogram.New(1, longestLatency.Microseconds(), 3)}
	value := make([]byte, b.Size)
	for i := range value {
		value[i] = "splashdam bench "[i%16]
	}
	for i := range run.messages {
		run.messages[i] = client.Message{Value: value, ContentType: "text/plain"}
	}
	var producers sync.WaitGroup
	for range b.Producers {
		producers.Go(run.produce)
	}
	producers.Wait()
	out := run.result(time.Since(run.start))
	if err := s.show(out, func() string { return renderBench(&out) }); err != nil {
		return err
	}
	return partly(run.first)
}

// produce publishes until the time is over. At a rate a latency counts from when its publish was due, so that a server that
// stalls is not asked less and praised for it.
func (b *bench) produce() {
	for b.s.ctx.Err() == nil {
		n := b.next.Add(1) - 1
		began := time.Now()
		if b.Rate > 0 {
			began = b.start.Add(time.Duration(float64(n) / b.Rate * float64(time.Second)))
			if wait := time.Until(began); wait > 0 && began.Sub(b.start) < b.Duration {
				b.s.wait(wait)
			}
		}
		over := n > 0 && (began.Sub(b.start) >= b.Duration || time.Since(b.start) >= b.Duration) // one is made in any case
		if over || b.s.ctx.Err() != nil {
			return
		}
		b.publish(began)
	}
}

func (b *bench) publish(began time.Time) {
	ctx, cancel := b.s.call()
	defer cancel()
	failed, err := b.send(ctx)
	took := min(time.Since(began), longestLatency)
	b.stored.Add(int64(b.Batch - failed))
	b.failed.Add(int64(failed))
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && b.first == nil {
		b.first = err
	}
	if failed < b.Batch {
		_ = b.latencies.RecordValue(max(took.Microseconds(), 1)) // it is within the bounds
	}
}

// send publishes once, and says how many messages failed and why the first one.
func (b *bench) send(ctx context.Context) (failed int, err error) {
	if b.Batch == 1 {
		if _, err := b.s.client.Publish(ctx, b.Topic, b.messages[0]); err != nil {
			return 1, err
		}
		return 0, nil
	}
	results, err := b.s.client.PublishBatch(ctx, b.Topic, b.messages)
	if err != nil {
		return b.Batch, err
	}
	for i := range results {
		if results[i].Err != nil {
			failed, err = failed+1, results[i].Err
		}
	}
	return failed, err
}

func (b *bench) result(took time.Duration) benchResult {
	at := func(q float64) api.Duration {
		return api.Duration(time.Duration(b.latencies.ValueAtQuantile(q)) * time.Microsecond)
	}
	out := benchResult{Topic: b.Topic, Seconds: took.Seconds(), Messages: b.stored.Load(), Failed: b.failed.Load(),
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: api.Duration(time.Duration(b.latencies.Max()) * time.Microsecond)}
	out.PerSecond = float64(out.Messages) / out.Seconds
	out.Bytes = out.PerSecond * float64(b.Size)
	if b.first != nil {
		out.Error = b.first.Error()
	}
	return out
}

func renderBench(r *benchResult) string {
	rows := [][2]string{
		{"stored", fmt.Sprintf("%d messages in %.1f s", r.Messages, r.Seconds)},
		{"throughput", fmt.Sprintf("%.0f messages/s, %s/s", r.PerSecond, size(uint64(r.Bytes)))},
		{"latency", fmt.Sprintf("p50 %s, p90 %s, p99 %s, p99.9 %s, max %s", span(time.Duration(r.P50)), span(time.Duration(r.P90)),
			span(time.Duration(r.P99)), span(time.Duration(r.P999)), span(time.Duration(r.Max)))},
	}
	if r.Failed > 0 {
		rows = append(rows, [2]string{"failed", fmt.Sprintf("%d messages; the first one: %s", r.Failed, oneLine(r.Error))})
	}
	return pairs(rows, 0)
}
