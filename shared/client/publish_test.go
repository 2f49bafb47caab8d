package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/splashdam/splashdam/shared/api"
)

func TestPublishChoosesAFormThatKeepsTheMessage(t *testing.T) {
	tests := []struct {
		name string
		m    Message
		raw  bool
	}{
		{"plain", Message{Value: []byte("a")}, true},
		{"any bytes", Message{Value: []byte{0, 255}}, true},
		{"key", Message{Key: Key("k")}, true},
		{"empty key", Message{Key: Key("")}, false},
		{"key with a line break", Message{Key: Key("a\nb")}, false},
		{"key that is not ASCII", Message{Key: Key("ü")}, false},
		{"key that ends with a blank", Message{Key: Key("a ")}, false},
		{"headers, whose names keep their case", Message{Headers: map[string]string{"fOo": "b"}}, false},
		{"content type of a stream", Message{ContentType: "application/x-NDJSON"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) {
				return reply(200, `{"results":[{"id":"x","partition":1,"offset":5}],"id":"x","partition":1,"offset":5}`), nil
			}}
			got, err := over(t, w, Options{}).Publish(t.Context(), "t", tt.m)
			if err != nil || got.ID != "x" || got.Partition != 1 || got.Offset != 5 {
				t.Fatalf("got %+v, %v", got, err)
			}
			url := "http://one:8080/v1/topics/t/messages"
			if !tt.raw {
				url += "/batch"
			}
			if w.requests()[0].url != url {
				t.Errorf("asked %s, want %s", w.requests()[0].url, url)
			}
		})
	}
}

