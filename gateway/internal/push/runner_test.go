package push

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// desk plays the leader of a partition and the endpoint of a webhook: messages are leased, retried and acked as
// the outcomes say.
type desk struct {
	t  *testing.T
	mu sync.Mutex
	// queue are the messages that are ready, by number; attempts how often each was tried and counted.
	queue    []uint64
	attempts map[uint64]int
	leased   map[uint64]bool
	acked    []uint64
	returned int
	disabled string
	wake     chan struct{} // closed when something becomes ready; nil until somebody waits

	answer func(n uint64, attempt uint32) answer // of the endpoint
	takes  time.Duration                         // how long an answer takes
	sent   []sent
	most   int // attempts under way at once
	busy   int
	closed int // senders
	size   int // of a value
}

type sent struct {
	n  uint64
	at time.Time
}

func newDesk(t *testing.T, messages int, answer func(n uint64, attempt uint32) answer) *desk {
	d := &desk{t: t, attempts: map[uint64]int{}, leased: map[uint64]bool{}, answer: answer}
	for n := range messages {
		d.queue = append(d.queue, uint64(n))
	}
	return d
}

func status(code int) answer { return answer{status: code, took: time.Millisecond} }

func (d *desk) engine() *Engine {
	e := New(Config{Gateway: "gateway-1", Log: slog.New(slog.DiscardHandler),
		Source: Source{Fetch: d.fetch, Return: d.giveBack, Settle: d.settle, Disable: d.disable}})
	e.makeSender = func(*Hook) attempter { return d }
	return e
}

func (d *desk) fetch(ctx context.Context, _ *Hook, most, _ int) ([]Delivery, error) {
	for {
		d.mu.Lock()
		n := min(most, len(d.queue))
		var out []Delivery
		for _, x := range d.queue[:n] {
			d.attempts[x]++
			d.leased[x] = true
			out = append(out, Delivery{ID: mq.MessageID{Number: x}, Offset: x, Attempt: uint32(d.attempts[x]), Receipt: []byte{byte(x)}, Message: mq.Message{Value: make([]byte, d.size)}})
		}
		d.queue = d.queue[n:]
		if d.wake == nil {
			d.wake = make(chan struct{}) // here: it has to belong to the bubble
		}
		wake := d.wake
		d.mu.Unlock()
		if n > 0 {
			return out, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ready puts a message back. The caller holds mu.
func (d *desk) ready(n uint64) {
	d.queue = append(d.queue, n)
	slices.Sort(d.queue)
	if d.wake != nil {
		close(d.wake)
		d.wake = nil
	}
}

func (d *desk) giveBack(_ *Hook, list []Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range list {
		d.attempts[x.Offset]--
		delete(d.leased, x.Offset)
		d.returned++
		d.ready(x.Offset)
	}
}

func (d *desk) settle(_ context.Context, _ *Hook, all []Settlement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range all {
		n := uint64(s.Item.Receipt[0])
		if !d.leased[n] {
			d.t.Errorf("message %d is settled and not leased", n)
		}
		delete(d.leased, n)
		if _, ok := ParseRecord(s.Item.Reason); !ok {
			d.t.Errorf("message %d is settled because of %q", n, s.Item.Reason)
		}
		switch s.Item.Outcome {
		case frame.OutcomeAck:
			d.acked = append(d.acked, n)
			continue
		case frame.OutcomePostpone:
			d.attempts[n]--
		}
		time.AfterFunc(time.Duration(s.Item.Delay), func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.ready(n)
		})
	}
}

func (d *desk) disable(_ context.Context, _ *Hook, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disabled = reason
}

func (d *desk) send(ctx context.Context, _ *Hook, e *event) answer {
	d.mu.Lock()
	d.sent = append(d.sent, sent{e.offset, time.Now()})
	d.busy++
	d.most = max(d.most, d.busy)
	a := d.answer(e.offset, e.attempt)
	takes := d.takes
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.busy--
		d.mu.Unlock()
	}()
	rest(ctx, takes)
	if ctx.Err() != nil {
		return answer{err: context.Canceled}
	}
	return a
}

func (d *desk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed++
}

func (d *desk) ackedNow() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.acked)
}

func (d *desk) requests() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sent)
}

// bubble runs f with an engine in fake time and ends both.
func bubble(t *testing.T, d *desk, h *Hook, f func(e *Engine)) {
	synctest.Test(t, func(t *testing.T) {
		e := d.engine()
		e.Apply([]*Hook{h})
		f(e)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		e.Stop(ctx)
		if d.busy != 0 || len(d.leased) != 0 || d.closed == 0 {
			t.Errorf("left over after the end: %d under way, leased %v, %d senders closed", d.busy, d.leased, d.closed)
		}
	})
}

