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
	if problems, err := lint.Lint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	for name, want := range map[string]int{"splashdam_gateway_streams": 2, "splashdam_gateway_settled_receipts_total": 10} {
		if n := lint.Series(reg, name); n != want {
			t.Errorf("%d series of %s before anything happened, want %d", n, name, want)
		}
	}
}
