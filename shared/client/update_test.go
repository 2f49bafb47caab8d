package client

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

func TestUpdateGroupKeepsWhatItDoesNotName(t *testing.T) {
	settings := mq.DefaultGroupSettings()
	settings.MaxInFlight, settings.DeadLetterTopic = 77, "dead"
	body, err := json.Marshal(api.Group{Name: "g", Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{answer: func(n int, r *http.Request, _ []byte) (*http.Response, error) {
		switch {
		case n == 1: // somebody changed it between the first read and the first put
			return refusal(412, "precondition_failed", false), nil
		case r.Method == http.MethodGet:
			return reply(200, string(body), "ETag", `"v`+string(rune('0'+n))+`"`), nil
		}
		return reply(200, string(body)), nil
	}}
	lease, initial := api.Duration(time.Minute), api.Duration(5*time.Second)
	_, err = over(t, w, Options{}).UpdateGroup(t.Context(), "t", "g", api.GroupInput{Lease: &lease, Backoff: &api.BackoffInput{Initial: &initial}})
	if err != nil {
		t.Fatal(err)
	}
	got := w.requests()
	if len(got) != 4 || got[1].header.Get("If-Match") != `"v0"` || got[3].header.Get("If-Match") != `"v2"` {
		t.Fatalf("requests %+v", got)
	}
	want := `{"start":{"at":"earliest"},"ordering":"none","mode":"shared","lease":"1m","max_attempts":5,` +
		`"backoff":{"initial":"5s","multiplier":2,"max":"5m","jitter":0.2},"max_in_flight":77,"dead":{"max_count":0,"max_age":"0s","max_bytes":0},` +
		`"lanes":{"mode":"weighted","weights":{"background":1,"critical":16,"high":8,"low":2,"normal":4}},"filter":{},"dead_letter_topic":"dead"}`
	if got[3].body != want {
		t.Errorf("put\n %s\nwant\n %s", got[3].body, want)
	}
}

// A change of a webhook leaves what it does not name; schedule and growing waits replace each other, and attempts that
// followed a schedule follow the next one.
func TestUpdateWebhookRetries(t *testing.T) {
	seconds := func(n ...int) (out []api.Duration) {
		for _, s := range n {
			out = append(out, api.Duration(time.Duration(s)*time.Second))
		}
		return out
	}
	byDefault := mq.DefaultWebhookSettings().Retry // seven waits, eight attempts
	byDefault.Schedule = seconds(1, 2)
	byDefault.MaxAttempts = 3
	chosen := byDefault
	chosen.MaxAttempts = 7
	grows := mq.DefaultWebhookSettings().Retry
	grows.Schedule, grows.MaxAttempts = nil, 10
	initial, seven := api.Duration(9*time.Second), 7
	tests := []struct {
		name   string
		old    mq.WebhookRetry
		change *api.WebhookRetryInput
		want   string
	}{
		{"nothing", byDefault, nil, `{"schedule":["1s","2s"],"jitter":0.2,"max_attempts":3}`},
		{"a schedule", byDefault, &api.WebhookRetryInput{Schedule: seconds(4)}, `{"schedule":["4s"],"jitter":0.2}`},
		{"a schedule, attempts chosen before", chosen, &api.WebhookRetryInput{Schedule: seconds(4)}, `{"schedule":["4s"],"jitter":0.2,"max_attempts":7}`},
		{"a schedule and attempts", byDefault, &api.WebhookRetryInput{Schedule: seconds(4), MaxAttempts: &seven}, `{"schedule":["4s"],"jitter":0.2,"max_attempts":7}`},
		{"growing instead", byDefault, &api.WebhookRetryInput{Initial: &initial}, `{"initial":"9s","multiplier":3,"max":"12h","jitter":0.2}`},
		{"growing otherwise", grows, &api.WebhookRetryInput{Initial: &initial}, `{"initial":"9s","multiplier":3,"max":"12h","jitter":0.2,"max_attempts":10}`},
		{"a schedule instead", grows, &api.WebhookRetryInput{Schedule: seconds(4)}, `{"schedule":["4s"],"jitter":0.2,"max_attempts":10}`},
	}
	for _, tt := range tests {
		got, err := json.Marshal(retries(&tt.old, tt.change))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
