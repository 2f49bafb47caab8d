package api

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// HiddenValue stands for the value of a webhook's header, which may be a password.
const HiddenValue = "***"

// WebhookInput is the body of PUT of a webhook. What is nil gets its default; but for the secret and the start, which
// stay as they are when a webhook is replaced.
type WebhookInput struct {
	URL string `json:"url"`
	// Secret is whsec_ and 24 to 64 bytes as base64; without one a new webhook gets a random one. Later it changes by
	// rotate-secret only.
	Secret *string `json:"secret,omitempty"`
	Format *string `json:"format,omitempty"` // standard or cloudevents
	// Headers are sent with every request. Answers show HiddenValue for their values, which in a PUT keeps what is there.
	Headers     map[string]string    `json:"headers,omitempty"`
	Start       *StartInput          `json:"start,omitempty"` // counts when the webhook is made
	Ordering    *string              `json:"ordering,omitempty"`
	MaxInFlight *int                 `json:"max_in_flight,omitempty"`
	Rate        *float64             `json:"rate,omitempty"` // a second, 0 for no limit
	Timeout     *Duration            `json:"timeout,omitempty"`
	Retry       *WebhookRetryInput   `json:"retry,omitempty"`
	Circuit     *WebhookCircuitInput `json:"circuit,omitempty"`
	// DeadLetterTopic is where dead letters are published, too; empty for nowhere.
	DeadLetterTopic *string `json:"dead_letter_topic,omitempty"`
	AllowPrivate    *bool   `json:"allow_private,omitempty"`
}

// WebhookRetryInput says how long failed messages wait: the delays of a schedule, or growing ones.
type WebhookRetryInput struct {
	Schedule    []Duration `json:"schedule,omitempty"`
	Initial     *Duration  `json:"initial,omitempty"`
	Multiplier  *float64   `json:"multiplier,omitempty"`
	Max         *Duration  `json:"max,omitempty"`
	Jitter      *float64   `json:"jitter,omitempty"`
	MaxAttempts *int       `json:"max_attempts,omitempty"` // 0: no limit
}

// WebhookCircuitInput says when an endpoint is left alone.
type WebhookCircuitInput struct {
	Failures *int      `json:"failures,omitempty"` // in a row; 0: never
	Open     *Duration `json:"open,omitempty"`
	MaxOpen  *Duration `json:"max_open,omitempty"`
}

// StateDisabled is the state of a webhook that paused itself: its endpoint answered 410.
const StateDisabled = "disabled"

// Webhook is one webhook with its settings and figures. Its ETag is that of the settings.
type Webhook struct {
	Name  string `json:"name"`
	Topic string `json:"topic"`
	// Group is the group behind it: its dead letters are listed and redriven like those of any group.
	Group string `json:"group"`
	State string `json:"state"` // ready, starting, paused or disabled
	// Reason says why it is disabled.
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created"`
	// Secret is shown once: when it was made or rotated.
	Secret   string             `json:"secret,omitempty"`
	Secrets  []WebhookSecret    `json:"secrets"`
	Settings mq.WebhookSettings `json:"settings"`
	GroupFigures
	Recent   WebhookRecent    `json:"recent"`
	Gateways []WebhookGateway `json:"gateways"`
	Partial  bool             `json:"partial,omitempty"` // some leaders did not answer
	// DryRun: the answer to a rotation that only says what it would be; a random secret is not made then.
	DryRun bool `json:"dry_run,omitempty"`
}

// WebhookSecret tells secrets apart without showing them.
type WebhookSecret struct {
	Fingerprint string    `json:"fingerprint"` // the first 8 hex digits of the SHA-256 of its text
	Created     time.Time `json:"created"`
	Until       time.Time `json:"until,omitzero"` // when it ends to sign
}

// WebhookRecent sums the newest attempts up, at most an hour's.
type WebhookRecent struct {
	Attempts int       `json:"attempts"`
	Since    time.Time `json:"since,omitzero"` // the oldest of them
	// SuccessRate is the share that was acked, 0 to 1; left out without attempts.
	SuccessRate *float64         `json:"success_rate,omitempty"`
	LastErrors  []WebhookAttempt `json:"last_errors,omitempty"` // the newest ones first
}

// WebhookGateway is what a gateway does for a webhook.
type WebhookGateway struct {
	Gateway    string   `json:"gateway"`
	Partitions []uint32 `json:"partitions"`
	// Circuit is closed, or open while the endpoint is left alone until Until; it is known of the gateway that
	// answers only, and left out for the others.
	Circuit string    `json:"circuit,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	// InFlight are requests under way; of the gateway that answers only.
	InFlight *int `json:"in_flight,omitempty"`
}

// WebhookSummary is a webhook in a list.
type WebhookSummary struct {
	Name  string `json:"name"`
	URL   string `json:"url"`
	State string `json:"state"`
	GroupFigures
	Partial bool `json:"partial,omitempty"`
}

// WebhookList is the answer to GET /v1/topics/{t}/webhooks, by name. A topic has at most 100.
type WebhookList struct {
	Webhooks []WebhookSummary `json:"webhooks"`
}

// WebhookAttempt is one request that was made for a message.
type WebhookAttempt struct {
	ID        string    `json:"id"` // of the message
	Partition uint32    `json:"partition"`
	Offset    uint64    `json:"offset"`
	At        time.Time `json:"at"`
	Attempt   uint32    `json:"attempt"`
	Result    string    `json:"result"`           // acked, failed, postponed (not counted) or dead
	Status    int       `json:"status,omitempty"` // left out if no answer came
	Duration  Duration  `json:"duration"`
	Gateway   string    `json:"gateway"`
	Detail    string    `json:"detail,omitempty"` // what went wrong, or the begin of an answer that refuses
	RetryAt   time.Time `json:"retry_at,omitzero"`
}

// WebhookAttempts is the answer to GET …/webhooks/{w}/attempts: the newest first, or with ?message= all of one
// message, in order.
type WebhookAttempts struct {
	Attempts []WebhookAttempt `json:"attempts"`
	Partial  bool             `json:"partial,omitempty"`
}

// WebhookRotation is the body of POST …/webhooks/{w}/rotate-secret.
type WebhookRotation struct {
	Secret *string `json:"secret,omitempty"` // a random one if left out
	// Overlap is how long the old secret goes on signing beside the new one (24h).
	Overlap *Duration `json:"overlap,omitempty"`
}

// WebhookReplay is the body of POST …/webhooks/{w}/replay. The answer is a SeekResult.
type WebhookReplay struct {
	// Since is a time (RFC 3339), or how long ago it is (2h): everything that was published since is sent again.
	Since string `json:"since"`
}

// WebhookTest is the body of POST …/webhooks/{w}/test, and all of it is optional.
type WebhookTest struct {
	Value       *string           `json:"value,omitempty"`
	ContentType *string           `json:"content_type,omitempty"`
	Key         *string           `json:"key,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

// WebhookTestAnswer is what came of a test. Nothing of it is stored.
type WebhookTestAnswer struct {
	ID         string    `json:"id"` // webhook-id
	OK         bool      `json:"ok"` // 2xx
	Status     int       `json:"status,omitempty"`
	Duration   Duration  `json:"duration"`
	SentAt     time.Time `json:"sent_at"` // webhook-timestamp
	Gateway    string    `json:"gateway"`
	Detail     string    `json:"detail,omitempty"`
	RetryAfter Duration  `json:"retry_after,omitzero"`
	SignedWith []string  `json:"signed_with"` // fingerprints of the secrets
	Hint       string    `json:"hint,omitempty"`
}
