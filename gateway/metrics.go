package gateway

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/shared/frame"
)

// metrics are the gateway's own figures.
type metrics struct {
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	published prometheus.Counter
	publishB  prometheus.Counter
	received  prometheus.Counter
	returned  prometheus.Counter
	settled   *prometheus.CounterVec
	streams   *prometheus.GaugeVec
}

// The kinds of streams.
const (
	streamEvents = "sse"
	streamSocket = "websocket"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "splashdam_gateway_requests_total",
			Help: "HTTP requests by route and status."}, []string{"method", "route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "splashdam_gateway_request_duration_seconds",
			Help:    "Time from the handler's begin to the end of its answer, long polls included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"method", "route"}),
		published: prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_gateway_published_messages_total",
			Help: "Messages whose publish was acknowledged."}),
		publishB: prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_gateway_published_bytes_total",
			Help: "Bytes of batches whose publish was acknowledged, as stored."}),
		received: prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_gateway_received_messages_total",
			Help: "Messages handed to consumers."}),
		returned: prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_gateway_returned_handovers_total",
			Help: "Hand-overs given back because the consumer was gone before its answer was written."}),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "splashdam_gateway_settled_receipts_total",
			Help: "Receipts settled by act and result."}, []string{"act", "result"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "splashdam_gateway_streams",
			Help: "Open streams of messages by kind."}, []string{"kind"}),
	}
	// What may be alarmed on is there before it first happens: a rise from nothing is none for Prometheus.
	for _, kind := range [...]string{streamEvents, streamSocket} {
		m.streams.WithLabelValues(kind)
	}
	for _, act := range actNames[frame.OutcomeAck:] {
		for _, result := range settleResults {
			m.settled.WithLabelValues(act, result)
		}
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.seconds, m.published, m.publishB, m.received, m.returned, m.settled, m.streams)
	}
	return m
}

// clock adds how the gateway's clock does.
func (m *metrics) clock(reg prometheus.Registerer, c *nodeTime) {
	if reg != nil {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "splashdam_gateway_clock_ahead_seconds",
			Help: "How far this gateway's clock is ahead of the time by which the log nodes decide."}, func() float64 { return c.ahead().Seconds() }))
	}
}

// statusCounters keeps a route's counters by status, so that a call costs no look-up by label.
type statusCounters struct {
	vec  *prometheus.CounterVec
	byNo [600]atomic.Pointer[prometheus.Counter]
}

func newStatusCounters(vec *prometheus.CounterVec) *statusCounters { return &statusCounters{vec: vec} }

func (s *statusCounters) count(status int) {
	if status < 0 || status >= len(s.byNo) {
		status = 0
	}
	c := s.byNo[status].Load()
	if c == nil {
		made := s.vec.WithLabelValues(strconv.Itoa(status))
		c = &made
		s.byNo[status].Store(c)
	}
	(*c).Inc()
}
