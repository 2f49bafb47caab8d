package replica

import "github.com/prometheus/client_golang/prometheus"

// Metrics are counted over all partitions of a node.
type Metrics struct {
	Appended, Delivered, ReadErrors, Opened, Repaired, Expired, Footers, Lost, Released, Lapsed prometheus.Counter
	// Restored are damaged copies of open segments that became what they were.
	Restored prometheus.Counter
	// Faults are partitions that were stopped, by the invariant that was broken.
	Faults *prometheus.CounterVec
	// Archived are segments that are in the archive, Unarchived those that were removed though they are not, as the disk was
	// nearly full; ArchiveErrors are uploads that failed.
	Archived, Unarchived, ArchiveErrors prometheus.Counter
	// Behind is of how many partitions etcd says less than this node has seen (rule R7).
	Behind prometheus.Gauge
	// Damaged is of how many partitions only what is left can be read here.
	Damaged prometheus.Gauge
	// Unreadable is how many sealed segments of partitions led here can't be read whole from any replica.
	Unreadable prometheus.Gauge
	// Ahead is by how many seconds the node's clock is ahead of the median of the nodes' clocks.
	Ahead prometheus.Gauge
	// Slow is 1 while the node says that its disk is slower than those of the other replicas, else 0.
	Slow prometheus.Gauge
	// Kept is how many partitions keep what retention by time would remove, because it would be too much at once.
	Kept prometheus.Gauge
	// Late is how long after its due time the first message of a released record was placed, in seconds.
	Late prometheus.Histogram
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "splashdam", Subsystem: "partition", Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	late := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "splashdam", Subsystem: "partition",
		Name: "release_lateness_seconds", Help: "How long after its due time the first schedule of a released record was placed.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)})
	reg.MustRegister(late)
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "splashdam", Subsystem: "partition", Name: name, Help: help})
		reg.MustRegister(g)
		return g
	}
	faults := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "splashdam", Subsystem: "partition", Name: "faults_total",
		Help: "Partitions that were stopped here because an invariant was broken, by which."}, []string{"invariant"})
	reg.MustRegister(faults)
	for _, name := range []string{"I1", "I2", "I3", "I4", "I5", otherInvariant} {
		faults.WithLabelValues(name) // an alert on a rise needs them at 0
	}
	return &Metrics{
		Behind:        gauge("metadata_behind", "Partitions of which etcd says less than this node has seen: they are left alone."),
		Damaged:       gauge("damaged", "Partitions that are read-only here, because no intact copy is left of what they need to go on."),
		Unreadable:    gauge("unreadable_segments", "Sealed segments of partitions led here of which something can't be read from any replica; the partitions go on."),
		Ahead:         gauge("clock_ahead_seconds", "How far this node's clock is ahead of the median of the nodes' clocks."),
		Slow:          gauge("disk_slow", "1 while this node leads nothing if others can, because its disk is slower than those of other replicas."),
		Kept:          gauge("retention_stopped", "Partitions where retention by time would remove too much at once, and has stopped."),
		Late:          late,
		Released:      counter("released_messages_total", "Schedules that were due and became messages on this node."),
		Appended:      counter("appended_messages_total", "Messages that got an offset on this node."),
		Delivered:     counter("delivered_messages_total", "Messages that were handed out by this node."),
		ReadErrors:    counter("read_errors_total", "Messages that could not be read when they were to be handed out."),
		Faults:        faults,
		Expired:       counter("expired_segments_total", "Segments that retention removed."),
		Archived:      counter("archived_segments_total", "Segments that were put into the archive and read back."),
		Unarchived:    counter("unarchived_segments_total", "Segments that were removed without being archived, as the disk was nearly full."),
		ArchiveErrors: counter("archive_errors_total", "Uploads to the archive that failed; the segment stays, and it is tried again."),
		Lapsed:        counter("lapsed_messages_total", "Messages that were past their TTL when a group should have had them."),
		Lost:          counter("lost_ranges_total", "Ranges of partitions that a leader here recorded as lost."),
		Repaired:      counter("repaired_bytes_total", "Bytes of entries that were written to make copies whole: from other nodes, and what was intact of a damaged copy."),
		Restored:      counter("restored_copies_total", "Damaged copies of open segments that became what they were before, out of what is intact of all copies."),
		Footers:       counter("derived_footers_total", "Footers that were derived by reading a sealed segment's entries again."),
		Opened:        counter("leaderships_total", "Segments that this node began to lead."),
	}
}

// otherInvariant is the label of what is none of the five of replication.
const otherInvariant = "other"

// stopped counts a partition that was stopped because of an invariant, "" for none of the five.
func (m *Metrics) stopped(invariant string) {
	if invariant == "" {
		invariant = otherInvariant
	}
	m.Faults.WithLabelValues(invariant).Inc()
}
