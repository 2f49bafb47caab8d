package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

const (
	// hookTimeout is longer than any answer takes but those that are meant to come too late.
	hookTimeout = 5 * time.Second
	hookSlow    = 500 * time.Millisecond
)

// endpoint is where the webhooks send to: a server in this process, with moods.
type endpoint struct {
	*httptest.Server
	tr    *traffic
	hooks []*hook
	storm atomic.Bool // it refuses everything
}

// hook is one webhook and what its endpoint saw. Beside the order it judges signatures, attempts, and what comes again
// after it was taken.
type hook struct {
	name     string
	url      string
	ordered  bool
	order    *order
	verifier *standardwebhooks.Webhook
	arrivals map[place]*arrivals // guarded by order.mu

	requests, refused, late, again int // guarded by order.mu
}

// arrivals are the requests for one message.
type arrivals struct {
	count, attempt int64 // how many, and the attempt that the first one was
	first, taken   int64 // traffic.epoch at the first one, and when one was answered 2xx; taken is 0 before
	fence          uint64
}

func newEndpoint(tr *traffic) *endpoint {
	e := &endpoint{tr: tr}
	mux := http.NewServeMux()
	e.Server = httptest.NewServer(mux)
	for name, ordered := range map[string]bool{anyHook: false, keyHook: true} {
		h := &hook{name: name, url: e.URL + "/" + name, ordered: ordered, arrivals: map[place]*arrivals{}}
		h.order = newOrder(h.group(), tr.broke)
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, r *http.Request) { e.answer(h, w, r) })
		e.hooks = append(e.hooks, h)
	}
	return e
}

func (h *hook) group() string { return "webhook." + h.name }

// make makes the webhook. It repeats for ever, and soon.
func (h *hook) make(ctx context.Context, c *client.Client, topic string) error {
	private, attempts, timeout, ordering := true, 0, api.Duration(hookTimeout), "none"
	if h.ordered {
		ordering = "key"
	}
	first, most, open := api.Duration(100*time.Millisecond), api.Duration(time.Second), api.Duration(300*time.Millisecond)
	failures := 10
	w, err := c.PutWebhook(ctx, topic, h.name, api.WebhookInput{URL: h.url, AllowPrivate: &private, Timeout: &timeout, Ordering: &ordering,
		Start: &api.StartInput{At: "earliest"}, Retry: &api.WebhookRetryInput{Initial: &first, Max: &most, MaxAttempts: &attempts},
		Circuit: &api.WebhookCircuitInput{Failures: &failures, Open: &open, MaxOpen: &most}})
	if err != nil {
		return err
	}
	h.verifier, err = standardwebhooks.NewWebhook(w.Secret)
	return err
}

// weather makes the endpoint refuse everything for a while, now and then, until ctx ends.
func (e *endpoint) weather(ctx context.Context) {
	random := rand.New(rand.NewPCG(e.tr.seed, 4000))
	for ctx.Err() == nil {
		pause(ctx, time.Duration(10+random.IntN(20))*time.Second)
		e.storm.Store(true)
		pause(ctx, time.Duration(500+random.IntN(2500))*time.Millisecond)
		e.storm.Store(false)
	}
}

// answer is one request.
func (e *endpoint) answer(h *hook, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway died while it sent
	}
	if err := h.verifier.Verify(body, r.Header); err != nil {
		e.tr.broke("%s: %s is not signed: %v", h.group(), r.Header.Get("Webhook-Id"), err)
	}
	d, fence, err := delivery(r.Header, body)
	if err != nil {
		e.tr.broke("%s: %s: %v", h.group(), r.Header.Get("Webhook-Id"), err)
		return
	}
	if h.ordered {
		h.order.file(d, fence, e.tr.timed.mayExpire(d.Value))
	} else {
		h.order.coverage.file(d, fence)
	}
	h.arrived(d, fence, e.tr.epoch())
	e.tr.fileTimed(d)
	status := e.mood(w, r)
	if status != http.StatusOK || r.Context().Err() != nil {
		h.refuse(status)
		if status != 0 {
			w.WriteHeader(status)
		}
		return
	}
	h.order.settling(d)
	h.taken(d, fence, e.tr.epoch())
	w.WriteHeader(status)
}

