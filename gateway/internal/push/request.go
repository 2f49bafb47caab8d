package push

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/splashdam/splashdam/gateway/internal/exact"
	"github.com/splashdam/splashdam/shared/mq"
)

// userAgent names this program to endpoints.
const userAgent = "Splashdam-Webhook/1"

// event is what one request tells an endpoint.
type event struct {
	id      string // the same at every attempt
	topic   string
	group   string
	attempt uint32
	fence   string // "" for a test event
	message *mq.Message
	stamp   int64 // when it was published, Unix nanoseconds
	// partition and offset are where it is; a test event is nowhere.
	partition uint32
	offset    uint64
	test      bool
}

// newRequest builds the request of one attempt that begins now. The timestamp is that of the attempt and not of the
// message, and the signature covers it: an endpoint refuses old ones, and a retry may be days later (museum 31).
func newRequest(ctx context.Context, h *Hook, e *event, now time.Time) (*http.Request, error) {
	m := e.message
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Settings.URL, bytes.NewReader(m.Value))
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // no redirect and no second try of the transport may send it again
	head := r.Header
	for name, value := range h.Settings.Headers {
		head.Set(name, value)
	}
	if head.Get("User-Agent") == "" {
		head.Set("User-Agent", userAgent)
	}
	if m.ContentType != "" {
		head.Set("Content-Type", m.ContentType)
	}
	head.Set("Webhook-Id", e.id)
	head.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	head.Set("Webhook-Signature", signature(h.keys(now), e.id, now, m.Value))
	head.Set("Mq-Topic", e.topic)
	head.Set("Mq-Group", e.group)
	head.Set("Mq-Attempt", strconv.FormatUint(uint64(e.attempt), 10))
	head.Set("Mq-Timestamp", time.Unix(0, e.stamp).UTC().Format(time.RFC3339Nano))
	if e.test {
		head.Set("Mq-Test", "true")
	} else {
		head.Set("Mq-Partition", strconv.FormatUint(uint64(e.partition), 10))
		head.Set("Mq-Offset", strconv.FormatUint(e.offset, 10))
		head.Set("Mq-Fence", e.fence)
	}
	if m.HasKey {
		exact.Add(head, "Mq-Key", string(m.Key))
	}
	for _, x := range m.Headers {
		if lower := strings.ToLower(x.Name); !strings.HasPrefix(lower, "ce-") {
			exact.Add(head, http.CanonicalHeaderKey("Mq-Header-"+lower), x.Value)
		} else if h.Settings.Format == mq.WebhookStandard {
			head.Set(lower, encodeAttribute(x.Value))
		}
		if strings.EqualFold(x.Name, mq.Traceparent) && mq.ValidTraceparent(x.Value) {
			head.Set(mq.Traceparent, x.Value)
		}
	}
	if h.Settings.Format == mq.WebhookCloudEvents {
		cloudEvent(head, e)
	}
	return r, nil
}

// cloudEvent adds the attributes of CloudEvents 1.0 in binary mode. What a message says of itself in ce-* headers
// holds; what it does not say is filled in.
func cloudEvent(head http.Header, e *event) {
	head.Set("ce-specversion", "1.0")
	head.Set("ce-id", e.id)
	head.Set("ce-source", "/v1/topics/"+url.PathEscape(e.topic))
	head.Set("ce-type", "splashdam.message")
	head.Set("ce-time", time.Unix(0, e.stamp).UTC().Format(time.RFC3339Nano))
	if e.message.HasKey && utf8.Valid(e.message.Key) {
		head.Set("ce-partitionkey", encodeAttribute(string(e.message.Key)))
	}
	for _, x := range e.message.Headers {
		if lower := strings.ToLower(x.Name); strings.HasPrefix(lower, "ce-") && lower != "ce-specversion" {
			head.Set(lower, encodeAttribute(x.Value))
		}
	}
}

// encodeAttribute percent-encodes what CloudEvents wants encoded in a header: all but printable ASCII, and the space,
// the double quote and the percent sign.
func encodeAttribute(v string) string {
	var b []byte
	for i := range len(v) {
		if c := v[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			b = fmt.Appendf(b, "%%%02X", c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
