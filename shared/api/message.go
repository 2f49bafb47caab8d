package api

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"
)

// The encodings of a value in JSON. EncodingJSON is for publishing only: the value is any JSON, and its
// text as given is what is stored.
const (
	EncodingUTF8   = "utf8"
	EncodingBase64 = "base64"
	EncodingJSON   = "json"
)

// Message is a stored message as it is answered by reads, and the first part of a Delivery.
type Message struct {
	ID        string `json:"id"`
	Topic     string `json:"topic,omitempty"` // only where the call does not name it
	Partition uint32 `json:"partition"`
	Offset    uint64 `json:"offset"` // left out while State is scheduled
	// Key is nil for a message without a key; an empty key is not the same.
	Key         *string `json:"key,omitempty"`
	KeyEncoding string  `json:"key_encoding,omitempty"` // base64 where the key is not UTF-8
	Value       string  `json:"value"`
	Encoding    string  `json:"encoding"` // utf8, or base64 (asked for, or the value is not UTF-8)
	ContentType string  `json:"content_type,omitempty"`
	// Headers are the message's own headers; of a name that came several times the last one is shown.
	Headers   map[string]string `json:"headers,omitempty"`
	Lane      string            `json:"lane"`
	Timestamp time.Time         `json:"timestamp"`           // when it was published or released, by its leader's clock
	ExpiresAt time.Time         `json:"expires_at,omitzero"` // by its TTL: groups do not get it from then on
	// State is "scheduled" and DeliverAt set while the message waits for its time, which only the call for one message
	// answers.
	State     string    `json:"state,omitempty"`
	DeliverAt time.Time `json:"deliver_at,omitzero"`
}

// Bytes is the message's value as it was published.
func (m *Message) Bytes() ([]byte, error) { return decode(m.Value, m.Encoding) }

// KeyBytes is the message's key as it was published, nil for none.
func (m *Message) KeyBytes() ([]byte, error) {
	if m.Key == nil {
		return nil, nil
	}
	return decode(*m.Key, m.KeyEncoding)
}

func decode(text, encoding string) ([]byte, error) {
	switch encoding {
	case "", EncodingUTF8:
		return []byte(text), nil
	case EncodingBase64:
		return base64.StdEncoding.DecodeString(text)
	}
	return nil, fmt.Errorf("api: encoding %q is not known", encoding)
}

// Delivery is a message that was leased to the caller.
type Delivery struct {
	Message
	// Receipt names this delivery in settle calls; it is opaque.
	Receipt string `json:"receipt"`
	// Fence only grows from one delivery of a message to the next, also across failovers, and fences of one
	// partition compare as text: a downstream store refuses a late worker by keeping the greatest.
	Fence          string    `json:"fence"`
	Attempt        uint32    `json:"attempt"` // 1 for the first
	LeaseExpiresAt time.Time `json:"lease_expires_at"`
}

// FenceLength is the length of a fence: 16 hex digits of the segment number, 16 of the lease counter.
const FenceLength = 32

// AppendFence appends the text form of a fence.
func AppendFence(b []byte, segment, counter uint64) []byte {
	return appendHex(appendHex(b, segment), counter)
}

func appendHex(b []byte, v uint64) []byte {
	var digits [16]byte
	hex := strconv.AppendUint(digits[:0], v, 16)
	for range 16 - len(hex) {
		b = append(b, '0')
	}
	return append(b, hex...)
}

// ReceiveRequest is the body of POST /v1/topics/{t}/groups/{g}/receive. All fields are optional, and so
// is the body; max and wait may also be query parameters.
type ReceiveRequest struct {
	Max        int      `json:"max,omitempty"`       // messages, 1 to 10,000; default 10
	MaxBytes   int      `json:"max_bytes,omitempty"` // of values; default 4 MiB; one message comes whatever its size
	Wait       Duration `json:"wait,omitzero"`       // long poll, at most 30s; default 0s
	Lease      Duration `json:"lease,omitzero"`      // default: the group's setting
	Consumer   string   `json:"consumer,omitempty"`  // shown in traces; default: the caller's address
	Partitions []uint32 `json:"partitions,omitzero"` // only from these; nil: all; an empty list is refused
	Member     string   `json:"member,omitempty"`    // who receives in a group of mode assigned; the call is its sign of life
}

// ReceiveAnswer is the answer to a receive.
type ReceiveAnswer struct {
	Messages []Delivery `json:"messages"`
}

// ReadAnswer is the answer to GET /v1/topics/{t}/messages.
type ReadAnswer struct {
	Messages []Message `json:"messages"`
	// NextCursor goes on after the last message; it is left out where the range that was asked for is done.
	NextCursor string `json:"next_cursor,omitempty"`
	// AtEnd says that there was nothing more when the answer was made; a read without an upper end may go on
	// from NextCursor later.
	AtEnd bool `json:"at_end"`
}

// NextCursorTrailer is the HTTP trailer that carries a read's next cursor where the answer is NDJSON.
const NextCursorTrailer = "Mq-Next-Cursor"
