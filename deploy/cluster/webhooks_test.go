package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/splashdam/splashdam/gateway"
)

// endpoint is a webhook's endpoint that keeps what it got and answers as it is told.
type endpoint struct {
	*httptest.Server
	t      *testing.T
	mu     sync.Mutex
	got    []arrival
	answer func(n int, a arrival) int // n counts from 1
	news   chan struct{}
}

type arrival struct {
	header http.Header
	body   string
}

func listen(t *testing.T, answer func(n int, a arrival) int) *endpoint {
	e := &endpoint{t: t, answer: answer, news: make(chan struct{}, 1)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a := arrival{r.Header.Clone(), string(body)}
		e.mu.Lock()
		e.got = append(e.got, a)
		n := len(e.got)
		e.mu.Unlock()
		status := http.StatusOK
		if e.answer != nil {
			status = e.answer(n, a)
		}
		w.WriteHeader(status)
		select {
		case e.news <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(e.Close)
	return e
}

// wait waits until n requests were answered, and gives all of them.
func (e *endpoint) wait(n int) []arrival {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), hang)
	defer cancel()
	for {
		e.mu.Lock()
		got := append([]arrival(nil), e.got...)
		e.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-e.news:
		case <-ctx.Done():
			e.t.Fatalf("%d requests came, want %d", len(got), n)
		}
	}
}

type webhook struct {
	State, Reason, Secret string
	Lag, Dead             int
	Secrets               []struct{ Fingerprint string }
	Recent                struct {
		Attempts   int
		LastErrors []struct{ Status int } `json:"last_errors"`
	}
	Gateways []struct {
		Gateway, Circuit string
		Partitions       []int
	}
}

// webhook makes a webhook on a topic; more is added to its settings.
func (c caller) webhook(topic, name, url, more string) webhook {
	c.t.Helper()
	var w webhook
	c.call(201, "PUT", "/v1/topics/"+topic+"/webhooks/"+name, fmt.Sprintf(`{"url":%q,"allow_private":true,"start":{"at":"earliest"}%s}`, url, more), &w)
	return w
}

// untilWebhook waits until what the gateway says of a webhook fulfils ok.
func (c caller) untilWebhook(topic, name string, ok func(webhook) bool) webhook {
	c.t.Helper()
	var w webhook
	eventually(c.t, "webhook "+name+" is as wanted", func() bool {
		status, text, err := c.try(c.t.Context(), "GET", "/v1/topics/"+topic+"/webhooks/"+name, "")
		if err != nil {
			c.t.Fatalf("webhook %s: %v", name, err)
		}
		if status != 200 {
			return false
		}
		w = webhook{}
		must(c.t, json.Unmarshal(text, &w))
		return ok(w)
	})
	return w
}

func pushes(o Options) Options {
	o.GatewayConfig = func(_ int, cfg *gateway.Config) { cfg.WebhooksAllowPrivate = true }
	return o
}

// What is published arrives, signed so that the reference library of Standard Webhooks takes it, and is settled.
func TestWebhookDelivers(t *testing.T) {
	t.Parallel()
	c := start(t, pushes(Options{Nodes: 1, Gateways: 1, Coordinators: 1}))
	one := via(t, c, 1)
	one.topic("orders", `{"partitions":4}`)
	e := listen(t, nil)
	w := one.webhook("orders", "shop", e.URL, "")
	if w.Secret == "" {
		t.Fatal("the secret is not shown")
	}
	for i := range 20 {
		one.publish("orders", fmt.Sprint("value ", i))
	}
	verifier, err := standardwebhooks.NewWebhook(w.Secret)
	must(t, err)
	seen := map[string]bool{}
	for _, a := range e.wait(20) {
		if err := verifier.Verify([]byte(a.body), a.header); err != nil {
			t.Errorf("%q: %v", a.body, err)
		}
		seen[a.body] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d different messages came, want 20", len(seen))
	}
	w = one.untilWebhook("orders", "shop", func(w webhook) bool { return w.Lag == 0 && w.Recent.Attempts == 20 })
	var again struct{ Again int }
	one.call(200, "POST", "/v1/topics/orders/webhooks/shop/replay?dry_run", `{"since":"1h"}`, &again)
	one.call(200, "POST", "/v1/topics/orders/webhooks/shop/replay", `{"since":"1h"}`, nil)
	times := map[string]int{}
	for _, a := range e.wait(40) {
		times[a.header.Get("Webhook-Id")]++
	}
	for id, n := range times {
		if n != 2 || again.Again != 20 {
			t.Errorf("of %d, message %s came %d times", again.Again, id, n)
		}
	}
	if w.Secret != "" || len(w.Secrets) != 1 || w.State != "ready" {
		t.Errorf("afterwards: %+v", w)
	}
}

// What is published after a secret was rotated is signed with both from the answer on, also where rotations follow each other faster
// than a gateway looks at its view: an endpoint may change over as soon as it has the answer.
func TestRotationHoldsFromItsAnswerOn(t *testing.T) {
	t.Parallel()
	c := start(t, pushes(Options{Nodes: 1, Gateways: 1, Coordinators: 1}))
	one := via(t, c, 1)
	one.topic("t", `{"partitions":1}`)
	e := listen(t, nil)
	before := one.webhook("t", "w", e.URL, "").Secret
	for i := range 20 {
		var now webhook
		one.call(200, "POST", "/v1/topics/t/webhooks/w/rotate-secret", `{"overlap":"1h"}`, &now)
		one.publish("t", fmt.Sprint(i))
		a := e.wait(i + 1)[i]
		for name, secret := range map[string]string{"old": before, "new": now.Secret} {
			verifier, err := standardwebhooks.NewWebhook(secret)
			must(t, err)
			if err := verifier.Verify([]byte(a.body), a.header); err != nil {
				t.Errorf("rotation %d, the %s secret: %v", i, name, err)
			}
		}
		before = now.Secret
	}
}

