package push

import (
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

func TestWhatAnswersMean(t *testing.T) {
	for status, want := range map[int]struct {
		act act
		v   verdict
	}{
		200: {actAck, wellOff}, 202: {actAck, wellOff}, 204: {actAck, wellOff}, 299: {actAck, wellOff},
		0: {actRetry, unwell}, 301: {actRetry, unwell}, 304: {actRetry, unwell}, 400: {actRetry, wellOff}, 401: {actRetry, unwell},
		404: {actRetry, unwell}, 409: {actRetry, wellOff}, 422: {actRetry, wellOff}, 429: {actRetry, unwell}, 410: {actDisable, unwell},
		500: {actRetry, unwell}, 503: {actRetry, unwell}, 599: {actRetry, unwell},
	} {
		if act, v := judge(&answer{status: status}); act != want.act || v != want.v {
			t.Errorf("%d: act %d, verdict %d", status, act, v)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "17": 17 * time.Second, " 17 ": 17 * time.Second, "-1": 0, "soon": 0, "1.5": 0,
		"86400": 24 * time.Hour, "86401": 24 * time.Hour, "99999999999999999999999999": 24 * time.Hour,
		"Sun, 01 Mar 2026 12:01:30 GMT": 90 * time.Second, "Sun, 01 Mar 2026 11:59:00 GMT": 0, "Mon, 01 Mar 2027 12:00:00 GMT": 24 * time.Hour,
		"Sunday, 01-Mar-26 12:00:05 GMT": 5 * time.Second,
	} {
		if got := parseRetryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestWaitsBetweenAttempts(t *testing.T) {
	minutes := func(n ...time.Duration) (out []mq.Duration) {
		for _, m := range n {
			out = append(out, mq.Duration(m*time.Minute))
		}
		return out
	}
	schedule := mq.WebhookRetry{Schedule: minutes(1, 5, 30), Jitter: 0.2}
	grows := mq.WebhookRetry{Initial: mq.Duration(time.Second), Multiplier: 3, Max: mq.Duration(20 * time.Second)}
	busy := answer{status: http.StatusTooManyRequests, retryAfter: 10 * time.Minute}
	tests := []struct {
		r       mq.WebhookRetry
		attempt uint32
		a       answer
		chance  float64
		want    time.Duration
	}{
		{schedule, 1, answer{}, 0.5, time.Minute}, {schedule, 2, answer{}, 0.5, 5 * time.Minute}, {schedule, 3, answer{}, 0.5, 30 * time.Minute},
		{schedule, 9, answer{}, 0.5, 30 * time.Minute}, // the last one repeats
		{schedule, 1, answer{}, 0, 48 * time.Second}, {schedule, 1, answer{}, 1, 72 * time.Second},
		{grows, 1, answer{}, 0.5, time.Second}, {grows, 2, answer{}, 0.5, 3 * time.Second}, {grows, 3, answer{}, 0.5, 9 * time.Second},
		{grows, 4, answer{}, 0.5, 20 * time.Second}, {grows, 4_000_000_000, answer{}, 0.5, 20 * time.Second},
		{schedule, 1, busy, 0, 10 * time.Minute}, {schedule, 3, busy, 0.5, 30 * time.Minute}, // never sooner than either says
		{schedule, 1, answer{status: 500, retryAfter: time.Hour}, 0.5, time.Minute},
	}
	for _, tt := range tests {
		if got := delay(&tt.r, tt.attempt, &tt.a, tt.chance); got != tt.want {
			t.Errorf("attempt %d, status %d, chance %g: %s, want %s", tt.attempt, tt.a.status, tt.chance, got, tt.want)
		}
	}
}

func TestRecordsAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Record{Attempt: rapid.Uint32().Draw(t, "attempt"), Gateway: rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,20}`).Draw(t, "gateway"),
			Status: rapid.SampledFrom([]int{0, 200, 404, 503}).Draw(t, "status"),
			Took:   round(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "took"))),
			Detail: rapid.StringMatching(`[ -~]{0,80}`).Draw(t, "detail")}
		if got, ok := ParseRecord(r.String()); !ok || got != r {
			t.Fatalf("%q was read as %+v, want %+v", r.String(), got, r)
		}
	})
	for _, other := range []string{"", "boom", "the lease ran out", "500 in", "500 in 3ms", "500 in 3ms, attempt x by g", "9 in 3ms, attempt 1 by g", "500 in 3ms, attempt 1 by "} {
		if r, ok := ParseRecord(other); ok {
			t.Errorf("%q is taken for an attempt: %+v", other, r)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add("500 in 34ms, attempt 3 by gateway-1: out of memory")
	f.Add("no answer in 15s, attempt 1 by g")
	f.Fuzz(func(t *testing.T, s string) {
		if r, ok := ParseRecord(s); ok {
			if again, ok := ParseRecord(r.String()); !ok || again.Attempt != r.Attempt || again.Status != r.Status {
				t.Errorf("%q: %+v, then %+v", s, r, again)
			}
		}
	})
}
