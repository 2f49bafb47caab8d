package store

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	lint "github.com/splashdam/splashdam/shared/metrics"
)

func TestMetricsAreClean(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	s, err := Open(testConfig(t.TempDir()), quiet, reg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if problems, err := lint.Lint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
