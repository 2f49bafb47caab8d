package push

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	lint "github.com/splashdam/splashdam/shared/metrics"
)

func TestMetricsAreClean(t *testing.T) {
	reg := prometheus.NewRegistry()
	newMetrics(reg).attempts.WithLabelValues("acked").Inc()
	if problems, err := lint.Lint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
