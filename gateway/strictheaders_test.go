package gateway

import (
	"encoding/json"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
)

// A header that looks like an option and is none is not passed over: its message would come without what was asked for.
func TestUnknownMessageHeaders(t *testing.T) {
	e := newEnv(t)
	e.topic("t", onePartition)
	for _, c := range []struct{ path, body, header string }{
		{"/v1/topics/t/messages", "x", "Mq-Tll"},
		{"/v1/topics/t/messages", "x", "Mq-Delay-Until"},
		{"/v1/topics/t/messages", "x", "Mq-Header"},
		{"/v1/topics/t/messages/batch", `{"messages":[{"value":"x"}]}`, "Mq-Ttl"},
		{"/v1/topics/t/messages/batch", `{"messages":[{"value":"x"}]}`, "Mq-Header-A"},
		{"/v1/topics/t/messages/batch", `{"messages":[{"value":"x"}]}`, "Idempotency-Key"},
	} {
		a := e.post(c.path, c.body, c.header, "1s")
		var p api.Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != "header/"+c.header {
			t.Errorf("%s %s: %d %s", c.path, c.header, a.status, a.body)
		}
	}
	a := e.post("/v1/topics/t/messages/batch", `{"value":"x"}`+"\n", "Content-Type", ndjson, "Idempotency-Key", "k")
	if a.status != 422 {
		t.Errorf("lines: %d %s", a.status, a.body)
	}
	if n := e.stored(); n != 0 {
		t.Errorf("%d messages are stored", n)
	}
	if a := e.post("/v1/topics/t/messages", "x", "Mq-Header-Tll", "1s", "Ce-Type", "a", "Mq-Ttl", "1s"); a.status != 201 {
		t.Errorf("all that is known: %d %s", a.status, a.body)
	}
}
