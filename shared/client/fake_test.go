package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"
	"time"
)

// wire is a RoundTripper without a network, so that tests can run on synctest's clock. Its answer function
// plays the server.
type wire struct {
	mu     sync.Mutex
	seen   []seen
	answer func(n int, r *http.Request, body []byte) (*http.Response, error)
	frozen map[string]bool // hosts that take requests and answer nothing
	pulses int             // how often one was asked whether it lives; not among seen
}

// seen is one request as it arrived.
type seen struct {
	at     time.Time
	method string
	url    string
	header http.Header
	body   string
}

var errRefused = errors.New("dial: connection refused")

// refused fails a request before a connection is there; every other answer has one.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	frozen, pulse := w.frozen[r.URL.Host], r.URL.Path == "/livez"
	if pulse {
		w.pulses++
	}
	w.mu.Unlock()
	switch {
	case frozen:
		connected(r)
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	case pulse:
		connected(r)
		return reply(200, "ok"), nil
	}
	var body []byte
	var err error
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	n := len(w.seen)
	w.seen = append(w.seen, seen{time.Now(), r.Method, r.URL.String(), r.Header.Clone(), string(body)})
	w.mu.Unlock()
	answer, err := w.answer(n, r, body)
	if errors.Is(err, errRefused) {
		return nil, err
	}
	connected(r)
	return answer, err
}

// connected tells the request that it has a connection.
func connected(r *http.Request) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
}

func (w *wire) requests() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]seen(nil), w.seen...)
}

// over makes a client whose requests go to w.
func over(t *testing.T, w *wire, o Options) *Client {
	t.Helper()
	o.HTTP = &http.Client{Transport: w}
	if len(o.Servers) == 0 {
		o.Servers = []string{"http://one:8080"}
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reply(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader([]byte(body)))}
}

// refusal is a problem document as the gateway writes it.
func refusal(status int, code string, retryable bool, header ...string) *http.Response {
	body, _ := json.Marshal(map[string]any{"type": "x", "title": "t", "status": status, "code": code,
		"retryable": retryable, "detail": "the detail", "request_id": "r-1"})
	return reply(status, string(body), header...)
}
