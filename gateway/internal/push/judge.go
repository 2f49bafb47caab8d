package push

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// act is what is done with a message after an attempt.
type act uint8

const (
	actAck     act = iota // it is done
	actRetry              // it failed, and waits
	actDisable            // the endpoint is gone for good: the webhook is disabled, the message stays
)

// judge says what an answer means for its message, and what it says about the endpoint.
func judge(a *answer) (act, verdict) {
	switch {
	case a.status == http.StatusGone:
		return actDisable, unwell
	case a.status >= 200 && a.status <= 299:
		return actAck, wellOff
	case aboutMessage(a.status):
		return actRetry, wellOff
	}
	return actRetry, unwell
}

// aboutMessage lists the answers that refuse one message and not all. A missing path, credentials that don't work
// and redirects would meet every message.
func aboutMessage(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// holdsBack says whether an answer asks for a pause of everything (429 and 503 with Retry-After).
func holdsBack(a *answer) bool {
	return a.retryAfter > 0 && (a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable)
}

// mostHold bounds how long an answer may stop a webhook: its own messages wait as long as it says (up to
// mq.MaxBackoff), but others are tried sooner than that.
const mostHold = 15 * time.Minute

// delay is how long a message waits after its attempt failed. chance, from 0 to 1, is the jitter.
func delay(r *mq.WebhookRetry, attempt uint32, a *answer, chance float64) time.Duration {
	wait := time.Duration(r.Initial)
	if n := len(r.Schedule); n > 0 {
		wait = time.Duration(r.Schedule[min(int(max(attempt, 1)), n)-1])
	} else {
		for range min(max(attempt, 1)-1, 64) {
			if wait = time.Duration(float64(wait) * r.Multiplier); wait >= time.Duration(r.Max) {
				break
			}
		}
		wait = min(wait, time.Duration(r.Max))
	}
	wait = time.Duration(float64(wait) * (1 + r.Jitter*(2*chance-1)))
	if holdsBack(a) {
		wait = max(wait, a.retryAfter) // never sooner than it asked for
	}
	return min(wait, mq.MaxBackoff)
}

// parseRetryAfter reads seconds or a date; 0 for what is neither, is past, or is not there. At most mq.MaxBackoff.
func parseRetryAfter(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(v, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(mq.MaxBackoff/time.Second))) * time.Second
	}
	if digits := strings.Trim(v, "0123456789"); digits == "" {
		return mq.MaxBackoff // more seconds than a number holds
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), mq.MaxBackoff))
}
