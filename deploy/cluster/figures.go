package cluster

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/splashdam/splashdam/shared/metrics"
)

// figures are the metrics of all components of this process. Each run of a component has a registry of its
// own, since one that is started again registers the same names again; Gather puts them together, with
// a label "component".
type figures struct {
	process *prometheus.Registry // of Go and the process, once

	mu   sync.Mutex
	runs map[string]*prometheus.Registry // by component: the present run, or the last one
}

func newFigures() *figures {
	return &figures{process: metrics.NewRegistry(), runs: map[string]*prometheus.Registry{}}
}

// Gather implements prometheus.Gatherer.
func (f *figures) Gather() ([]*dto.MetricFamily, error) {
	f.mu.Lock()
	all := prometheus.Gatherers{f.process}
	for _, reg := range f.runs {
		all = append(all, reg)
	}
	f.mu.Unlock()
	return all.Gather()
}

// component gives a component's new run its registry. A gateway finds that it gathers, too, and serves the
// figures of the whole process.
func (f *figures) component(name string) prometheus.Registerer {
	reg := prometheus.NewRegistry()
	f.mu.Lock()
	f.runs[name] = reg
	f.mu.Unlock()
	return struct {
		prometheus.Registerer
		prometheus.Gatherer
	}{metrics.ForComponent(reg, name), f}
}