// mood waits, mostly for nothing, and says what to answer; 0 for nothing at all.
func (e *endpoint) mood(w http.ResponseWriter, r *http.Request) int {
	if e.storm.Load() {
		return http.StatusServiceUnavailable
	}
	switch n := rand.IntN(1000); {
	case n < 30:
		return http.StatusInternalServerError
	case n < 50:
		return http.StatusBadRequest
	case n < 60:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
		return 0
	case n < 62:
		w.Header().Set("Retry-After", "1")
		return http.StatusTooManyRequests
	case n < 64:
		w.Header().Set("Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat))
		return http.StatusServiceUnavailable
	case n < 65:
		<-r.Context().Done() // too late: the gateway hangs up
		return 0
	case n < 120:
		pause(r.Context(), time.Duration(rand.Int64N(int64(hookSlow))))
	}
	return http.StatusOK
}

// delivery makes of a request what a consumer gets.
func delivery(head http.Header, body []byte) (*client.Delivery, uint64, error) {
	fence, err := checker.ParseFence(head.Get("Mq-Fence"))
	if err != nil {
		return nil, 0, err
	}
	partition, err := strconv.ParseUint(head.Get("Mq-Partition"), 10, 32)
	if err != nil {
		return nil, 0, err
	}
	d := &client.Delivery{ID: head.Get("Webhook-Id"), Partition: uint32(partition), Value: body, Fence: head.Get("Mq-Fence")}
	if d.Offset, err = strconv.ParseUint(head.Get("Mq-Offset"), 10, 64); err != nil {
		return nil, 0, err
	}
	attempt, err := strconv.ParseUint(head.Get("Mq-Attempt"), 10, 32)
	if err != nil {
		return nil, 0, err
	}
	d.Attempt = uint32(attempt)
	if d.Timestamp, err = time.Parse(time.RFC3339Nano, head.Get("Mq-Timestamp")); err != nil {
		return nil, 0, err
	}
	if key, ok := head["Mq-Key"]; ok {
		d.Key = []byte(strings.Join(key, ","))
	}
	return d, fence, nil
}

// arrived judges a request. An attempt that counts is one that arrived; only what a fault cut off between the lease and
// the wire may count besides. What was taken comes again only if a fault kept the gateway from settling it.
func (h *hook) arrived(d *client.Delivery, fence uint64, epoch int64) {
	h.order.mu.Lock()
	defer h.order.mu.Unlock()
	h.requests++
	at := place{d.Partition, d.Offset}
	a := h.arrivals[at]
	if a == nil {
		a = &arrivals{first: epoch, attempt: int64(d.Attempt)}
		h.arrivals[at] = a
	}
	a.count++
	if a.first == epoch && int64(d.Attempt) > a.attempt+a.count-1 {
		h.order.broke("%s: %d/%d came as attempt %d, and as %d %d requests before", h.group(), at.partition, at.offset, d.Attempt, a.attempt, a.count-1)
	}
	if a.taken != 0 {
		h.again++
		if a.taken == epoch && fence > a.fence {
			h.order.broke("%s: %d/%d came again after it was taken, and nothing had happened between", h.group(), at.partition, at.offset)
		}
	}
}

func (h *hook) taken(d *client.Delivery, fence uint64, epoch int64) {
	h.order.mu.Lock()
	defer h.order.mu.Unlock()
	a := h.arrivals[place{d.Partition, d.Offset}]
	a.taken, a.fence = epoch, max(a.fence, fence)
}

func (h *hook) refuse(status int) {
	h.order.mu.Lock()
	defer h.order.mu.Unlock()
	if h.refused++; status == 0 || status == http.StatusOK {
		h.late++
	}
}

func (h *hook) String() string {
	h.order.mu.Lock()
	requests, refused, late, again := h.requests, h.refused, h.late, h.again
	h.order.mu.Unlock()
	return fmt.Sprintf("%s; %d requests, %d refused, %d cut or too late, %d came again after they were taken", h.order, requests, refused, late, again)
}
