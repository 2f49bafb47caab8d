package replica

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/shared/metrics"
)

func TestMetricsAreClean(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	NewMetrics(reg)
	if problems, err := metrics.Lint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
