package load

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/splashdam/splashdam/loadtest/checker"
)

// Report is the outcome of a run, as it is written to --json.
type Report struct {
	Mode        string             `json:"mode"`
	Started     time.Time          `json:"started"`
	Seconds     float64            `json:"seconds"` // measured
	Servers     []string           `json:"servers"`
	Topic       string             `json:"topic"`
	Options     any                `json:"options"`
	Requests    int64              `json:"requests"`
	Messages    int64              `json:"messages"`
	MessageRate float64            `json:"messages_per_second"`
	ByteRate    float64            `json:"value_bytes_per_second"`
	Latency     map[string]Latency `json:"latency"` // by what is measured
	Failed      map[string]int64   `json:"failed,omitempty"`
	CPU         float64            `json:"server_cores,omitempty"` // CPU time of --pid per second
	Check       *checker.Report    `json:"check,omitempty"`
	Rebalance   []Rebalanced       `json:"rebalance,omitempty"`
	Incomplete  bool               `json:"incomplete,omitempty"` // messages were left that nobody acknowledged
	Notes       []string           `json:"notes,omitempty"`
}

// Latency is a summary of latencies, in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

func summary(h *hdrhistogram.Histogram) Latency {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return Latency{Count: h.TotalCount(), Mean: h.Mean() / 1000, P50: ms(h.ValueAtQuantile(50)), P90: ms(h.ValueAtQuantile(90)),
		P99: ms(h.ValueAtQuantile(99)), P999: ms(h.ValueAtQuantile(99.9)), Max: ms(h.Max())}
}

// fill takes over what the workers recorded within seconds.
func (r *Report) fill(what string, all *recorder, seconds float64, size int) {
	r.Seconds, r.Requests, r.Messages, r.Failed = seconds, all.requests, all.messages, all.failed
	if seconds > 0 {
		r.MessageRate = float64(all.messages) / seconds
		r.ByteRate = r.MessageRate * float64(size)
	}
	r.Latency = map[string]Latency{what: summary(all.latencies)}
}

// WriteTable writes the report for people, at most 80 columns wide.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d messages in %.1f s: %.0f messages/s, %.1f MB/s, %d requests\n",
		r.Mode, r.Messages, r.Seconds, r.MessageRate, r.ByteRate/1e6, r.Requests)
	if r.CPU > 0 {
		fmt.Fprintf(&b, "servers: %.2f cores\n", r.CPU)
	}
	fmt.Fprintf(&b, "\n%-20s %9s %9s %9s %9s %9s %9s\n", "latency in ms", "mean", "p50", "p90", "p99", "p99.9", "max")
	for _, what := range slices.Sorted(maps.Keys(r.Latency)) {
		l := r.Latency[what]
		fmt.Fprintf(&b, "%-20s %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f\n", what, l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	if len(r.Failed) > 0 {
		b.WriteString("\nfailed\n")
		codes := slices.SortedFunc(maps.Keys(r.Failed), func(x, y string) int {
			return cmp.Or(cmp.Compare(r.Failed[y], r.Failed[x]), cmp.Compare(x, y))
		})
		for _, code := range codes {
			fmt.Fprintf(&b, "  %-30s %9d\n", code, r.Failed[code])
		}
	}
	if len(r.Rebalance) > 0 {
		writeRebalance(&b, r.Rebalance)
	}
	if r.Check != nil {
		writeCheck(&b, r.Check)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\nnote: %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCheck(b *strings.Builder, c *checker.Report) {
	verdict := "every promise was kept"
	if n := c.Violations(); n > 0 {
		verdict = fmt.Sprintf("%d VIOLATIONS", n)
	}
	fmt.Fprintf(b, "\ncheck: %s\n", verdict)
	allowed := ""
	if c.Disturbed {
		allowed = " (allowed: disturbed)"
	}
	for _, row := range []struct {
		name string
		n    int
		note string
	}{
		{"sent", c.Sent, ""}, {"stored", c.Stored, ""}, {"refused", c.Refused, ""}, {"outcome unknown", c.Unknown, ""},
		{"delivered", c.Delivered, ""}, {"redelivered", c.Redelivered, ""}, {"copies", c.Copies, ""},
		{"acknowledged", c.Acked, ""}, {"of other runs", c.Foreign, ""}, {"not settled", c.Unsettled, ""},
		{"lost", c.Lost, ""}, {"phantoms", c.Phantom, ""}, {"damaged", c.Damaged, ""},
		{"two values", c.TwoValues, ""}, {"acked and came back", c.CameBack, ""}, {"keys that moved", c.KeyMoved, ""},
		{"keys out of order", c.OutOfOrder, ""}, {"first twice", c.FirstTwice, allowed}, {"overtaken", c.Overtaken, allowed},
	} {
		fmt.Fprintf(b, "  %-30s %9d%s\n", row.name, row.n, row.note)
	}
	for _, text := range c.Examples {
		fmt.Fprintf(b, "  - %s\n", text)
	}
}