// A gateway that is killed loses nothing: the other one takes its partitions over, and what it had not settled comes
// again. How long that takes is logged, not judged.
func TestWebhookOutlivesItsGateway(t *testing.T) {
	t.Parallel()
	c := start(t, pushes(Options{Nodes: 1, Gateways: 2, Coordinators: 1, Processes: &Processes{}}))
	one := via(t, c, 1)
	one.topic("orders", `{"partitions":4}`)
	var mu sync.Mutex
	last, gap := map[string]time.Time{}, map[string]time.Duration{} // by partition
	e := listen(t, func(_ int, a arrival) int {
		mu.Lock()
		defer mu.Unlock()
		p := a.header.Get("Mq-Partition")
		if at := last[p]; !at.IsZero() {
			gap[p] = max(gap[p], time.Since(at))
		}
		last[p] = time.Now()
		return 200
	})
	one.webhook("orders", "shop", e.URL, "")
	one.untilWebhook("orders", "shop", func(w webhook) bool {
		return len(w.Gateways) == 2 && len(w.Gateways[0].Partitions) == 2 && len(w.Gateways[1].Partitions) == 2
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sent := make(chan int, 1)
	var publisher sync.WaitGroup
	t.Cleanup(publisher.Wait) // the test may fail before
	publisher.Go(func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			status, text, err := one.try(t.Context(), "POST", "/v1/topics/orders/messages", fmt.Sprint("v", n))
			if err != nil || status != 201 {
				t.Errorf("publish: %d %s %v", status, text, err)
				break
			}
		}
		sent <- n
	})
	before := len(e.wait(200))
	mu.Lock()
	clear(gap)
	mu.Unlock()
	must(t, c.Gateway(2).Kill())
	one.untilWebhook("orders", "shop", func(w webhook) bool { return len(w.Gateways) == 1 && len(w.Gateways[0].Partitions) == 4 })
	e.wait(before + 200)
	stop()
	n := <-sent
	one.untilWebhook("orders", "shop", func(w webhook) bool { return w.Lag == 0 })
	got := map[string]int{}
	for _, a := range e.wait(n) {
		got[a.body]++
	}
	again := 0
	for i := range n {
		switch got[fmt.Sprint("v", i)] {
		case 0:
			t.Errorf("v%d did not arrive", i)
		case 1:
		default:
			again++
		}
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d messages, %d of them twice; longest gap by partition: %v", n, again, gap)
}

// 410 disables a webhook and uses up no attempt; resumed, it goes on where it was. A refusal is retried by the schedule,
// and the log of attempts tells it.
func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	c := start(t, pushes(Options{Nodes: 1, Gateways: 1, Coordinators: 1}))
	one := via(t, c, 1)
	one.topic("orders", `{"partitions":1}`)
	var mu sync.Mutex
	statuses := []int{410, 503, 200}
	e := listen(t, func(int, arrival) int {
		mu.Lock()
		defer mu.Unlock()
		s := statuses[0]
		statuses = statuses[1:]
		return s
	})
	one.webhook("orders", "shop", e.URL, `,"retry":{"schedule":["10ms"],"max_attempts":5}`)
	id := one.publish("orders", "v").ID
	w := one.untilWebhook("orders", "shop", func(w webhook) bool { return w.State == "disabled" })
	if !strings.Contains(w.Reason, "410") || w.Lag != 1 {
		t.Errorf("disabled: %+v", w)
	}
	one.call(200, "POST", "/v1/topics/orders/webhooks/shop/resume", "", nil)
	got := e.wait(3)
	for i, want := range []string{"1", "1", "2"} {
		if a := got[i].header.Get("Mq-Attempt"); a != want {
			t.Errorf("request %d is attempt %s, want %s", i, a, want)
		}
		if got[i].header.Get("Webhook-Id") != id {
			t.Errorf("request %d has the id %s, want %s", i, got[i].header.Get("Webhook-Id"), id)
		}
	}
	one.untilWebhook("orders", "shop", func(w webhook) bool { return w.Lag == 0 && w.Recent.Attempts == 2 })
	var log struct {
		Attempts []struct {
			Result  string
			Status  int
			Attempt int
		}
	}
	one.call(200, "GET", "/v1/topics/orders/webhooks/shop/attempts?message="+id, "", &log)
	if a := log.Attempts; len(a) != 2 || a[0].Status != 503 || a[0].Result != "failed" || a[1].Status != 200 || a[1].Result != "acked" || a[1].Attempt != 2 {
		t.Errorf("attempts: %+v", log)
	}
	one.call(200, "GET", "/v1/topics/orders/webhooks/shop/attempts", "", &log)
	if a := log.Attempts; len(a) != 2 || a[0].Status != 200 {
		t.Errorf("the newest attempts: %+v", log)
	}
}
