package gateway

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

func TestWebhookCalls(t *testing.T) {
	t.Parallel()
	h := startHarness(t, func(cfg *Config) { cfg.WebhooksAllowPrivate = true })
	h.topic("orders", `{"partitions":2}`)
	t.Run("life", func(t *testing.T) { testWebhookLife(t, h) })
	t.Run("secrets", func(t *testing.T) { testWebhookSecrets(t, h) })
	t.Run("test", func(t *testing.T) { testWebhookTest(t, h) })
	t.Run("attempts", func(t *testing.T) { testWebhookAttempts(t, h) })
	t.Run("bad input", func(t *testing.T) { testWebhookBadInput(t, h) })
	t.Run("since", func(t *testing.T) { testSince(t, h) })
	t.Run("group", func(t *testing.T) { testWebhookGroup(t, h) })
}

const shop = "/v1/topics/orders/webhooks/shop"

func testWebhookLife(t *testing.T, h *harness) {
	h.fails("webhook_not_found", "", "GET", shop, "")
	a := h.ok(201, "PUT", shop, `{"url":"https://example.com/x","headers":{"Authorization":"Bearer s3cret"},"retry":{"schedule":["1s","2s"]}}`, "If-None-Match", "*")
	made := decodeAs[api.Webhook](t, a)
	if made.Secret == "" || made.Group != "webhook.shop" || made.Settings.Retry.MaxAttempts != 3 || made.Settings.Headers["Authorization"] != api.HiddenValue ||
		len(made.Secrets) != 1 || made.Secrets[0].Fingerprint != mq.SecretFingerprint(made.Secret) || a.header.Get("Location") != shop {
		t.Errorf("made: %+v", made)
	}
	h.fails("already_exists", "", "PUT", shop, `{"url":"https://example.com/"}`, "If-None-Match", "*")
	again := h.ok(200, "GET", shop, "")
	if got := decodeAs[api.Webhook](t, again); got.Secret != "" || bytes.Contains(again.body, []byte("whsec_")) || bytes.Contains(again.body, []byte("s3cret")) {
		t.Errorf("a secret is shown again: %s", again.body)
	}
	h.fails("precondition_failed", "", "PUT", shop, `{"url":"https://example.com/"}`, "If-Match", `"1"`)
	// What answers hide stays when it comes back; what is left out goes, but for secret and start.
	changed := decodeAs[api.Webhook](t, h.ok(200, "PUT", shop, `{"url":"https://example.com/y","headers":{"Authorization":"***"},"max_in_flight":3,"retry":{"initial":"2s","multiplier":2,"max":"1m"}}`,
		"If-Match", again.header.Get("ETag")))
	if s := changed.Settings; s.MaxInFlight != 3 || len(s.Retry.Schedule) != 0 || s.Retry.MaxAttempts != defaultRetries || changed.Secret != "" {
		t.Errorf("changed: %+v", changed)
	}
	for _, other := range []string{"https://example.org/y", "http://example.com/y", "https://example.com:444/y"} {
		h.fails("validation_failed", "/headers/Authorization", "PUT", shop, `{"url":"`+other+`","headers":{"Authorization":"***"}}`)
	}
	// Each header that is kept is named, and a name in another case is the same header.
	two := h.call("PUT", shop, `{"url":"https://example.org/y","headers":{"X-None":"***","AUTHORIZATION":"***","X-New":"v"}}`)
	if p := decodeAs[api.Problem](t, two); len(p.Errors) != 2 || p.Errors[0].Pointer != "/headers/AUTHORIZATION" || p.Errors[1].Pointer != "/headers/X-None" ||
		!strings.Contains(p.Errors[0].Detail, "was for https://example.com and is not sent to another server") {
		t.Errorf("%+v", p.Errors)
	}
	h.ok(200, "PUT", shop, `{"url":"https://example.com/y","headers":{"AUTHORIZATION":"***"},"max_in_flight":3,"retry":{"initial":"2s","multiplier":2,"max":"1m"}}`)
	h.ok(200, "PUT", shop, `{"url":"https://example.com/y","headers":{"Authorization":"***"},"max_in_flight":3,"retry":{"initial":"2s","multiplier":2,"max":"1m"}}`)
	topic, _ := h.g.view.Topic("orders")
	if w, _ := h.g.view.Webhook(topic.ID, "shop"); w.Settings.Headers["Authorization"] != "Bearer s3cret" || w.Secrets[0].Secret != made.Secret {
		t.Errorf("kept: headers %v", w.Settings.Headers)
	}
	h.fails("validation_failed", "/secret", "PUT", shop, `{"url":"https://example.com/","secret":"`+newWebhookSecret()+`"}`)
	h.fails("validation_failed", "/start", "PUT", shop, `{"url":"https://example.com/","start":{"at":"earliest"}}`)
	h.ok(200, "PUT", shop, `{"url":"https://example.com/","secret":"`+made.Secret+`","start":{"at":"latest"}}`)

	paused := decodeAs[api.Webhook](t, h.ok(200, "POST", shop+"/pause", ""))
	if paused.State != api.StatePaused {
		t.Errorf("paused: %s", paused.State)
	}
	if resumed := decodeAs[api.Webhook](t, h.ok(200, "POST", shop+"/resume", "")); resumed.State != api.StateReady {
		t.Errorf("resumed: %s", resumed.State)
	}
	list := decodeAs[api.WebhookList](t, h.ok(200, "GET", "/v1/topics/orders/webhooks", ""))
	if len(list.Webhooks) != 1 || list.Webhooks[0].Name != "shop" || list.Webhooks[0].Lag != 1+2 {
		t.Errorf("list: %+v", list)
	}
	dry := decodeAs[api.Deletion](t, h.ok(200, "DELETE", shop+"?dry_run", ""))
	if !dry.DryRun || dry.Group != "webhook.shop" || dry.Messages != 3 {
		t.Errorf("dry run: %+v", dry)
	}
	h.ok(200, "DELETE", shop, "")
	h.fails("webhook_not_found", "", "DELETE", shop, "")
	h.fails("group_not_found", "", "GET", "/v1/topics/orders/groups/webhook.shop", "")
}

