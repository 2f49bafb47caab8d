package api

import (
	"encoding/json"
	"time"
)

// PublishItem is one message of a batch, and one line of a publish stream.
type PublishItem struct {
	// Value is a JSON string for encoding utf8 (the default) and base64, any JSON for encoding json.
	Value       json.RawMessage   `json:"value"`
	Encoding    string            `json:"encoding,omitempty"`
	Key         *string           `json:"key,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Partition   *uint32           `json:"partition,omitempty"` // default: by the key's hash, or any
	Lane        string            `json:"lane,omitempty"`      // critical, high, normal (the default), low or background
	TTL         Duration          `json:"ttl,omitzero"`        // groups do not get it later than that; default: no limit
	// IdempotencyKey makes sending the message again safe: within the window the first one's place is answered.
	IdempotencyKey *string `json:"idempotency_key,omitempty"`
	// Delay or DeliverAt let the message wait, a year at most. A time that has passed is now.
	Delay     Duration  `json:"delay,omitzero"`
	DeliverAt time.Time `json:"deliver_at,omitzero"`
}

// PublishBatch is the body of POST /v1/topics/{t}/messages/batch.
type PublishBatch struct {
	Messages []PublishItem `json:"messages"`
}

// Published is the answer to one message, sent when it is committed.
type Published struct {
	ID        string `json:"id"`
	Partition uint32 `json:"partition"`
	// Offset means nothing for a scheduled message: it has DeliverAt, or, as a Duplicate that was released, only its ID.
	Offset    uint64    `json:"offset"`
	Timestamp time.Time `json:"timestamp,omitzero"`
	// Duplicate says that an earlier try with the same idempotency key stored the message; ID, Partition, Offset and
	// Timestamp are those of then.
	Duplicate bool `json:"duplicate,omitempty"`
	// DeliverAt is when a scheduled message is delivered: it has no offset until then.
	DeliverAt time.Time `json:"deliver_at,omitzero"`
}

// PublishResult is one result of a batch, and one line of a publish stream's answer. Where Error is set
// the other fields mean nothing.
type PublishResult struct {
	ID        string     `json:"id,omitempty"`
	Partition uint32     `json:"partition"`
	Offset    uint64     `json:"offset"`
	Timestamp time.Time  `json:"timestamp,omitzero"`
	Duplicate bool       `json:"duplicate,omitempty"`
	DeliverAt time.Time  `json:"deliver_at,omitzero"`
	Error     *ItemError `json:"error,omitempty"`
}

// PublishBatchAnswer is the answer to a batch: 200, or 207 when some failed. Results are in the order of
// the messages. A batch is not atomic: each message stands for itself.
type PublishBatchAnswer struct {
	Results []PublishResult `json:"results"`
	Failed  int             `json:"failed"`
}

// PublishRun is a run of messages that got neighbouring offsets, in the order of the batch; with Error, a
// run of messages that failed alike. A scheduled message is a run of its own, with its id instead of an offset.
type PublishRun struct {
	DeliverAt time.Time `json:"deliver_at,omitzero"`
	// Partition is nil for messages that were refused before they had one.
	Partition *uint32 `json:"partition,omitempty"`
	// FirstOffset is nil where there is none: of a scheduled message, and of those that failed.
	FirstOffset *uint64    `json:"first_offset,omitempty"`
	Count       int        `json:"count"`
	Duplicate   bool       `json:"duplicate,omitempty"` // a run of its own, whose message has ID
	ID          string     `json:"id,omitempty"`
	Error       *ItemError `json:"error,omitempty"`
}

// PublishRunsAnswer is the answer to a batch with ?results=runs.
type PublishRunsAnswer struct {
	Runs   []PublishRun `json:"runs"`
	Failed int          `json:"failed"`
}
