package push

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// mostBytes bounds the values that a runner holds: beyond it nothing is fetched. A single message may be larger.
	mostBytes = 8 << 20
	// mostHeld bounds the values that all runners of a gateway hold: beyond it each sends one message at a time, so that
	// endpoints which take their time hold up nobody else, and looks again after heldPause.
	mostHeld  = 256 << 20
	heldPause = 100 * time.Millisecond
	// mostUnsettled bounds what waits for its settlement: beyond it nothing is fetched.
	mostUnsettled = 2048
	// fetchPause is the time between two fetches after one that failed.
	fetchPause = 250 * time.Millisecond
	// settlePatience bounds one settlement, with all repetitions; after it the leases run out.
	settlePatience = 20 * time.Second
)

// runner runs one webhook. Everything but shown is owned by the goroutine of run.
type runner struct {
	e       *Engine
	hook    *Hook
	sender  attempter
	breaker breaker
	limit   *rate.Limiter // nil for no limit

	hold       time.Time // nothing is sent before
	gone       bool      // the endpoint said 410, until the webhook changes
	stopping   bool
	busy       int
	bytes      int
	pending    []Settlement
	settling   int
	fetching   bool
	endFetch   context.CancelFunc
	disabling  context.CancelFunc
	lastFailed string

	given    *Hook      // the newest one; guarded by Engine.mu
	updates  chan *Hook // capacity 1, the newest that the runner has not taken
	stops    chan struct{}
	stopOnce sync.Once
	fetched  chan fetched
	finished chan finished
	settled  chan struct{}
	work     sync.WaitGroup // goroutines of the runner

	mu    sync.Mutex
	shown State // for State; guarded by mu
}

type fetched struct {
	deliveries []Delivery
	err        error
}

type finished struct {
	d      Delivery
	a      answer
	probe  bool
	sender attempter
}

func newRunner(e *Engine, h *Hook) *runner {
	r := &runner{e: e, given: h, updates: make(chan *Hook, 1), stops: make(chan struct{}), fetched: make(chan fetched, 1),
		finished: make(chan finished, mq.MaxWebhookInFlight), settled: make(chan struct{}, 1)}
	r.configure(h)
	return r
}

// update gives the runner another version of its webhook.
func (r *runner) update(h *Hook) {
	select {
	case <-r.updates:
	default:
	}
	r.updates <- h // Engine.mu is held: nobody else puts one in between
}

// stop lets the runner end after what is under way.
func (r *runner) stop() { r.stopOnce.Do(func() { close(r.stops) }) }

func (r *runner) configure(h *Hook) {
	old := r.hook
	r.hook = h
	if old == nil || !old.sameEndpoint(h) {
		if r.sender != nil {
			r.sender.close() // attempts under way end on it
		}
		r.sender = r.e.makeSender(h)
	}
	c := &h.Settings.Circuit
	r.breaker.configure(c.Failures, time.Duration(c.Open), time.Duration(c.MaxOpen))
	if old != nil && old.Revision != h.Revision {
		r.gone, r.hold = false, time.Time{}
	}
	if old == nil || old.rate() != h.rate() {
		r.limit = nil
		if per := h.rate(); per > 0 {
			r.limit = rate.NewLimiter(rate.Limit(per), max(1, int(per/10)))
		}
	}
	if old != nil && !old.sameSource(h) && r.endFetch != nil {
		r.endFetch()
	}
}

// run runs the webhook until stop, and then until nothing is under way.
func (r *runner) run() {
	defer r.work.Wait()
	defer func() { r.sender.close() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.startSettling()
		if r.stopping && r.busy == 0 && r.settling == 0 && len(r.pending) == 0 && !r.fetching {
			if r.disabling != nil {
				r.disabling()
			}
			return
		}
		wait := r.startFetch(time.Now())
		r.show()
		timer.Stop()
		if wait > 0 {
			timer.Reset(wait)
		}
		r.next(timer.C)
	}
}

