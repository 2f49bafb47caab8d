package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
)

// A header that looks like an option and is none is not passed over: its message would come without what was asked for.
func TestUnknownMessageHeaders(t *testing.T) {
	t.Parallel()
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

// Of a header that comes twice one value would be lost without a word, and bytes that are no text would come back as
// others in JSON: both are refused, by the name of the header.
func TestMessageHeadersOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	for _, c := range []struct{ headers, named string }{
		{"Mq-Header-A: 1\r\nMq-Header-A: 2", "header/Mq-Header-a"},
		{"Mq-Header-Ce-Type: 1\r\nCe-Type: 2", "header/Mq-Header-ce-type"},
		{"Ce-Type: 1\r\nce-type: 1", "header/Mq-Header-ce-type"},
		{"Mq-Header-A: \xff\xfe", "header/Mq-Header-a"},
		{"Mq-Ttl: 1s\r\nMq-Ttl: 1s", "header/Mq-Ttl"},
		{"Mq-Lane: low\r\nMq-Lane: low", "header/Mq-Lane"},
		{"Mq-Key: a\r\nMq-Key: a", "header/Mq-Key"},
		{"Content-Type: a/b\r\nContent-Type: a/b", "header/Content-Type"},
		{"Idempotency-Key: a\r\nIdempotency-Key: a", "header/Idempotency-Key"},
		{"Mq-Delay: 1s\r\nMq-Delay: 1s", "header/Mq-Delay"},
	} {
		status, body := e.raw("POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + c.headers + "\r\nContent-Length: 1\r\n\r\nx")
		var p api.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || status != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != c.named {
			t.Errorf("%q: %d %s", c.headers, status, body)
		}
		if strings.Contains(body, "nil") {
			t.Errorf("%q: %s", c.headers, body)
		}
	}
	if n := e.stored(); n != 0 {
		t.Errorf("%d messages are stored", n)
	}
}
