package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// away refuses connections for a while and then answers everything with what answers says.
func away(d time.Duration, answers string) *wire {
	until := time.Now().Add(d)
	return &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) {
		if time.Now().Before(until) {
			return nil, errRefused
		}
		return reply(200, answers), nil
	}}
}

// While nothing was sent, calls of all kinds are made for as long as Retry.Elapsed says.
func TestAnOutageIsWaitedOut(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Client) error{
		"publish": publishBare, "batch": publishMany, "batch with keys": batchKeyed, "receive": receive, "ack": ack,
		"settings": describe, "create": createTopic,
		"settle": func(ctx context.Context, c *Client) error {
			_, err := c.Settle(ctx, api.SettleRequest{Ack: []string{"r"}})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			w := away(20*time.Second, `{"results":[{"id":"x"}]}`)
			c := over(t, w, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err := call(t.Context(), c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if text := log.String(); strings.Count(text, "trying again") != len(w.requests())-1 || strings.Count(text, "the server answers again") != 1 {
				t.Errorf("%s: %d requests, the log says\n%s", name, len(w.requests()), text)
			}
		})
	}
}

// Who follows or is a member waits for longer than a call does, also at the start.
func TestFollowersOutlastOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := away(2*time.Minute, `{"messages":[{"partition":0,"offset":7,"value":"v","encoding":"utf8"}],"next_cursor":"c"}`)
		n := 0
		for m, err := range over(t, w, Options{}).Messages(t.Context(), "t", ReadOptions{Wait: time.Second}) {
			if err != nil || m.Offset != 7 {
				t.Fatalf("%+v, %v", m, err)
			}
			if n++; n == 2 {
				break
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// It has a topic's end, which a fault is not.
		w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) {
			return refusal(404, "topic_not_found", false), nil
		}}
		for _, err := range over(t, w, Options{}).Messages(t.Context(), "t", ReadOptions{Wait: time.Second}) {
			if err == nil {
				t.Error("no error")
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := away(2*time.Minute, `{"member":"m","ttl":"10s","generation":1,"assignment":[3]}`)
		o := ConsumerOptions{Member: &MemberOptions{OnAssignment: func([]uint32) { cancel() }}}
		if err := over(t, w, Options{}).Consumer("t", "g", nil, o).Run(ctx); err != nil {
			t.Error(err)
		}
		if ctx.Err() == nil {
			t.Error("it did not join")
		}
	})
}

// Acts that were refused for now are asked for again, and they alone; each result is that of its receipt.
func TestSettleAgainWhatWasRefusedForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		w.answer = func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
			return reply(200, [...]string{
				`{"results":[{},{"error":{"code":"no_leader","retryable":true}},{"error":{"code":"receipt_stale"}},{"error":{"code":"no_leader","retryable":true}}]}`,
				`{"results":[{},{"error":{"code":"no_leader","retryable":true}}]}`,
				`{"results":[{"error":{"code":"invalid_receipt"}}]}`,
			}[n]), nil
		}
		results, err := over(t, w, Options{}).Settle(t.Context(), api.SettleRequest{Ack: []string{"a", "b"}, Nack: []api.NackItem{{Receipt: "c"}},
			Release: []string{"d"}})
		if err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, one := range results {
			code := ""
			var e *Error
			if errors.As(one, &e) {
				code = e.Code
			}
			codes = append(codes, code)
		}
		if want := []string{"", "", "receipt_stale", "invalid_receipt"}; !slices.Equal(codes, want) {
			t.Errorf("results %q, want %q", codes, want)
		}
		var asked []string
		for _, r := range w.requests()[1:] {
			var in api.SettleRequest
			if err := json.Unmarshal([]byte(r.body), &in); err != nil {
				t.Fatal(err)
			}
			asked = append(asked, fmt.Sprint(in.Ack, in.Nack, in.Release))
		}
		if want := []string{"[b] [] [d]", "[] [] [d]"}; !slices.Equal(asked, want) {
			t.Errorf("asked again for %q, want %q", asked, want)
		}
	})
}

// What a handler has done is told for as long as its message may still be leased to it, so that nobody does it again.
func TestAConsumerSettlesAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var back time.Time
		settled := make(chan string, 1)
		received := false
		var mu sync.Mutex
		w := &wire{answer: func(_ int, r *http.Request, body []byte) (*http.Response, error) {
			time.Sleep(time.Second) // a poll takes its time
			mu.Lock()
			defer mu.Unlock()
			switch {
			case time.Now().Before(back):
				return nil, errRefused
			case strings.HasSuffix(r.URL.Path, "/settle"):
				settled <- string(body)
				return reply(200, `{"results":[{}]}`), nil
			case received:
				return reply(200, `{}`), nil
			}
			received, back = true, time.Now().Add(50*time.Second)
			return reply(200, `{"messages":[{"receipt":"r1","value":"v","encoding":"utf8"}]}`), nil
		}}
		c := over(t, w, Options{})
		var running sync.WaitGroup
		running.Go(func() {
			o := ConsumerOptions{Concurrency: 1, Lease: time.Minute}
			if err := c.Consumer("t", "g", func(context.Context, Delivery) error { return nil }, o).Run(ctx); err != nil {
				t.Error(err)
			}
		})
		select {
		case body := <-settled:
			if body != `{"ack":["r1"]}` {
				t.Errorf("settled %s", body)
			}
		case <-time.After(10 * time.Minute):
			t.Error("the ack was given up")
		}
		cancel()
		running.Wait()
	})
}
