package push

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	lint "github.com/splashdam/splashdam/shared/metrics"
)

func TestMetricsAreClean(t *testing.T) {
	reg := prometheus.NewRegistry()
	newMetrics(reg)
	if problems, err := lint.Lint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if n := lint.Series(reg, "splashdam_gateway_webhook_attempts_total"); n != 4 {
		t.Errorf("%d results of attempts before there was one, want 4", n)
	}
}