// next waits for one thing to happen.
func (r *runner) next(timer <-chan time.Time) {
	stops := r.stops
	if r.stopping {
		stops = nil
	}
	select {
	case <-timer:
	case h := <-r.updates:
		r.configure(h)
	case <-stops:
		r.stopping = true
		if r.endFetch != nil {
			r.endFetch()
		}
	case f := <-r.fetched:
		r.take(f)
	case f := <-r.finished:
		r.finish(f)
		for range len(r.finished) { // those that ended meanwhile are settled together
			r.finish(<-r.finished)
		}
	case <-r.settled:
		r.settling = 0
	}
}

// room is how many messages may be sent now, and if none when to look again (0: when something happens).
func (r *runner) room(now time.Time) (n int, again time.Duration) {
	n = r.hook.slots() - r.busy
	switch {
	case r.stopping, r.gone, r.hook.idle(), n <= 0, r.bytes >= mostBytes, len(r.pending)+r.settling >= mostUnsettled:
		return 0, 0
	case now.Before(r.hold):
		return 0, r.hold.Sub(now)
	case !r.breaker.closed():
		if !r.breaker.probe(now) {
			return 0, max(0, r.breaker.until.Sub(now))
		}
		n = 1
	}
	if r.e.held.Load() >= mostHeld {
		if r.busy > 0 {
			return 0, heldPause
		}
		n = 1
	}
	if r.limit != nil {
		have := r.limit.TokensAt(now)
		if have < 1 {
			return 0, max(time.Millisecond, time.Duration((1-have)/float64(r.limit.Limit())*float64(time.Second)))
		}
		n = min(n, int(have))
	}
	return n, 0
}

// startFetch begins to fetch if there is room and nothing is fetched yet. It says when to look again.
func (r *runner) startFetch(now time.Time) time.Duration {
	if r.fetching {
		return 0
	}
	n, again := r.room(now)
	if n <= 0 {
		return again
	}
	ctx, cancel := context.WithCancel(r.e.ctx)
	r.fetching, r.endFetch = true, cancel
	h, bytes := r.hook, int(min(int64(mostBytes-r.bytes), max(1, mostHeld-r.e.held.Load())))
	r.work.Go(func() {
		d, err := r.e.cfg.Source.Fetch(ctx, h, n, bytes)
		if err != nil && ctx.Err() == nil {
			r.e.cfg.Log.Debug("messages of a webhook can't be fetched", "topic", h.Topic, "webhook", h.Name, "error", err)
			rest(ctx, fetchPause)
		}
		r.fetched <- fetched{d, err}
	})
	return 0
}

// rest passes the time, or less if ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// latest takes what the engine was told meanwhile: what is fetched after Apply has returned is sent by that, and by nothing older.
func (r *runner) latest() {
	select {
	case h := <-r.updates:
		r.configure(h)
	default:
	}
	select {
	case <-r.stops:
		r.stopping = true
	default:
	}
}

// take sends what was fetched, or gives back what may not be sent any more.
func (r *runner) take(f fetched) {
	r.endFetch()
	r.fetching, r.endFetch = false, nil
	r.latest()
	if len(f.deliveries) == 0 {
		return
	}
	now := time.Now()
	back := f.deliveries
	for ; len(back) > 0; back = back[1:] { // each is looked at by itself: others may have fetched at the same time, and hold much by now
		if n, _ := r.room(now); n <= 0 {
			break
		}
		if r.limit != nil {
			r.limit.AllowN(now, 1)
		}
		r.dispatch(back[0])
	}
	if len(back) > 0 {
		r.e.metrics.attempts.WithLabelValues(attemptReturned).Add(float64(len(back)))
		r.e.cfg.Source.Return(r.hook, back)
	}
}

// dispatch begins one attempt.
func (r *runner) dispatch(d Delivery) {
	probe := !r.breaker.closed()
	if probe {
		r.breaker.begin()
	}
	r.busy++
	r.holds(len(d.Message.Value))
	h, s := r.hook, r.sender
	r.work.Go(func() {
		e := event{id: d.ID.String(), topic: h.Topic, group: h.Group, attempt: d.Attempt, fence: d.Fence, message: &d.Message, stamp: d.Stamp,
			partition: d.ID.Partition.Number, offset: d.Offset}
		a := s.send(r.e.ctx, h, &e)
		r.finished <- finished{d: d, a: a, probe: probe, sender: s}
	})
}

