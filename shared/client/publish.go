package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Message is what is published. Value may be empty and may hold any bytes.
type Message struct {
	// Key keeps messages together in one partition, in order; nil for none, and an empty key is a key. It
	// must be UTF-8.
	Key         *string
	Value       []byte
	ContentType string
	Headers     map[string]string
	Partition   *uint32       // overrides the choice by key
	Lane        string        // priority: critical, high, normal, low or background; "" is normal
	TTL         time.Duration // groups do not get it later than that; 0: no limit
	// IdempotencyKey makes it safe to send the message again: within the topic's window the server answers where the
	// first one is (Published.Duplicate) and stores nothing. With one, the client repeats a publish whose outcome
	// is unknown by itself. 1 to 255 bytes of UTF-8; "" for none. See NewIdempotencyKey.
	IdempotencyKey string
	// Delay or DeliverAt let it wait before it is delivered, a year at most. A time that has passed is now.
	Delay     time.Duration
	DeliverAt time.Time
}

// Keys says whose messages get an idempotency key of their own from the client when they come without one, so that a publish
// whose answer was lost can be sent again and is stored once. A key costs some bytes in the journal and in memory, a batch with
// keys is stored without compression, and a message without a Message.Key goes to the partition that its idempotency key
// chooses. No key is made where Retry.Attempts is 1.
type Keys int

const (
	// KeysForSingles gives one to each message of Publish.
	KeysForSingles Keys = iota
	// KeysForAll gives one to each message of PublishBatch and Publisher as well.
	KeysForAll
	// KeysOfCaller gives none.
	KeysOfCaller
)

// withKey gives m a key if it has none and those that want says get one.
func (c *Client) withKey(m Message, want ...Keys) Message {
	if m.IdempotencyKey == "" && c.retry.Attempts > 1 && slices.Contains(want, c.keys) {
		m.IdempotencyKey = NewIdempotencyKey()
	}
	return m
}

// NewIdempotencyKey is a key that nobody else has: keep it with the message for as long as it may be sent again.
func NewIdempotencyKey() string { return rand.Text() }

// Key makes a Message's Key of a text.
func Key(text string) *string { return &text }

// item is the message's JSON form. Text goes as it is, everything else in base64.
func (m *Message) item() (api.PublishItem, error) {
	if m.Key != nil && !utf8.ValidString(*m.Key) {
		return api.PublishItem{}, badMessage("/key", "a key must be UTF-8")
	}
	item := api.PublishItem{Key: m.Key, ContentType: m.ContentType, Headers: m.Headers, Partition: m.Partition, Lane: m.Lane, TTL: api.Duration(m.TTL),
		Delay: api.Duration(m.Delay), DeliverAt: m.DeliverAt}
	if m.IdempotencyKey != "" {
		key := m.IdempotencyKey
		if item.IdempotencyKey = &key; !utf8.ValidString(m.IdempotencyKey) {
			return api.PublishItem{}, badMessage("/idempotency_key", "an idempotency key must be UTF-8")
		}
	}
	text := string(m.Value)
	if !utf8.ValidString(text) {
		text, item.Encoding = base64.StdEncoding.EncodeToString(m.Value), api.EncodingBase64
	}
	var err error
	item.Value, err = json.Marshal(text)
	return item, err
}

func badMessage(pointer, detail string) *Error {
	return &Error{Code: mqerr.ValidationFailed.String(), Title: mqerr.ValidationFailed.Title(),
		Fields: []mqerr.Field{{Pointer: pointer, Detail: detail}}}
}

// Publish stores one message and returns when it is committed. A lost answer is asked for again, with a key of the client's
// own if the message has none (see Keys). With an error for which IsOutcomeUnknown holds, the message may be stored all the
// same; publishing it again may store it twice, unless it has an IdempotencyKey that the caller keeps.
func (c *Client) Publish(ctx context.Context, topic string, m Message) (api.Published, error) {
	m = c.withKey(m, KeysForSingles, KeysForAll)
	if !m.rawSafe() {
		results, err := c.PublishBatch(ctx, topic, []Message{m})
		if err != nil {
			return api.Published{}, err
		}
		return results[0].Published, results[0].Err
	}
	q := &call{method: http.MethodPost, path: pathOf("topics", topic, "messages"), header: http.Header{}, body: m.Value}
	if m.Key != nil {
		q.header.Set("Mq-Key", *m.Key)
	}
	if m.IdempotencyKey != "" {
		q.header.Set("Idempotency-Key", m.IdempotencyKey)
		q.keyed = true
	}
	if m.ContentType != "" {
		q.header.Set("Content-Type", m.ContentType)
	}
	if m.Lane != "" {
		q.header.Set("Mq-Lane", m.Lane)
	}
	if m.Partition != nil {
		q.header.Set("Mq-Partition", strconv.FormatUint(uint64(*m.Partition), 10))
	}
	if m.TTL > 0 {
		q.header.Set("Mq-Ttl", m.TTL.String())
	}
	if m.Delay != 0 {
		q.header.Set("Mq-Delay", m.Delay.String())
	}
	if !m.DeliverAt.IsZero() {
		q.header.Set("Mq-Deliver-At", m.DeliverAt.Format(time.RFC3339Nano))
	}
	var out api.Published
	_, err := c.exchange(ctx, q, &out)
	return out, err
}

