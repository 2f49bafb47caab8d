package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// The kinds of calls that are told apart. publishBare is a publish that the client gives no key, see TestKeysOfTheClient.
func publishBare(ctx context.Context, c *Client) error {
	c.keys = KeysOfCaller
	return publishOne(ctx, c)
}

func publishOne(ctx context.Context, c *Client) error {
	_, err := c.Publish(ctx, "t", Message{Value: []byte("v")})
	return err
}

func publishMany(ctx context.Context, c *Client) error {
	_, err := c.PublishBatch(ctx, "t", []Message{{Value: []byte("v")}})
	return err
}

func publishKeyed(ctx context.Context, c *Client) error {
	_, err := c.Publish(ctx, "t", Message{Value: []byte("v"), IdempotencyKey: "k"})
	return err
}

func batchKeyed(ctx context.Context, c *Client) error {
	_, err := c.PublishBatch(ctx, "t", []Message{{Value: []byte("v"), IdempotencyKey: "k"}})
	return err
}

func batchHalfKeyed(ctx context.Context, c *Client) error {
	_, err := c.PublishBatch(ctx, "t", []Message{{Value: []byte("v"), IdempotencyKey: "k"}, {Value: []byte("w")}})
	return err
}

func receive(ctx context.Context, c *Client) error {
	_, err := c.Receive(ctx, "t", "g", api.ReceiveRequest{})
	return err
}

func ack(ctx context.Context, c *Client) error { return c.Ack(ctx, "r") }

func describe(ctx context.Context, c *Client) error {
	_, err := c.Topic(ctx, "t")
	return err
}

func createTopic(ctx context.Context, c *Client) error {
	_, err := c.CreateTopic(ctx, "t", api.TopicInput{})
	return err
}

func TestRetryOnlyWhatIsSafe(t *testing.T) {
	broken := func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	refusedConn := func() (*http.Response, error) { return nil, errRefused }
	says := func(status int, code string, retryable bool) func() (*http.Response, error) {
		return func() (*http.Response, error) { return refusal(status, code, retryable), nil }
	}
	good := `{"results":[{"id":"x","partition":0,"offset":0}],"failed":0}`
	tests := []struct {
		name  string
		call  func(context.Context, *Client) error
		first func() (*http.Response, error)
		again bool   // a second request is made, which succeeds
		code  string // of the error otherwise
	}{
		{"publish, connection refused", publishBare, refusedConn, true, ""},
		{"publish, connection lost", publishBare, broken, false, "outcome_unknown"},
		{"publish, no leader", publishBare, says(503, "no_leader", true), true, ""},
		{"publish, overloaded", publishBare, says(503, "overloaded", true), true, ""},
		{"publish, rate limited", publishBare, says(429, "rate_limited", true), true, ""},
		{"publish, stale route", publishBare, says(409, "stale_route", true), true, ""},
		{"publish, storage full", publishBare, says(507, "storage_full", true), true, ""},
		{"publish, outcome unknown", publishBare, says(504, "outcome_unknown", true), false, "outcome_unknown"},
		{"publish, internal", publishBare, says(500, "internal", false), false, "internal"},
		{"publish, invalid", publishBare, says(422, "validation_failed", false), false, "validation_failed"},
		{"publish, proxy 502", publishBare, func() (*http.Response, error) { return reply(502, "<html>"), nil }, false, "outcome_unknown"},
		{"publish, answer cut off", publishBare, func() (*http.Response, error) { return reply(201, `{"id":"x`), nil }, false, "outcome_unknown"},
		{"publish without a key, connection lost", publishOne, broken, true, ""},
		{"publish without a key, outcome unknown", publishOne, says(504, "outcome_unknown", true), true, ""},
		{"with key, answer cut off", publishKeyed, func() (*http.Response, error) { return reply(201, `{"id":"x`), nil }, true, ""},
		{"with key, no JSON", publishKeyed, func() (*http.Response, error) { return reply(201, `<html>`), nil }, false, "outcome_unknown"},
		{"batch, connection lost", publishMany, broken, false, "outcome_unknown"},
		{"batch, connection refused", publishMany, refusedConn, true, ""},
		{"with key, connection lost", publishKeyed, broken, true, ""},
		{"with key, outcome unknown", publishKeyed, says(504, "outcome_unknown", true), true, ""},
		{"with key, conflict", publishKeyed, says(409, "idempotency_conflict", false), false, "idempotency_conflict"},
		{"batch with keys, connection lost", batchKeyed, broken, true, ""},
		{"batch with keys, outcome unknown", batchKeyed, says(504, "outcome_unknown", true), true, ""},
		{"batch with a key and without, connection lost", batchHalfKeyed, broken, false, "outcome_unknown"},
		{"receive, connection lost", receive, broken, false, "outcome_unknown"},
		{"receive, no leader", receive, says(503, "no_leader", true), true, ""},
		{"read, answer cut off", describe, func() (*http.Response, error) { return reply(200, `{"na`), nil }, true, ""},
		{"ack, connection lost", ack, broken, true, ""},
		{"ack, outcome unknown", ack, says(504, "outcome_unknown", true), true, ""},
		{"ack, stale", ack, says(409, "receipt_stale", false), false, "receipt_stale"},
		{"read, connection lost", describe, broken, true, ""},
		{"read, draining", describe, says(503, "draining", true), true, ""},
		{"read, not found", describe, says(404, "topic_not_found", false), false, "topic_not_found"},
		{"create, connection lost", createTopic, broken, false, "outcome_unknown"},
		{"create, metadata away", createTopic, says(503, "metadata_unavailable", true), true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
					if n == 0 {
						return tt.first()
					}
					return reply(200, good), nil
				}}
				err := tt.call(t.Context(), over(t, w, Options{}))
				want := 1
				if tt.again {
					want = 2
				}
				if got := len(w.requests()); got != want {
					t.Errorf("%d requests, want %d", got, want)
				}
				var e *Error
				switch {
				case tt.again && err != nil:
					t.Errorf("error %v after the repetition", err)
				case !tt.again && (!errors.As(err, &e) || e.Code != tt.code):
					t.Errorf("error %v, want code %s", err, tt.code)
				}
			})
		})
	}
}