func testWebhookSecrets(t *testing.T, h *harness) {
	own := newWebhookSecret()
	made := decodeAs[api.Webhook](t, h.ok(201, "PUT", shop, `{"url":"https://example.com/","secret":"`+own+`"}`))
	if made.Secret != own {
		t.Error("the secret that was asked for is not the one")
	}
	rotated := decodeAs[api.Webhook](t, h.ok(200, "POST", shop+"/rotate-secret", `{"overlap":"1h"}`))
	if rotated.Secret == "" || rotated.Secret == own || len(rotated.Secrets) != 2 || rotated.Secrets[1].Until.IsZero() || !rotated.Secrets[0].Until.IsZero() {
		t.Errorf("rotated: %+v", rotated.Secrets)
	}
	chosen := newWebhookSecret()
	at := decodeAs[api.Webhook](t, h.ok(200, "POST", shop+"/rotate-secret", `{"secret":"`+chosen+`","overlap":"0s"}`))
	if at.Secret != chosen || len(at.Secrets) != 1 {
		t.Errorf("without an overlap: %+v", at.Secrets)
	}
	h.ok(200, "POST", shop+"/rotate-secret", "")
	h.fails("validation_failed", "/overlap", "POST", shop+"/rotate-secret", `{"overlap":"721h"}`)
	h.fails("validation_failed", "/secret", "POST", shop+"/rotate-secret", `{"secret":"whsec_short"}`)
}