// rawSafe says whether the message survives as a raw body with HTTP headers: these lose the case of names,
// blanks at the ends and everything that is not printable. An x-ndjson body would be taken as a stream.
func (m *Message) rawSafe() bool {
	return len(m.Headers) == 0 && (m.Key == nil || headerSafe(*m.Key)) &&
		(m.IdempotencyKey == "" || headerSafe(m.IdempotencyKey)) && (m.Lane == "" || headerSafe(m.Lane)) &&
		(m.ContentType == "" || headerSafe(m.ContentType)) && !strings.Contains(strings.ToLower(m.ContentType), "ndjson")
}

func headerSafe(s string) bool {
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Result is what became of one message of a batch: where it is stored, or Err (an *Error).
type Result struct {
	api.Published
	Err error
}

// PublishBatch stores messages, each for itself: the results are in their order, and some may have failed
// though the error is nil. Messages that were refused with a code that says nothing was stored are sent
// again within the bounds of Retry, and those whose outcome is unknown if they have an idempotency key; with several partitions or a batch over 1 MiB this may change the
// order of what was refused against what was not. When the error is not nil there are no results, and
// it holds for all messages.
func (c *Client) PublishBatch(ctx context.Context, topic string, messages []Message) ([]Result, error) {
	results := make([]Result, len(messages))
	items := make([]api.PublishItem, 0, len(messages))
	place := make([]int, 0, len(messages)) // of each item in results
	for i := range messages {
		m := c.withKey(messages[i], KeysForAll)
		item, err := m.item()
		if err != nil {
			results[i].Err = err
			continue
		}
		items, place = append(items, item), append(place, i)
	}
	pauses, began := c.retry.pauses(), time.Now()
	for attempt := 1; len(items) > 0; attempt++ {
		var answer api.PublishBatchAnswer
		q, err := newCall(http.MethodPost, pathOf("topics", topic, "messages", "batch"), api.PublishBatch{Messages: items}, false)
		if err == nil {
			q.keyed = allKeyed(items)
			_, err = c.exchange(ctx, q, &answer)
		}
		if err == nil && len(answer.Results) != len(items) {
			err = &Error{Code: codeOutcomeUnknown, Detail: "the answer has not one result for each message"}
		}
		if err != nil && attempt == 1 {
			return nil, err
		}
		items, place = settleItems(results, items, place, answer.Results, err)
		if len(items) == 0 || attempt >= c.retry.Attempts || time.Since(began) > c.retry.Elapsed {
			break
		}
		c.log.Info("trying again", "err", results[place[0]].Err)
		if !sleep(ctx, pauses.NextBackOff()) {
			break
		}
	}
	return results, nil
}

// settleItems files each item's result and keeps those that were refused for now. With err none was
// answered, and it is the result of all. What may have been stored by an earlier try stays unknown until it is stored, or
// the server says that it never will be.
func settleItems(results []Result, items []api.PublishItem, place []int, answers []api.PublishResult, err error) ([]api.PublishItem, []int) {
	kept := 0
	for i, at := range place {
		lost := IsOutcomeUnknown(results[at].Err)
		one := Result{Err: err}
		if err == nil {
			one = resultOf(&answers[i])
		}
		e, failed := one.Err.(*Error)
		if err == nil && failed && e.Retryable && (!e.OutcomeUnknown() || items[i].IdempotencyKey != nil) {
			items[kept], place[kept] = items[i], at
			kept++
		}
		if lost && one.Err != nil && !IsOutcomeUnknown(one.Err) && !refused(one.Err) {
			one.Err = unknown(one.Err)
		}
		results[at] = one
	}
	return items[:kept], place[:kept]
}

// resultOf is one result of an answer.
func resultOf(r *api.PublishResult) Result {
	if r.Error != nil {
		return Result{Err: itemError(r.Error)}
	}
	return Result{Published: api.Published{ID: r.ID, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Duplicate: r.Duplicate,
		DeliverAt: r.DeliverAt}}
}

// allKeyed says that the server knows each of the messages again, so that the request may be sent twice.
func allKeyed(items []api.PublishItem) bool {
	return !slices.ContainsFunc(items, func(i api.PublishItem) bool { return i.IdempotencyKey == nil })
}

func itemError(e *api.ItemError) *Error {
	return &Error{Code: e.Code, Detail: e.Detail, Retryable: e.Retryable, Fields: e.Errors}
}