// Once an answer was lost, what refuses the next try says nothing of the one before: unless it is about the message.
func TestLostPublishWithAKeyStaysUnknown(t *testing.T) {
	for code, want := range map[string]string{"no_leader": "outcome_unknown", "idempotency_conflict": "idempotency_conflict"} {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
				switch {
				case n == 0:
					return nil, io.ErrUnexpectedEOF
				case code == "no_leader":
					return refusal(503, code, true), nil
				}
				return refusal(409, code, false), nil
			}}
			err := publishKeyed(t.Context(), over(t, w, Options{Retry: Retry{Attempts: 3}}))
			var e *Error
			if !errors.As(err, &e) || e.Code != want {
				t.Errorf("after %s: %v, want %s", code, err, want)
			}
		})
	}
}

func TestErrorCarriesTheProblem(t *testing.T) {
	w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) {
		return reply(422, `{"code":"validation_failed","title":"T","detail":"D","retryable":false,"request_id":"q",
			"errors":[{"pointer":"/partitions","detail":"must be 1 to 1024"}]}`), nil
	}}
	err := describe(t.Context(), over(t, w, Options{}))
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is no *Error", err)
	}
	if e.Status != 422 || e.Title != "T" || e.Detail != "D" || e.RequestID != "q" || e.Retryable {
		t.Errorf("got %+v", e)
	}
	if want := "validation_failed: D; /partitions: must be 1 to 1024"; e.Error() != want {
		t.Errorf("text %q, want %q", e.Error(), want)
	}
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
			if n == 0 {
				return refusal(503, "overloaded", true, "Retry-After", "7"), nil
			}
			return reply(201, `{"id":"x"}`), nil
		}}
		if err := publishOne(t.Context(), over(t, w, Options{})); err != nil {
			t.Fatal(err)
		}
		got := w.requests()
		if len(got) != 2 || got[1].at.Sub(got[0].at) != 7*time.Second {
			t.Errorf("requests at %v, want two with 7s between", got)
		}
	})
}

func TestRetryGivesUpAtItsBounds(t *testing.T) {
	tests := []struct {
		name  string
		retry Retry
		after string
		want  int
	}{
		{"attempts", Retry{Attempts: 3}, "", 3},
		{"elapsed, at once when the server asks for longer", Retry{Elapsed: time.Minute}, "3600", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) {
					return refusal(503, "no_leader", true, "Retry-After", tt.after), nil
				}}
				err := describe(t.Context(), over(t, w, Options{Retry: tt.retry}))
				var e *Error
				if !errors.As(err, &e) || e.Code != "no_leader" {
					t.Errorf("error %v, want no_leader", err)
				}
				if len(w.requests()) != tt.want {
					t.Errorf("%d requests, want %d", len(w.requests()), tt.want)
				}
				if time.Since(began) > time.Minute {
					t.Errorf("took %s", time.Since(began))
				}
			})
		})
	}
}

func TestContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) {
			return refusal(503, "no_leader", true, "Retry-After", "10"), nil
		}}
		began := time.Now()
		err := describe(ctx, over(t, w, Options{}))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v does not say that the context ended", err)
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != "no_leader" {
			t.Errorf("error %v does not say what it waited for", err)
		}
		if time.Since(began) != 3*time.Second {
			t.Errorf("took %s, want 3s", time.Since(began))
		}
	})
}

func TestAnotherServerIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first string
		w := &wire{}
		w.answer = func(n int, r *http.Request, _ []byte) (*http.Response, error) {
			if n == 0 {
				first = r.URL.Host
			}
			if r.URL.Host == first {
				return nil, errRefused
			}
			return reply(200, `{}`), nil
		}
		c := over(t, w, Options{Servers: []string{"http://a:1", "http://b:1/"}})
		for range 3 {
			if err := describe(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		// The dead one is asked once, then the living one is kept.
		if len(w.requests()) != 4 {
			t.Errorf("%d requests, want 4", len(w.requests()))
		}
	})
}

func TestServerURLs(t *testing.T) {
	for _, bad := range []string{"localhost:8080", "ftp://a", "http://", "http://a?x=1", "://"} {
		if _, err := New(Options{Servers: []string{bad}}); err == nil {
			t.Errorf("server %q is taken", bad)
		}
	}
}

func TestNamesAreOnePathSegment(t *testing.T) {
	w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) { return reply(200, `{}`), nil }}
	c := over(t, w, Options{})
	if _, err := c.Topic(t.Context(), "../a b?c"); err != nil {
		t.Fatal(err)
	}
	if got, want := w.requests()[0].url, "http://one:8080/v1/topics/..%2Fa%20b%3Fc"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}
