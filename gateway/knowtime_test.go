package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/splashdam/splashdam/gateway/internal/push"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A gateway that was just started decides nothing by its own clock that others hold it to: it learns the nodes' time at its start, and as
// long as no node tells it neither ends a secret nor sends a webhook. What needs no time needs no node that tells it.
func TestNothingIsSignedBeforeTheTimeIsKnown(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	h.topic("orders", `{"partitions":1}`)
	h.ok(201, "PUT", shop, `{"url":"https://example.com/x"}`)

	h.node.set(func() { h.node.clock = func() int64 { return 0 } })
	untold := *h
	untold.g = h.gateway(func(cfg *Config) { cfg.Name, cfg.RequestTimeout = "untold", time.Second })
	untold.fails("no_leader", "", "POST", shop+"/rotate-secret", `{"overlap":"10m"}`)
	if w := decodeAs[api.Webhook](t, h.ok(200, "GET", shop, "")); len(w.Secrets) != 1 {
		t.Errorf("it was rotated: %+v", w.Secrets)
	}
	untold.ok(200, "POST", shop+"/rotate-secret", `{"overlap":"0s"}`)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := untold.g.pushFetch(ended, &push.Hook{}, 1, 1); !mqerr.Is(err, mqerr.NoLeader) {
		t.Errorf("fetched: %v", err)
	}

	h.node.set(func() { h.node.clock = func() int64 { return time.Now().Add(time.Hour).UnixNano() } })
	told := *h
	told.g = h.gateway(func(cfg *Config) { cfg.Name = "told" })
	if !told.g.clock.known.Load() {
		t.Error("it has begun without the time")
	}
	rotated := decodeAs[api.Webhook](t, told.ok(200, "POST", shop+"/rotate-secret", `{"overlap":"10m"}`))
	if len(rotated.Secrets) != 2 || time.Until(rotated.Secrets[1].Until) < time.Hour {
		t.Errorf("with a clock that is an hour behind: %+v", rotated.Secrets)
	}
}
