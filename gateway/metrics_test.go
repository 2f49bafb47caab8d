package gateway

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	lint "github.com/splashdam/splashdam/shared/metrics"
)

// What the gateway counts is named and described as Prometheus wants it.
func TestMetricsAreClean(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	m.requests.WithLabelValues("GET", "/livez", "200").Inc() // a vector shows once it was used
	m.seconds.WithLabelValues("GET", "/livez").Observe(1)
	m.settled.WithLabelValues("ack", "ok").Inc()
	m.streams.WithLabelValues("sse").Inc()
	if problems, err := lint.Lint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
