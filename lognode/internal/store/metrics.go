package store

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the store's, all named splashdam_store_*.
type metrics struct {
	reg          prometheus.Registerer
	collectors   []prometheus.Collector
	badgerErrors atomic.Int64

	commitSeconds prometheus.Histogram
	groupEntries  prometheus.Histogram
	entries       prometheus.Counter
	bytes         prometheus.Counter
	refused       prometheus.Counter
	damaged       prometheus.Counter
	torn          prometheus.Counter
	marksLost     prometheus.Counter
	rolled        prometheus.Counter
	removed       prometheus.Counter
	compacted     prometheus.Counter
}

func newMetrics(s *Store) *metrics {
	m := &metrics{}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_store_" + name, Help: help})
		m.collectors = append(m.collectors, c)
		return c
	}
	gauge := func(name, help string, f func() float64) {
		m.collectors = append(m.collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "splashdam_store_" + name, Help: help}, f))
	}
	m.commitSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "splashdam_store_commit_seconds", Help: "Time of a group commit, synced.",
		Buckets: prometheus.ExponentialBuckets(0.0002, 2, 15),
	})
	m.groupEntries = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "splashdam_store_commit_entries", Help: "Entries in a group commit.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 14),
	})
	m.collectors = append(m.collectors, m.commitSeconds, m.groupEntries)
	m.entries = counter("entries_total", "Entries synced.")
	m.bytes = counter("entry_bytes_total", "Bytes of entries synced.")
	m.refused = counter("entries_refused_total", "Queued entries that were answered with an error.")
	m.damaged = counter("damage_total", "Damage found: segments at opening, entries by reads.")
	m.torn = counter("torn_entries_total", "Entries cut at opening because they were torn and never acknowledged.")
	m.marksLost = counter("ledger_damage_total", "Damaged places found in the ledger.")
	m.rolled = counter("volumes_rolled_total", "Volumes filled.")
	m.removed = counter("volumes_removed_total", "Volumes removed.")
	m.compacted = counter("volumes_compacted_total", "Times that living rests were copied forward.")
	gauge("badger_errors", "Errors that Badger logged since opening.", func() float64 { return float64(m.badgerErrors.Load()) })
	gauge("queue_bytes", "Bytes of entries queued or being committed.", func() float64 { return float64(s.queue.waiting()) })
	gauge("queue_seconds", "How long the oldest of the entries that are queued or being committed has waited.", func() float64 { return s.Waited().Seconds() })
	gauge("disk_used_share", "Used share of the disk.", func() float64 { return s.space.used() })
	gauge("volumes", "Volumes on disk.", func() float64 {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return float64(len(s.volumes))
	})
	gauge("segments", "Segments held.", func() float64 {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return float64(len(s.segments))
	})
	return m
}

func (m *metrics) committed(took time.Duration, entries, bytes int64) {
	m.commitSeconds.Observe(took.Seconds())
	m.groupEntries.Observe(float64(entries))
	m.entries.Add(float64(entries))
	m.bytes.Add(float64(bytes))
}

// register adds the metrics to reg, if there is one; on an error none stays registered.
func (m *metrics) register(reg prometheus.Registerer) error {
	if reg == nil {
		return nil
	}
	for i, c := range m.collectors {
		if err := reg.Register(c); err != nil {
			for _, done := range m.collectors[:i] {
				reg.Unregister(done)
			}
			return fmt.Errorf("store: %w", err)
		}
	}
	m.reg = reg
	return nil
}

func (m *metrics) unregister() {
	if m.reg == nil {
		return
	}
	for _, c := range m.collectors {
		m.reg.Unregister(c)
	}
}