func testWebhookTest(t *testing.T, h *harness) {
	made := decodeAs[api.Webhook](t, h.ok(200, "POST", shop+"/rotate-secret", `{"overlap":"0s"}`))
	verifier, err := standardwebhooks.NewWebhook(made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	var status atomic.Int32
	status.Store(204)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		if err := verifier.Verify(body.Bytes(), r.Header); err != nil || r.Header.Get("Mq-Test") != "true" || body.String() != "ping" || r.Header.Get("Mq-Header-A") != "b" {
			t.Errorf("%q %v: %v", body.String(), r.Header, err)
		}
		w.WriteHeader(int(status.Load()))
	}))
	defer endpoint.Close()
	h.ok(200, "PUT", shop, `{"url":"`+endpoint.URL+`","allow_private":true}`)
	const event = `{"value":"ping","content_type":"text/plain","headers":{"A":"b"}}`
	got := decodeAs[api.WebhookTestAnswer](t, h.ok(200, "POST", shop+"/test", event))
	if !got.OK || got.Status != 204 || got.Hint != "" || len(got.SignedWith) != 1 || got.SignedWith[0] != mq.SecretFingerprint(made.Secret) || !strings.HasPrefix(got.ID, "test_") {
		t.Errorf("answer: %+v", got)
	}
	status.Store(401)
	if got := decodeAs[api.WebhookTestAnswer](t, h.ok(200, "POST", shop+"/test", event)); got.OK || got.Status != 401 || !strings.Contains(got.Hint, got.SignedWith[0]) {
		t.Errorf("answer: %+v", got)
	}
	endpoint.Close()
	if got := decodeAs[api.WebhookTestAnswer](t, h.ok(200, "POST", shop+"/test", event)); got.OK || got.Status != 0 || got.Detail == "" || got.Hint == "" {
		t.Errorf("without an endpoint: %+v", got)
	}
	h.fails("validation_failed", "/value", "POST", shop+"/test", `{"value":1}`)
	h.fails("validation_failed", "/content_type", "POST", shop+"/test", `{"content_type":"`+strings.Repeat("x", 300)+`"}`)
}

func testWebhookAttempts(t *testing.T, h *harness) {
	topic, _ := h.g.view.Topic("orders")
	gr, ok := h.g.view.Group(topic.ID, "webhook.shop")
	if !ok {
		t.Fatal("the webhook has no group")
	}
	h.node.set(func() {
		h.node.traces[7] = &mqpb.TraceResponse{Events: []*mqpb.TraceEvent{
			{At: 1e9, Type: "DELIVERED", Group: uint64(gr.ID), Attempt: 1},
			{At: 2e9, Type: "NACKED", Group: uint64(gr.ID), Reason: "503 in 12ms, attempt 1 by gateway-2: busy", Until: 9e9},
			{At: 3e9, Type: "NACKED", Group: uint64(gr.ID) + 1, Reason: "503 in 12ms, attempt 1 by gateway-2"},
			{At: 9e9, Type: "ACKNOWLEDGED", Group: uint64(gr.ID), Reason: "200 in 1ms, attempt 2 by gateway-1"},
		}}
	})
	id := mq.MessageID{Partition: part(topic.ID, 1), Number: 7}.String()
	got := decodeAs[api.WebhookAttempts](t, h.ok(200, "GET", shop+"/attempts?message="+id, "")).Attempts
	if len(got) != 2 || got[0].Result != "failed" || got[0].Status != 503 || got[0].Detail != "busy" || got[0].RetryAt.Unix() != 9 || got[0].Gateway != "gateway-2" ||
		got[1].Result != "acked" || got[1].Attempt != 2 || got[1].ID != id {
		t.Errorf("attempts: %+v", got)
	}
	h.fails("invalid_parameter", "query/message", "GET", shop+"/attempts?message=nonsense", "")
	other := mq.MessageID{Partition: part(topic.ID+1, 1), Number: 7}.String()
	h.fails("invalid_parameter", "query/message", "GET", shop+"/attempts?message="+other, "")
	h.fails("invalid_parameter", "query/limit", "GET", shop+"/attempts?limit=0", "")
}

