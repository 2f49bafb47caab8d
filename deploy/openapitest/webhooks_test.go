package openapitest

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// Every call of webhooks, held against the document, with an endpoint that refuses the first request.
func TestWebhooksFitTheDocument(t *testing.T) {
	l := newLive(t, func(_ int, cfg *gateway.Config) { cfg.WebhooksAllowPrivate = true })
	requests := make(chan string, 100)
	refused := false
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mq-Test") == "" && !refused { // one partition and one at a time: no two of these at once
			refused = true
			w.WriteHeader(http.StatusInternalServerError)
		}
		requests <- r.Header.Get("Webhook-Id")
	}))
	t.Cleanup(endpoint.Close)
	partitions, most, private, ordering := uint32(1), 1, true, "key"
	_, err := l.c.CreateTopic(l.ctx, "orders", api.TopicInput{Partitions: &partitions})
	l.must(err)
	const hook = "/v1/topics/orders/webhooks/shop"
	in := api.WebhookInput{URL: endpoint.URL, AllowPrivate: &private, MaxInFlight: &most, Ordering: &ordering,
		Headers: map[string]string{"Authorization": "Bearer x"}, Retry: &api.WebhookRetryInput{Schedule: []api.Duration{api.Duration(10 * time.Millisecond)}}}
	w, err := l.c.CreateWebhook(l.ctx, "orders", "shop", in)
	l.must(err)
	if w.Secret == "" {
		t.Error("the secret is not shown")
	}
	_, err = l.c.CreateWebhook(l.ctx, "orders", "shop", in)
	if err == nil {
		t.Error("it is made twice")
	}
	_, err = l.c.PutWebhook(l.ctx, "orders", "shop", in)
	l.must(err)
	l.call(422, "PUT", "/v1/topics/orders/webhooks/bad", `{"url":"ftp://x"}`)
	l.call(404, "PUT", "/v1/topics/none/webhooks/shop", `{"url":"https://example.com"}`)

	one, err := l.c.Publish(l.ctx, "orders", client.Message{Key: client.Key("k"), Value: []byte("v")})
	l.must(err)
	for range 2 {
		if id := <-requests; id != one.ID {
			t.Errorf("message %s came, want %s", id, one.ID)
		}
	}
	for settled := false; !settled; {
		g, err := l.c.Webhook(l.ctx, "orders", "shop")
		l.must(err)
		settled = g.Lag == 0
	}
	l.call(200, "GET", hook, "")
	l.call(200, "GET", "/v1/topics/orders/webhooks", "")
	l.call(200, "GET", hook+"/attempts", "")
	l.call(200, "GET", hook+"/attempts?limit=1", "")
	l.call(200, "GET", hook+"/attempts?message="+one.ID, "")
	l.call(200, "GET", "/v1/messages/"+one.ID+"/trace", "")
	l.call(200, "POST", hook+"/test", "")
	l.call(200, "POST", hook+"/test", `{"value":"v","content_type":"text/plain","key":"k","headers":{"a":"b"}}`)
	l.call(200, "POST", hook+"/pause", "")
	l.call(200, "POST", hook+"/resume", "")
	l.call(200, "POST", hook+"/rotate-secret", "")
	l.call(200, "POST", hook+"/rotate-secret", `{"overlap":"0s"}`)
	l.call(422, "POST", hook+"/rotate-secret", `{"secret":"short"}`)
	l.call(200, "POST", hook+"/replay?dry_run=true", `{"since":"1h"}`)
	l.call(200, "POST", hook+"/replay", `{"since":"2026-01-01T00:00:00Z"}`)
	l.call(422, "POST", hook+"/replay", `{"since":"soon"}`)
	l.call(400, "POST", "/v1/topics/orders/groups/webhook.shop/receive", "")
	l.call(200, "DELETE", hook+"?dry_run=true", "")
	l.call(200, "DELETE", hook, "")
	l.call(404, "GET", hook, "")
}