func TestSlotsBoundWhatIsUnderWay(t *testing.T) {
	d := newDesk(t, 100, func(uint64, uint32) answer { return status(200) })
	d.takes = time.Second
	h := hookTo(t, "http://x/")
	h.Settings.MaxInFlight = 10
	h.Partitions, h.Total = []uint32{0, 2}, 4 // half of it is this gateway's
	bubble(t, d, h, func(*Engine) {
		time.Sleep(10 * time.Second)
		n := d.ackedNow()
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.most != 5 || n < 45 || n > 50 {
			t.Errorf("%d at once, %d taken in 10 s; want 5 and about 50", d.most, n)
		}
	})
}

func TestRateIsKept(t *testing.T) {
	d := newDesk(t, 200, func(uint64, uint32) answer { return status(200) })
	h := hookTo(t, "http://x/")
	h.Settings.Rate = 10
	bubble(t, d, h, func(*Engine) {
		time.Sleep(10 * time.Second)
		if n := d.ackedNow(); n < 95 || n > 105 {
			t.Errorf("%d in 10 s at 10 a second", n)
		}
	})
}

// An outage of hours uses up no attempts beyond those of before the circuit opened, whatever the number of messages,
// and everything arrives after it.
func TestOutageUsesUpNoAttempts(t *testing.T) {
	down := true
	d := newDesk(t, 30, func(uint64, uint32) answer {
		if down {
			return answer{err: http.ErrServerClosed, took: time.Millisecond}
		}
		return status(200)
	})
	d.takes = 10 * time.Millisecond
	h := hookTo(t, "http://x/")
	h.Settings.MaxInFlight, h.Settings.Circuit.Failures = 10, 5
	bubble(t, d, h, func(e *Engine) {
		time.Sleep(6 * time.Hour)
		d.mu.Lock()
		tried := 0
		for n, attempts := range d.attempts {
			if attempts > 1 {
				t.Errorf("message %d has used up %d attempts", n, attempts)
			}
			tried += attempts
		}
		// One opening each 5 minutes at most; the probes are all that is sent.
		if n := len(d.sent); tried > 5 || n < 70 || n > 120 {
			t.Errorf("%d attempts count, %d requests were made in 6 hours", tried, n)
		}
		down = false
		d.mu.Unlock()
		if s := e.State(7); !s.Open || s.Last == "" {
			t.Errorf("state %+v", s)
		}
		time.Sleep(15 * time.Minute)
		if n := d.ackedNow(); n != 30 {
			t.Errorf("%d of 30 arrived after the outage", n)
		}
		if s := e.State(7); s.Open || !s.Serving {
			t.Errorf("state %+v", s)
		}
	})
}

// A message that makes its endpoint fail does not keep the circuit open for the others, and its attempts count again.
func TestPoisonDoesNotKeepTheCircuitOpen(t *testing.T) {
	d := newDesk(t, 20, func(n uint64, _ uint32) answer {
		if n == 0 {
			return status(500)
		}
		return status(200)
	})
	h := hookTo(t, "http://x/")
	h.Settings.MaxInFlight, h.Settings.Circuit.Failures = 1, 1
	h.Settings.Retry.Schedule = []mq.Duration{mq.Duration(time.Second)}
	bubble(t, d, h, func(*Engine) {
		time.Sleep(10 * time.Minute)
		if n := d.ackedNow(); n != 19 {
			t.Errorf("%d of 19 good messages arrived", n)
		}
	})
}

func TestRetryAfterHoldsEverythingBack(t *testing.T) {
	d := newDesk(t, 5, nil)
	first := true
	d.answer = func(uint64, uint32) answer {
		if first {
			first = false
			return answer{status: 429, retryAfter: 10 * time.Minute, took: time.Millisecond}
		}
		return status(200)
	}
	h := hookTo(t, "http://x/")
	h.Settings.MaxInFlight = 1
	bubble(t, d, h, func(e *Engine) {
		time.Sleep(10*time.Minute - time.Second)
		if n := d.requests(); n != 1 || e.State(7).Held.IsZero() {
			t.Errorf("%d requests in ten minutes, state %+v", n, e.State(7))
		}
		time.Sleep(time.Minute)
		if n := d.ackedNow(); n != 5 {
			t.Errorf("%d of 5 arrived", n)
		}
	})
}