func TestBatchEncodesValues(t *testing.T) {
	w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) {
		return reply(200, `{"results":[{},{},{}]}`), nil
	}}
	_, err := over(t, w, Options{}).PublishBatch(t.Context(), "t", []Message{
		{Value: []byte(`say "hi"`)}, {Value: []byte{0xff, 0x00}}, {Value: nil, Key: Key("")}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"messages":[{"value":"say \"hi\""},{"value":"/wA=","encoding":"base64"},{"value":"","key":""}]}`
	if got := w.requests()[0].body; got != want {
		t.Errorf("body\n %s\nwant\n %s", got, want)
	}
}

func TestBatchRepeatsOnlyWhatWasRefusedForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
			if n == 0 {
				return reply(207, `{"failed":3,"results":[
					{"id":"a","partition":0,"offset":1},
					{"error":{"code":"no_leader","retryable":true}},
					{"error":{"code":"outcome_unknown","retryable":true}},
					{"error":{"code":"message_too_large","retryable":false}}]}`), nil
			}
			return reply(200, `{"failed":0,"results":[{"id":"b","partition":1,"offset":7}]}`), nil
		}}
		results, err := over(t, w, Options{}).PublishBatch(t.Context(), "t", []Message{
			{Value: []byte("A")}, {Value: []byte("B")}, {Value: []byte("C")}, {Value: []byte("D")}, {Key: Key("\xff")}})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.requests(); len(got) != 2 || got[1].body != `{"messages":[{"value":"B"}]}` {
			t.Fatalf("requests %+v, want a second one with B only", got)
		}
		if results[0].ID != "a" || results[1].ID != "b" || results[1].Offset != 7 || results[1].Err != nil {
			t.Errorf("results %+v", results)
		}
		for i, code := range []string{2: "outcome_unknown", 3: "message_too_large", 4: "validation_failed"} {
			if code == "" {
				continue
			}
			if e, ok := results[i].Err.(*Error); !ok || e.Code != code {
				t.Errorf("result %d: %v, want %s", i, results[i].Err, code)
			}
		}
	})
}

func TestBatchRepeatsWhatIsUnknownIfItHasAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
			if n == 0 {
				return reply(207, `{"failed":2,"results":[
					{"error":{"code":"outcome_unknown","retryable":true}},
					{"error":{"code":"outcome_unknown","retryable":true}}]}`), nil
			}
			return reply(200, `{"failed":0,"results":[{"id":"b","partition":1,"offset":7,"duplicate":true}]}`), nil
		}}
		results, err := over(t, w, Options{}).PublishBatch(t.Context(), "t", []Message{{Value: []byte("A")}, {Value: []byte("B"), IdempotencyKey: "k"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.requests(); len(got) != 2 || got[1].body != `{"messages":[{"value":"B","idempotency_key":"k"}]}` {
			t.Fatalf("requests %+v, want a second one with B only", got)
		}
		if !IsOutcomeUnknown(results[0].Err) || results[1].Err != nil || !results[1].Duplicate {
			t.Errorf("%+v", results)
		}
	})
}

// What refuses the next try of a message says nothing of the one before: unless it is about the message.
func TestMessageOfABatchStaysUnknown(t *testing.T) {
	for code, want := range map[string]string{"no_leader": "outcome_unknown", "idempotency_conflict": "idempotency_conflict"} {
		for name, next := range map[string]func() *http.Response{
			"one message": func() *http.Response {
				return reply(207, fmt.Sprintf(`{"failed":1,"results":[{"error":{"code":%q,"retryable":%v}}]}`, code, code == "no_leader"))
			},
			"the whole request": func() *http.Response { return refusal(503, code, code == "no_leader") },
		} {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
					if n == 0 {
						return reply(207, `{"failed":1,"results":[{"error":{"code":"outcome_unknown","retryable":true}}]}`), nil
					}
					return next(), nil
				}}
				results, err := over(t, w, Options{Retry: Retry{Attempts: 3}}).PublishBatch(t.Context(), "t", []Message{{IdempotencyKey: "k"}})
				var e *Error
				if err != nil || len(w.requests()) < 2 || !errors.As(results[0].Err, &e) || e.Code != want {
					t.Errorf("%s is refused with %s: %+v, %v, want %s", name, code, results, err, want)
				}
			})
		}
	}
}

func TestBatchWithTooFewResultsIsUnknown(t *testing.T) {
	w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) { return reply(200, `{"results":[]}`), nil }}
	if _, err := over(t, w, Options{}).PublishBatch(t.Context(), "t", []Message{{}}); !IsOutcomeUnknown(err) {
		t.Errorf("error %v, want outcome_unknown", err)
	}
}

func TestReceiveDecodes(t *testing.T) {
	answer := `{"messages":[{"id":"i","partition":2,"offset":9,"key":"/w==","key_encoding":"base64","value":"AP8=",
		"encoding":"base64","lane":"normal","timestamp":"2026-01-02T03:04:05Z","receipt":"r","fence":"f","attempt":3,
		"headers":{"A":"b"},"a_later_field":1}]}`
	w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) { return reply(200, answer), nil }}
	got, err := over(t, w, Options{}).Receive(t.Context(), "t", "g", api.ReceiveRequest{Max: 5, Wait: api.Duration(2e9)})
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	d := got[0]
	if string(d.Value) != "\x00\xff" || string(d.Key) != "\xff" || d.Attempt != 3 || d.Receipt != "r" || d.Topic != "t" || d.Headers["A"] != "b" {
		t.Errorf("got %+v", d)
	}
	var sent map[string]any
	if err := json.Unmarshal([]byte(w.requests()[0].body), &sent); err != nil || sent["wait"] != "2s" || sent["max"] != 5.0 {
		t.Errorf("sent %v, %v", sent, err)
	}
}

func TestMessagesFollowsCursors(t *testing.T) {
	w := &wire{answer: func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
		if n == 0 {
			return reply(200, `{"messages":[{"id":"a"},{"id":"b"}],"next_cursor":"c1"}`), nil
		}
		return reply(200, `{"messages":[{"id":"c"}],"next_cursor":"c2","at_end":true}`), nil
	}}
	var ids string
	for m, err := range over(t, w, Options{}).Messages(t.Context(), "t", ReadOptions{From: "earliest", Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		ids += m.ID
	}
	if ids != "abc" || len(w.requests()) != 2 {
		t.Errorf("read %s in %d requests", ids, len(w.requests()))
	}
	if got, want := w.requests()[1].url, "http://one:8080/v1/topics/t/messages?cursor=c1&from=earliest&limit=2"; got != want {
		t.Errorf("second request %s, want %s", got, want)
	}
}