// holds counts bytes of values that are held from now on, below 0 that are no more.
func (r *runner) holds(bytes int) {
	r.bytes += bytes
	r.e.held.Add(int64(bytes))
}

// finish decides what becomes of a message after its attempt.
func (r *runner) finish(f finished) {
	r.busy--
	r.holds(-len(f.d.Message.Value))
	if errors.Is(f.a.err, context.Canceled) { // the gateway stops: nobody knows what the endpoint would have said
		r.giveBack(f)
		return
	}
	r.e.metrics.seconds.Observe(f.a.took.Seconds())
	now := time.Now()
	act, v := judge(&f.a)
	record := recordOf(r.e.cfg.Gateway, f.d.Attempt, &f.a)
	if act != actAck {
		r.lastFailed = record.String()
	}
	if act == actDisable {
		r.giveBack(f)
		r.disable(record)
		return
	}
	open := !r.breaker.closed()
	if r.breaker.result(now, v, f.probe, rand.Float64()) {
		r.e.metrics.opened.Inc()
		r.e.cfg.Log.Warn("the circuit of a webhook is open", "topic", r.hook.Topic, "webhook", r.hook.Name,
			"until", r.breaker.until, "last", r.lastFailed)
	}
	if holdsBack(&f.a) {
		if until := now.Add(min(f.a.retryAfter, mostHold)); until.After(r.hold) {
			r.hold = until
		}
	}
	item := frame.SettleItem{Receipt: f.d.Receipt, Outcome: frame.OutcomeAck, Reason: record.String()}
	result := attemptAcked
	switch {
	case act == actAck:
	case open && v == unwell:
		// What fails while the circuit is open is the endpoint's fault, and uses up no attempt. It waits beyond the
		// next probe, which then tries another message: one that an endpoint can't bear must not keep it closed.
		item.Outcome, item.Delay = frame.OutcomePostpone, int64(max(r.breaker.until.Sub(now)*5/4, time.Second))
		result = attemptPostponed
	default:
		item.Outcome, item.Delay = frame.OutcomeNack, int64(delay(&r.hook.Settings.Retry, f.d.Attempt, &f.a, rand.Float64()))
		result = attemptFailed
	}
	r.e.metrics.attempts.WithLabelValues(result).Inc()
	r.pending = append(r.pending, Settlement{Partition: f.d.ID.Partition, Item: item})
}

func (r *runner) giveBack(f finished) {
	if f.probe {
		r.breaker.abandon()
	}
	r.e.metrics.attempts.WithLabelValues(attemptReturned).Inc()
	r.e.cfg.Source.Return(r.hook, []Delivery{f.d})
}

// disable stops the webhook for good: its endpoint said that it is gone.
func (r *runner) disable(record Record) {
	if r.gone {
		return
	}
	r.gone = true
	if r.disabling != nil {
		r.disabling() // an earlier one, of before the webhook changed
	}
	ctx, cancel := context.WithCancel(r.e.ctx)
	r.disabling = cancel
	h := r.hook
	r.work.Go(func() {
		defer cancel()
		r.e.cfg.Source.Disable(ctx, h, "the endpoint says that it is gone: "+record.String())
	})
}

// startSettling settles all that waits for it, unless a settlement is under way: what comes meanwhile is settled
// together.
func (r *runner) startSettling() {
	if r.settling > 0 || len(r.pending) == 0 {
		return
	}
	batch, h := r.pending, r.hook
	r.pending, r.settling = nil, len(r.pending)
	r.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.e.ctx), settlePatience)
		defer cancel()
		r.e.cfg.Source.Settle(ctx, h, batch)
		r.settled <- struct{}{}
	})
}

// show makes the state visible to others.
func (r *runner) show() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = State{Serving: true, InFlight: r.busy, Open: !r.breaker.closed(), Last: r.lastFailed}
	if r.shown.Open {
		r.shown.Until = r.breaker.until
	}
	if r.hold.After(time.Now()) {
		r.shown.Held = r.hold
	}
}

func (r *runner) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}
