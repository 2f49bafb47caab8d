package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// groupServer plays a group that holds some messages: it hands each out once and files what is settled.
type groupServer struct {
	mu      sync.Mutex
	waiting []string // receipts
	max     []int    // asked for, per receive
	settled []string // "ack r1", in the order of arrival
	calls   int      // settle calls
	// stale receipts answer receipt_stale to an extension.
	stale map[string]bool
}

func (g *groupServer) answer(_ int, r *http.Request, body []byte) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/receive") {
		return g.receive(r, body)
	}
	var in api.SettleRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	var results []string
	note := func(act, receipt, more string) {
		g.settled = append(g.settled, strings.TrimSpace(act+" "+receipt+" "+more))
		if act == "extend" && g.stale[receipt] {
			results = append(results, `{"error":{"code":"receipt_stale"}}`)
			return
		}
		results = append(results, `{}`)
	}
	for _, receipt := range in.Ack {
		note("ack", receipt, "")
	}
	for _, n := range in.Nack {
		delay := ""
		if n.Delay != nil {
			delay = time.Duration(*n.Delay).String() + " "
		}
		note("nack", n.Receipt, delay+n.Reason)
	}
	for _, n := range in.Reject {
		note("reject", n.Receipt, n.Reason)
	}
	for _, n := range in.Extend {
		note("extend", n.Receipt, time.Duration(n.Lease).String())
	}
	return reply(200, `{"results":[`+strings.Join(results, ",")+`]}`), nil
}

func (g *groupServer) receive(r *http.Request, body []byte) (*http.Response, error) {
	var in api.ReceiveRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	g.mu.Lock()
	n := min(in.Max, len(g.waiting))
	var out []string
	for _, receipt := range g.waiting[:n] {
		out = append(out, fmt.Sprintf(`{"id":%q,"receipt":%q,"value":%q,"encoding":"utf8","attempt":1}`, receipt, receipt, receipt))
	}
	g.waiting = g.waiting[n:]
	g.max = append(g.max, in.Max)
	g.mu.Unlock()
	if n == 0 { // the long poll
		select {
		case <-time.After(time.Duration(in.Wait)):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return reply(200, `{"messages":[`+strings.Join(out, ",")+`]}`), nil
}

func (g *groupServer) filed() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.settled...)
}

func TestConsumerSettlesByTheHandlersWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &groupServer{waiting: []string{"done", "fail", "later", "never", "panic"}}
		c := over(t, &wire{answer: g.answer}, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.Consumer("t", "g", func(_ context.Context, d Delivery) error {
			switch d.Receipt {
			case "fail":
				return errors.New("broken")
			case "later":
				return fmt.Errorf("wrapped: %w", RetryAfter(errors.New("busy"), time.Hour))
			case "never":
				return Reject(errors.New("bad"))
			case "panic":
				panic("oh")
			}
			return nil
		}, ConsumerOptions{}).Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"ack done", "nack fail broken", "nack later 1h0m0s wrapped: busy", "nack panic the handler panicked: oh", "reject never bad"}
		got := g.filed()
		if len(got) != len(want) {
			t.Fatalf("settled %q, want %q", got, want)
		}
		for _, one := range want {
			if !contains(got, one) {
				t.Errorf("%q is not among %q", one, got)
			}
		}
		if g.calls != 1 {
			t.Errorf("%d settle calls, want 1", g.calls)
		}
	})
}

func contains(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}

func TestConsumerHoldsNoMoreThanItsConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &groupServer{}
		for i := range 20 {
			g.waiting = append(g.waiting, fmt.Sprint("m", i))
		}
		var mu sync.Mutex
		running, most := 0, 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := over(t, &wire{answer: g.answer}, Options{}).Consumer("t", "g", func(context.Context, Delivery) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second) // on synctest's clock
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}, ConsumerOptions{Concurrency: 3, Max: 2}).Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if most != 3 {
			t.Errorf("%d handlers at once, want 3", most)
		}
		if len(g.filed()) != 20 {
			t.Errorf("%d settled, want 20", len(g.filed()))
		}
		for _, n := range g.max {
			if n > 2 {
				t.Errorf("asked for %d, want at most 2", n)
			}
		}
	})
}

func TestConsumerDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &groupServer{waiting: []string{"slow", "stuck"}}
		ctx, stop := context.WithCancel(t.Context())
		var handlerEnded time.Time
		began := time.Now()
		done := make(chan error, 1)
		k := over(t, &wire{answer: g.answer}, Options{}).Consumer("t", "g", func(ctx context.Context, d Delivery) error {
			if d.Receipt == "slow" {
				time.Sleep(5 * time.Second) // on synctest's clock
				return ctx.Err()
			}
			<-ctx.Done()
			handlerEnded = time.Now()
			return ctx.Err()
		}, ConsumerOptions{Drain: 10 * time.Second})
		go func() { done <- k.Run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := handlerEnded.Sub(began); got != 10*time.Second {
			t.Errorf("the stuck handler's context ended after %s, want 10s", got)
		}
		got := g.filed()
		if !contains(got, "ack slow") || !contains(got, "nack stuck context canceled") {
			t.Errorf("settled %q", got)
		}
	})
}

func TestConsumerExtendsWhileAHandlerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &groupServer{waiting: []string{"long", "lost"}, stale: map[string]bool{"lost": true}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var lostCause error
		k := over(t, &wire{answer: g.answer}, Options{}).Consumer("t", "g", func(ctx context.Context, d Delivery) error {
			if d.Receipt == "lost" {
				<-ctx.Done()
				lostCause = context.Cause(ctx)
				return nil
			}
			time.Sleep(25 * time.Second) // on synctest's clock
			stop()
			return nil
		}, ConsumerOptions{Lease: 10 * time.Second})
		if err := k.Run(ctx); err != nil {
			t.Fatal(err)
		}
		// Half of the lease is 5 s, so at 5, 10, 15, 20 and perhaps 25 s, each rounded up to an eighth (1.25 s).
		extended := 0
		for _, one := range g.filed() {
			if one == "extend long 10s" {
				extended++
			}
			if one == "ack lost" {
				t.Error("a message whose lease is lost is acknowledged")
			}
		}
		if extended < 4 || extended > 5 {
			t.Errorf("extended %d times in 25s with a lease of 10s", extended)
		}
		if !errors.Is(lostCause, ErrLeaseLost) {
			t.Errorf("cause %v, want ErrLeaseLost", lostCause)
		}
		if !contains(g.filed(), "ack long") {
			t.Errorf("settled %q", g.filed())
		}
	})
}

func TestConsumerWaitsFaultsOutAndStopsOnFinalOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
			if n < 5 {
				return nil, errors.New("connection reset")
			}
			return refusal(404, "topic_not_found", false), nil
		}}
		err := over(t, w, Options{}).Consumer("t", "g", func(context.Context, Delivery) error { return nil }, ConsumerOptions{}).Run(t.Context())
		var e *Error
		if !errors.As(err, &e) || e.Code != "topic_not_found" {
			t.Errorf("error %v, want topic_not_found", err)
		}
		if len(w.requests()) != 6 {
			t.Errorf("%d requests, want 6", len(w.requests()))
		}
	})
}
