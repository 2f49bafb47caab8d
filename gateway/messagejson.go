package gateway

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/exact"
	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/gateway/internal/replay"
	"github.com/splashdam/splashdam/shared/mq"
)

// where is what is answered of a message beside itself.
type where struct {
	offset uint64
	stored bool  // it has an offset: all but schedules that are not due yet
	stamp  int64 // Unix nanoseconds
	base64 bool  // the value is written so in any case
}

// appendMessage appends the fields of an api.Message behind an opening brace, without the topic and the
// closing brace. Of a header that came several times the last one is written, since JSON objects have each name
// once.
func appendMessage(b []byte, id mq.MessageID, m *mq.Message, at where) []byte {
	b = append(b, `"id":"`...)
	b = id.AppendTo(b)
	b = append(b, `","partition":`...)
	b = strconv.AppendUint(b, uint64(id.Partition.Number), 10)
	if at.stored {
		b = append(b, `,"offset":`...)
		b = strconv.AppendUint(b, at.offset, 10)
	}
	if m.HasKey {
		if utf8.Valid(m.Key) {
			b = jsonscan.AppendString(append(b, `,"key":`...), m.Key)
		} else {
			b = append(b, `,"key":"`...)
			b = base64.StdEncoding.AppendEncode(b, m.Key)
			b = append(b, `","key_encoding":"base64"`...)
		}
	}
	if !at.base64 && utf8.Valid(m.Value) {
		b = jsonscan.AppendString(append(b, `,"value":`...), m.Value)
		b = append(b, `,"encoding":"utf8"`...)
	} else {
		b = append(b, `,"value":"`...)
		b = base64.StdEncoding.AppendEncode(b, m.Value)
		b = append(b, `","encoding":"base64"`...)
	}
	if m.ContentType != "" {
		b = jsonscan.AppendString(append(b, `,"content_type":`...), m.ContentType)
	}
	b = appendHeaders(b, m.Headers)
	b = append(b, `,"lane":"`...)
	b = append(b, m.Lane.String()...)
	b = append(b, `","timestamp":"`...)
	b = time.Unix(0, at.stamp).UTC().AppendFormat(b, time.RFC3339Nano)
	if m.TTL > 0 {
		b = append(b, `","expires_at":"`...)
		b = appendTime(b, at.stamp+m.TTL)
	}
	return append(b, '"')
}

func appendHeaders(b []byte, headers []mq.Header) []byte {
	first := true
	for i, h := range headers {
		if repeated(headers[i+1:], h.Name) {
			continue
		}
		if first {
			b = append(b, `,"headers":{`...)
			first = false
		} else {
			b = append(b, ',')
		}
		b = jsonscan.AppendString(b, h.Name)
		b = jsonscan.AppendString(append(b, ':'), h.Value)
	}
	if !first {
		b = append(b, '}')
	}
	return b
}

func repeated(rest []mq.Header, name string) bool {
	for _, h := range rest {
		if h.Name == name {
			return true
		}
	}
	return false
}

// answerRaw answers a message's value as it was published; what else is known of it is in headers. Whatever
// its type says, a browser that is led here must not run it.
func answerRaw(c echo.Context, it *replay.Item) error {
	m := &it.Message
	h := c.Response().Header()
	h.Set("Mq-Id", it.ID.String())
	h.Set("Mq-Partition", strconv.FormatUint(uint64(it.ID.Partition.Number), 10))
	if h.Get(headerDeliverAt) == "" {
		h.Set("Mq-Offset", strconv.FormatUint(it.Offset, 10))
	}
	h.Set("Mq-Timestamp", time.Unix(0, it.Stamp).UTC().Format(time.RFC3339Nano))
	if m.TTL > 0 {
		h.Set("Mq-Expires-At", string(appendTime(nil, it.Stamp+m.TTL)))
	}
	if m.HasKey {
		exact.Add(h, headerKey, string(m.Key))
	}
	for i, header := range m.Headers {
		if !repeated(m.Headers[i+1:], header.Name) { // names that differ by case are one in HTTP, and both are there
			exact.Add(h, http.CanonicalHeaderKey(headerPrefix+header.Name), header.Value)
		}
		if strings.EqualFold(header.Name, mq.Traceparent) && mq.ValidTraceparent(header.Value) {
			h.Set(traceHeader, header.Value)
		}
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	kind := m.ContentType
	if kind == "" {
		kind = echo.MIMEOctetStream
	}
	return c.Blob(http.StatusOK, kind, m.Value)
}