func testWebhookBadInput(t *testing.T, h *harness) {
	put := func(pointer, body string) {
		t.Helper()
		h.fails("validation_failed", pointer, "PUT", "/v1/topics/orders/webhooks/bad", body)
	}
	put("/url", `{}`)
	put("/url", `{"url":"ftp://example.com/"}`)
	put("/url", `{"url":"https://"}`)
	put("/url", `{"url":"https://user:pw@example.com/"}`)
	put("/url", `{"url":"https://example.com/#x"}`)
	put("/url", `{"url":"https://example.com/`+strings.Repeat("x", mq.MaxWebhookURL)+`"}`)
	put("/url", `{"url":"http://10.0.0.1/"}`)
	put("/url", `{"url":"http://[::ffff:127.0.0.1]/"}`)
	put("/url", `{"url":"http://169.254.169.254/","allow_private":true}`)
	good := func(more string) string { return `{"url":"https://example.com/",` + more + `}` }
	put("/format", good(`"format":"xml"`))
	put("/headers/Webhook-Id", good(`"headers":{"Webhook-Id":"x"}`))
	put("/headers/mq-key", good(`"headers":{"mq-key":"x"}`))
	put("/headers/A", good(`"headers":{"A":"x\r\nB: y"}`))
	put("/headers/A", good(`"headers":{"A":"***"}`))
	put("/max_in_flight", good(`"max_in_flight":0`))
	put("/rate", good(`"rate":-1`))
	put("/timeout", good(`"timeout":"3m"`))
	put("/retry/schedule/1", good(`"retry":{"schedule":["1s","25h"]}`))
	put("/retry/schedule", good(`"retry":{"schedule":["1s"],"initial":"1s"}`))
	put("/retry/max", good(`"retry":{"initial":"2s","max":"1s"}`))
	put("/circuit/open", good(`"circuit":{"open":"0s"}`))
	put("/secret", good(`"secret":"hunter2"`))
	put("/nope", good(`"nope":1`))
	put("/dead_letter_topic", good(`"dead_letter_topic":"orders"`))
	h.fails("invalid_json", "", "PUT", "/v1/topics/orders/webhooks/bad", `{"url":`)
	h.fails("invalid_parameter", "path/webhook", "PUT", "/v1/topics/orders/webhooks/"+strings.Repeat("x", mq.MaxWebhookName+1), good(`"rate":1`))
	h.fails("topic_not_found", "", "PUT", "/v1/topics/nowhere/webhooks/w", good(`"rate":1`))
	if err := (&Gateway{}).checkReach(&mq.WebhookSettings{URL: "https://example.com/", AllowPrivate: true}); err == nil || !strings.Contains(err.Error(), "--webhooks-allow-private") {
		t.Errorf("a gateway that does not allow private addresses: %v", err)
	}
	h.fails("webhook_not_found", "", "GET", "/v1/topics/orders/webhooks/bad", "")
}

func testSince(t *testing.T, h *harness) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"2026-02-01T00:00:00Z": time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), "2h": now.Add(-2 * time.Hour)} {
		if got, err := readSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "yesterday", "-2h", "0s", "1900-01-01T00:00:00Z"} {
		h.fails("validation_failed", "/since", "POST", shop+"/replay", `{"since":"`+text+`"}`)
	}
}

// The group behind a webhook is the webhook's: others look, and don't touch.
func testWebhookGroup(t *testing.T, h *harness) {
	const group = "/v1/topics/orders/groups/webhook.shop"
	if got := decodeAs[api.Group](t, h.ok(200, "GET", group, "")); got.Settings.Mode != mq.ModePush {
		t.Errorf("its mode is %s", got.Settings.Mode)
	}
	for _, call := range [][3]string{{"PUT", group, `{}`}, {"DELETE", group, ""}, {"POST", group + "/pause", ""}, {"POST", group + "/receive", ""},
		{"POST", group + "/members", `{}`}, {"PUT", "/v1/topics/orders/groups/webhook.other", `{}`}, {"POST", "/v1/topics/orders/groups/webhook.other/receive", ""}} {
		h.fails("invalid_parameter", "path/group", call[0], call[1], call[2])
	}
	// On a WebSocket the group is a field of the frame, and is called so.
	ws, _, err := websocket.Dial(t.Context(), h.g.URL()+"/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"subscribe","subscription":"s","topic":"orders","group":"webhook.shop"}`)); err != nil {
		t.Fatal(err)
	}
	for {
		_, b, err := ws.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), `"type":"error"`) {
			continue
		}
		if !strings.Contains(string(b), `"pointer":"/group"`) || strings.Contains(string(b), "path/") {
			t.Errorf("subscribing to a webhook's group: %s", b)
		}
		return
	}
}
