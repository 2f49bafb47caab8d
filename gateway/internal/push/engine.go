package push

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/shared/mq"
)

// Config says how an engine runs.
type Config struct {
	Gateway  string // its name, for the log of attempts
	Source   Source
	Now      func() time.Time // stamps attempts, and tells how long a pause is that an endpoint asks for until a time; nil: time.Now
	Log      *slog.Logger
	Registry prometheus.Registerer // may be nil
	// Resolver resolves the hosts of endpoints; nil for the system's.
	Resolver *net.Resolver
}

// Engine runs the webhooks of one gateway. Its methods may be called by any goroutine.
type Engine struct {
	cfg     Config
	metrics *metrics
	// makeSender is newSender, but in tests.
	makeSender func(h *Hook) attempter

	held atomic.Int64 // bytes of the values that all runners hold

	ctx    context.Context // ends what is under way
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	runners map[mq.GroupID]*runner
	stopped bool
}

// attempter makes attempts over connections of its own.
type attempter interface {
	send(ctx context.Context, h *Hook, e *event) answer
	close()
}

// New makes an engine without webhooks; Apply gives it some.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg, metrics: newMetrics(cfg.Registry), runners: map[mq.GroupID]*runner{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.makeSender = func(h *Hook) attempter {
		s := newSender(&h.Settings, h.Private && h.Settings.AllowPrivate, cfg.Resolver)
		if cfg.Now != nil {
			s.now = cfg.Now
		}
		return s
	}
	return e
}

// Apply says which webhooks there are now. Those with nothing to do here (no partitions) end after what is under
// way; so do those that are not named any more.
func (e *Engine) Apply(hooks []*Hook) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return
	}
	named := make(map[mq.GroupID]bool, len(hooks))
	for _, h := range hooks {
		if len(h.Partitions) == 0 {
			continue
		}
		named[h.GroupID] = true
		if r := e.runners[h.GroupID]; r != nil {
			if r.given != h {
				r.given = h
				r.update(h)
			}
			continue
		}
		r := newRunner(e, h)
		e.runners[h.GroupID] = r
		e.work.Go(r.run)
	}
	for id, r := range e.runners {
		if !named[id] {
			delete(e.runners, id)
			r.stop()
		}
	}
	e.metrics.running.Set(float64(len(e.runners)))
}

// Stop fetches nothing more, lets what is under way end until ctx does, settles it and frees everything.
func (e *Engine) Stop(ctx context.Context) {
	e.mu.Lock()
	e.stopped = true
	for _, r := range e.runners {
		r.stop()
	}
	e.mu.Unlock()
	done := make(chan struct{})
	go func() {
		e.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	e.cancel()
	<-done
}

// State is what a webhook does on this gateway.
type State struct {
	Serving  bool // some of its partitions are served here
	InFlight int  // attempts under way
	// Open says that the circuit breaker is open; the next probe goes out at Until, or is under way.
	Open  bool
	Until time.Time
	// Held is until when the endpoint asked to be left alone; zero if it did not.
	Held time.Time
	// Last is what the newest failed attempt found, "" if none failed since the gateway serves it.
	Last string
}

// State tells what the webhook behind a group does here.
func (e *Engine) State(group mq.GroupID) State {
	e.mu.Lock()
	r := e.runners[group]
	e.mu.Unlock()
	if r == nil {
		return State{}
	}
	return r.state()
}

// Try makes one attempt outside of any group, with connections of its own, and tells all about it.
func (e *Engine) Try(ctx context.Context, h *Hook, id string, m *mq.Message) Trial {
	s := e.makeSender(h)
	defer s.close()
	now := time.Now()
	ev := &event{id: id, topic: h.Topic, group: h.Group, attempt: 1, message: m, stamp: now.UnixNano(), test: true}
	a := s.send(ctx, h, ev)
	act, _ := judge(&a)
	return Trial{Record: recordOf(e.cfg.Gateway, 1, &a), OK: act == actAck, RetryAfter: a.retryAfter, Sent: now}
}

// Trial is what came of Try.
type Trial struct {
	Record
	OK         bool
	RetryAfter time.Duration
	Sent       time.Time
}

// metrics are the figures of an engine.
type metrics struct {
	attempts *prometheus.CounterVec
	seconds  prometheus.Histogram
	running  prometheus.Gauge
	opened   prometheus.Counter
}

// What becomes of attempts, in the metrics.
const (
	attemptAcked     = "acked"
	attemptFailed    = "failed"
	attemptPostponed = "postponed"
	attemptReturned  = "returned"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "splashdam_gateway_webhook_attempts_total",
			Help: "Attempts to send a message to a webhook, by result: acked, failed, postponed (not counted), returned (not sent)."}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "splashdam_gateway_webhook_attempt_duration_seconds",
			Help:    "Time of an attempt until its answer's headers, or its failure.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120}}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "splashdam_gateway_webhooks_running",
			Help: "Webhooks of which this gateway serves partitions."}),
		opened: prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_gateway_webhook_circuit_openings_total",
			Help: "Times that a circuit breaker opened, or opened anew after a failed probe."}),
	}
	for _, result := range [...]string{attemptAcked, attemptFailed, attemptPostponed, attemptReturned} {
		m.attempts.WithLabelValues(result) // an alert on a rise needs them at 0
	}
	if reg != nil {
		reg.MustRegister(m.attempts, m.seconds, m.running, m.opened)
	}
	return m
}
