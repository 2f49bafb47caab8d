package coordinator

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/coordinator/internal/seal"
)

// figures are the coordinator's metrics.
type figures struct {
	leads     prometheus.Gauge
	openings  *prometheus.CounterVec // by reason
	failovers prometheus.Counter
	waiting   prometheus.Gauge
	rounds    prometheus.Histogram
	looks     prometheus.Counter
	lacking   prometheus.Gauge
	// assignments counts what was written, reassigned the partitions that left a living owner by it.
	assignments, reassigned prometheus.Counter
}

func newFigures(reg prometheus.Registerer) (*figures, error) {
	f := &figures{
		leads: prometheus.NewGauge(prometheus.GaugeOpts{Name: "splashdam_coordinator_leads",
			Help: "1 while this coordinator holds the controller's lease."}),
		openings: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "splashdam_coordinator_openings_total",
			Help: "Segments opened, by the reason."}, []string{"reason"}),
		failovers: prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_coordinator_failovers_total",
			Help: "Openings that gave a partition another leader than before."}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "splashdam_coordinator_waiting_partitions",
			Help: "Partitions that need their next segment and can't have it yet."}),
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "splashdam_coordinator_seal_seconds",
			Help:    "From the probe to the end of the transaction, for a batch of partitions.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 12)}),
		looks: prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_coordinator_looks_total",
			Help: "Requests to look at the cluster now."}),
		lacking: prometheus.NewGauge(prometheus.GaugeOpts{Name: "splashdam_coordinator_lost_replicas",
			Help: "Replicas of sealed segments on nodes that are lost or draining."}),
		assignments: prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_coordinator_assignments_total",
			Help: "New assignments of partitions to the members of a group."}),
		reassigned: prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_coordinator_reassigned_partitions_total",
			Help: "Partitions that were taken from a living member by an assignment."}),
	}
	for _, reason := range seal.Reasons() {
		f.openings.WithLabelValues(string(reason)) // an alert on a rise needs them at 0
	}
	if reg == nil {
		return f, nil
	}
	for _, c := range f.all() {
		if err := reg.Register(c); err != nil {
			f.unregister(reg)
			return nil, fmt.Errorf("coordinator: metrics: %w", err)
		}
	}
	return f, nil
}

func (f *figures) all() []prometheus.Collector {
	return []prometheus.Collector{f.leads, f.openings, f.failovers, f.waiting, f.rounds, f.looks, f.lacking, f.assignments, f.reassigned}
}

// unregister lets the same registry serve a later start in the same process.
func (f *figures) unregister(reg prometheus.Registerer) {
	if reg == nil {
		return
	}
	for _, c := range f.all() {
		reg.Unregister(c)
	}
}
