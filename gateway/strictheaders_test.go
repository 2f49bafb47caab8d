package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
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

// A traceparent is a header of the message. A wrong one is dropped, and no retry becomes another message by its span.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	const one, two = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-aaad6b7169203331-01"
	read := func(headers ...string) map[string]string {
		t.Helper()
		h := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Add(headers[i], headers[i+1])
		}
		var m mq.Message
		if _, err := messageFromHeaders(h, &m); err != nil {
			t.Fatalf("%v: %v", headers, err)
		}
		out := map[string]string{}
		for _, x := range m.Headers {
			out[x.Name] = x.Value
		}
		return out
	}
	if got := read("traceparent", one, "Mq-Header-A", "b"); got["traceparent"] != one || got["a"] != "b" {
		t.Errorf("%v", got)
	}
	if got := read("traceparent", one, "Mq-Header-Traceparent", "mine"); got["traceparent"] != "mine" {
		t.Errorf("the caller's own: %v", got)
	}
	for _, wrong := range [][]string{{"traceparent", "nonsense"}, {"traceparent", one, "traceparent", two}} {
		if got := read(wrong...); len(got) != 0 {
			t.Errorf("%v: %v", wrong, got)
		}
	}
	full := []string{"traceparent", one}
	for i := range mq.MaxHeaders {
		full = append(full, "Mq-Header-H"+strconv.Itoa(i), "v")
	}
	if got := read(full...); len(got) != mq.MaxHeaders || got["traceparent"] != "" {
		t.Errorf("%d headers with a full message", len(got))
	}
	a := mq.Message{Value: []byte("x"), Headers: []mq.Header{{Name: "traceparent", Value: one}}}
	b := mq.Message{Value: []byte("x"), Headers: []mq.Header{{Name: "Traceparent", Value: two}}}
	c := mq.Message{Value: []byte("x"), Headers: []mq.Header{{Name: "other", Value: one}}}
	if contentSum(&a) != contentSum(&b) || contentSum(&a) == contentSum(&c) {
		t.Error("the sum over the content goes by the span, or not by other headers")
	}
}