func TestGoneDisables(t *testing.T) {
	d := newDesk(t, 5, func(uint64, uint32) answer { return status(410) })
	h := hookTo(t, "http://x/")
	h.Settings.MaxInFlight = 2
	bubble(t, d, h, func(e *Engine) {
		time.Sleep(time.Hour)
		d.mu.Lock()
		if n := len(d.sent); d.disabled == "" || n > 2 {
			t.Errorf("%d requests, disabled because of %q", n, d.disabled)
		}
		for n, attempts := range d.attempts {
			if attempts != 0 {
				t.Errorf("message %d has used up %d attempts", n, attempts)
			}
		}
		again := *h // resumed
		again.Revision++
		d.answer = func(uint64, uint32) answer { return status(200) }
		d.mu.Unlock()
		e.Apply([]*Hook{&again})
		time.Sleep(time.Minute)
		if n := d.ackedNow(); n != 5 {
			t.Errorf("%d of 5 arrived after the resume", n)
		}
	})
}

// Paused, nothing is sent; what was fetched meanwhile goes back; resumed, all arrives. Partitions that move away end
// the runner after what is under way.
func TestPauseResumeAndLoss(t *testing.T) {
	d := newDesk(t, 3, func(uint64, uint32) answer { return status(200) })
	d.takes = time.Second
	h := hookTo(t, "http://x/")
	h.Settings.MaxInFlight = 1
	bubble(t, d, h, func(e *Engine) {
		time.Sleep(500 * time.Millisecond)
		paused := *h
		paused.Paused = true
		e.Apply([]*Hook{&paused})
		time.Sleep(time.Hour)
		if n := d.ackedNow(); n != 1 || d.requests() != 1 {
			t.Errorf("paused: %d sent, %d taken", d.requests(), n)
		}
		resumed := *h
		e.Apply([]*Hook{&resumed})
		time.Sleep(500 * time.Millisecond)
		e.Apply(nil) // another gateway's now
		time.Sleep(time.Hour)
		if n := d.ackedNow(); n != 2 || e.State(7).Serving {
			t.Errorf("without partitions: %d taken, state %+v", n, e.State(7))
		}
		e.Apply([]*Hook{&resumed})
		time.Sleep(time.Minute)
		if n := d.ackedNow(); n != 3 {
			t.Errorf("%d of 3 arrived", n)
		}
	})
}

// A stop that runs out of time cuts attempts off, and their messages go back uncounted.
func TestStopReturnsWhatIsCutOff(t *testing.T) {
	d := newDesk(t, 1, func(uint64, uint32) answer { return status(200) })
	d.takes = time.Hour
	synctest.Test(t, func(t *testing.T) {
		e := d.engine()
		e.Apply([]*Hook{hookTo(t, "http://x/")})
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		e.Stop(ctx)
		if d.returned != 1 || d.attempts[0] != 0 || len(d.leased) != 0 {
			t.Errorf("returned %d, attempts %d, leased %v", d.returned, d.attempts[0], d.leased)
		}
	})
}

// An endpoint that hangs holds up nobody else.
func TestSlowEndpointSlowsNobodyElse(t *testing.T) {
	slow, fast := newDesk(t, 100, func(uint64, uint32) answer { return status(200) }), newDesk(t, 100, func(uint64, uint32) answer { return status(200) })
	slow.takes = time.Minute
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{Gateway: "gateway-1", Log: slog.New(slog.DiscardHandler), Source: Source{
			Fetch: func(ctx context.Context, h *Hook, most, bytes int) ([]Delivery, error) {
				return map[string]*desk{"slow": slow, "fast": fast}[h.Name].fetch(ctx, h, most, bytes)
			},
			Return: func(h *Hook, l []Delivery) { map[string]*desk{"slow": slow, "fast": fast}[h.Name].giveBack(h, l) },
			Settle: func(ctx context.Context, h *Hook, s []Settlement) {
				map[string]*desk{"slow": slow, "fast": fast}[h.Name].settle(ctx, h, s)
			}, Disable: fast.disable}})
		e.makeSender = func(h *Hook) attempter { return map[string]*desk{"slow": slow, "fast": fast}[h.Name] }
		a, b := hookTo(t, "http://slow/"), hookTo(t, "http://fast/")
		a.Name, b.Name, b.GroupID = "slow", "fast", 8
		e.Apply([]*Hook{a, b})
		time.Sleep(time.Second)
		if n := fast.ackedNow(); n != 100 {
			t.Errorf("beside an endpoint that takes a minute %d of 100 arrived", n)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		e.Stop(ctx)
	})
}
