package metrics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// foreign are prefixes of metrics that libraries name.
var foreign = []string{"go_", "process_", "promhttp_"}

// Lint is for tests: it gathers everything from g and answers one line per metric that is not as
// Prometheus wants it (promlint) or does not begin with Prefix. A metric without any series yet, like a
// vector that was never used, does not show; use it once before.
func Lint(g prometheus.Gatherer) ([]string, error) {
	families, err := g.Gather()
	if err != nil {
		return nil, fmt.Errorf("metrics: gather: %w", err)
	}
	var out []string
	ours := families[:0]
	for _, f := range families {
		name := f.GetName()
		if slices.ContainsFunc(foreign, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		ours = append(ours, f)
		if !strings.HasPrefix(name, Prefix) {
			out = append(out, name+": does not begin with "+Prefix)
		}
		if f.GetHelp() == "" { // promlint takes an empty text for one
			out = append(out, name+": no help text")
		}
	}
	problems, err := promlint.NewWithMetricFamilies(ours).Lint()
	if err != nil {
		return nil, fmt.Errorf("metrics: promlint: %w", err)
	}
	for _, p := range problems {
		out = append(out, p.Metric+": "+p.Text)
	}
	return out, nil
}

// Series is how many series of a name there are; 0 also where they can't be gathered. For tests, as Lint.
func Series(g prometheus.Gatherer, name string) int {
	families, _ := g.Gather() // what there is comes with the error
	for _, f := range families {
		if f.GetName() == name {
			return len(f.GetMetric())
		}
	}
	return 0
}
