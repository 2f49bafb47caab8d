package gateway

import (
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const anyPartition = -1

// laneList is how errors name the lanes.
const laneList = "critical, high, normal, low or background"

// itemReader reads the JSON form of one message (api.PublishItem) after the other, without a copy where
// that is possible: what it reads points into the input or into the reader, and is valid until the next
// item.
type itemReader struct {
	scan     jsonscan.Scanner
	maxValue int
	index    int // of the item in its batch; -1 on a line of its own

	msg       mq.Message
	partition int64
	at        int64        // when it is to be delivered, see timeFromHeaders
	clock     *nodeTime    // says whether that has passed
	err       *mqerr.Error // what is wrong with this item; the input as a whole is sound
	encoding  string
	hasValue  bool
	kind      jsonscan.Kind
	raw, text []byte // the value as given, and unescaped if it is a string
	decoded   []byte
	seen      uint32
}

// text views bytes as a string that lives as long as they do: the batch builder copies it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// read takes one item. An error is one of the input itself; what is wrong with the item alone is in r.err.
func (r *itemReader) read() error {
	r.scan.Release()
	r.msg = mq.Message{Lane: mq.LaneNormal, Headers: r.msg.Headers[:0]}
	r.partition, r.at, r.err, r.encoding, r.hasValue, r.seen = anyPartition, 0, nil, api.EncodingUTF8, false, 0
	if k := r.scan.Peek(); k != jsonscan.Object {
		r.scan.Skip()
		r.bad("", "a message is an object, not %s", k.Name())
		return r.scan.Err()
	}
	r.scan.Open()
	for first := true; ; first = false {
		name, more := r.scan.Key(first)
		if !more {
			break
		}
		r.field(name)
	}
	if r.scan.Err() == nil && r.err == nil {
		r.value()
	}
	return r.scan.Err()
}

// The fields of an item, as bits of seen.
const (
	fieldValue = 1 << iota
	fieldEncoding
	fieldKey
	fieldContentType
	fieldHeaders
	fieldPartition
	fieldLane
	fieldTTL
	fieldIdempotency
	fieldTime
)

func (r *itemReader) field(name []byte) {
	switch string(name) {
	case "value":
		r.once(fieldValue, "value")
		start := r.scan.Offset()
		if r.kind = r.scan.Peek(); r.kind == jsonscan.String {
			start = r.scan.Offset()
			r.text = r.scan.String()
			r.raw = r.scan.Since(start)
		} else {
			r.raw = r.scan.Raw()
		}
		r.hasValue = true
	case "encoding":
		if s, ok := r.string(fieldEncoding, "encoding"); ok {
			r.setEncoding(s)
		}
	case "key":
		if s, ok := r.string(fieldKey, "key"); ok {
			r.msg.Key, r.msg.HasKey = s, true
			if len(s) > mq.MaxKeyBytes {
				r.bad("/key", "a key has at most %d bytes, this one has %d", mq.MaxKeyBytes, len(s))
			}
		}
	case "content_type":
		if s, ok := r.string(fieldContentType, "content_type"); ok {
			r.msg.ContentType = view(s)
			if err := checkContentType(r.msg.ContentType); err != nil {
				r.bad("/content_type", "%v", err)
			}
		}
	case "headers":
		r.once(fieldHeaders, "headers")
		r.headers()
	case "partition":
		r.readPartition()
	case "lane":
		if s, ok := r.string(fieldLane, "lane"); ok {
			if r.msg.Lane, ok = mq.ParseLane(view(s)); !ok {
				r.bad("/lane", "must be %s, not %.40q", laneList, s)
			}
		}
	case "ttl":
		if s, ok := r.string(fieldTTL, "ttl"); ok {
			ttl, err := parseTTL(s)
			if err != nil {
				r.bad("/ttl", "%v", err)
			}
			r.msg.TTL = ttl
		}
	case "idempotency_key":
		if s, ok := r.string(fieldIdempotency, "idempotency_key"); ok {
			if setIdempotency(&r.msg, view(s)); len(s) == 0 || len(s) > mq.MaxIdempotencyBytes {
				r.bad("/idempotency_key", "an idempotency key has 1 to %d bytes, this one has %d", mq.MaxIdempotencyBytes, len(s))
			}
		}
	case "delay":
		r.time("delay", delayTime)
	case "deliver_at":
		r.time("deliver_at", r.clock.deliverTime)
	default:
		r.scan.Skip()
		r.bad(pointerTo(name), "a message has no such field")
	}
}

// pointerTo is the part of a JSON pointer (RFC 6901) that leads to a member, which may have any name.
func pointerTo[T ~string | ~[]byte](name T) string {
	s := strings.ToValidUTF8(string(name[:min(len(name), 64)]), "")
	return "/" + strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// bad notes what is wrong with the item; the first finding is the code and the detail, all are named.
func (r *itemReader) bad(field, format string, args ...any) {
	r.fail(mqerr.ValidationFailed, field, format, args...)
}

func (r *itemReader) fail(code mqerr.Code, field, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if r.err == nil {
		r.err = &mqerr.Error{Code: code, Detail: detail}
	}
	pointer := field
	if r.index >= 0 {
		pointer = fmt.Sprintf("/messages/%d%s", r.index, field)
	}
	if len(r.err.Fields) < 16 { // who sends more wrong fields than there are does not need them all
		r.err.Fields = append(r.err.Fields, mqerr.Field{Pointer: pointer, Detail: detail})
	}
}

func (r *itemReader) once(field uint32, name string) {
	if r.seen&field != 0 {
		r.bad("/"+name, "%s is given twice", name)
	}
	r.seen |= field
}

// string reads a field that is a string; null is as if it were not there.
func (r *itemReader) string(field uint32, name string) ([]byte, bool) {
	r.once(field, name)
	switch k := r.scan.Peek(); k {
	case jsonscan.String:
		return r.scan.String(), r.scan.Err() == nil
	case jsonscan.Null:
		r.scan.Null()
	default:
		r.scan.Skip()
		r.bad("/"+name, "must be a string, not %s", k.Name())
	}
	return nil, false
}

// time reads one of the fields that say when a message is to be delivered.
func (r *itemReader) time(name string, parse func(string) (int64, string)) {
	if r.seen&fieldTime != 0 {
		r.scan.Skip()
		r.bad("/"+name, "one of delay and deliver_at is given, once")
		return
	}
	if s, ok := r.string(fieldTime, name); ok {
		at, bad := parse(string(s))
		if r.at = at; bad != "" {
			r.bad("/"+name, "%s", bad)
		}
	}
}

func (r *itemReader) setEncoding(s []byte) {
	switch string(s) {
	case api.EncodingUTF8:
		r.encoding = api.EncodingUTF8
	case api.EncodingBase64:
		r.encoding = api.EncodingBase64
	case api.EncodingJSON:
		r.encoding = api.EncodingJSON
	default:
		r.bad("/encoding", "must be utf8, base64 or json, not %.40q", s)
	}
}

func (r *itemReader) readPartition() {
	r.once(fieldPartition, "partition")
	if r.scan.Null() {
		return
	}
	n, ok := r.scan.Int()
	if r.scan.Err() == nil && (!ok || n < 0 || n > math.MaxUint32) {
		r.bad("/partition", "must be a whole number from 0")
		return
	}
	r.partition = n
}

// headers reads an object of strings.
func (r *itemReader) headers() {
	if k := r.scan.Peek(); k != jsonscan.Object {
		if !r.scan.Null() {
			r.scan.Skip()
			r.bad("/headers", "must be an object of strings, not %s", k.Name())
		}
		return
	}
	r.scan.Open()
	for first := true; ; first = false {
		name, more := r.scan.Key(first)
		if !more {
			return
		}
		if k := r.scan.Peek(); k != jsonscan.String {
			r.scan.Skip()
			r.bad("/headers"+pointerTo(name), "must be a string, not %s", k.Name())
			continue
		}
		value := r.scan.String()
		if r.scan.Err() != nil {
			return
		}
		r.addHeader(mq.Header{Name: view(name), Value: view(value)})
	}
}

func (r *itemReader) addHeader(h mq.Header) {
	switch err := checkHeader(h); {
	case err != nil:
		r.fail(err.Code, "/headers"+pointerTo(h.Name), "%s", err.Detail)
	case repeated(r.msg.Headers, h.Name):
		r.bad("/headers"+pointerTo(h.Name), "is given twice")
	case len(r.msg.Headers) == mq.MaxHeaders:
		r.fail(mqerr.HeadersTooLarge, "/headers", "a message has at most %d headers", mq.MaxHeaders)
	default:
		r.msg.Headers = append(r.msg.Headers, h)
	}
}

// value turns the value that was read into the bytes of the message.
func (r *itemReader) value() {
	switch {
	case !r.hasValue:
		r.bad("/value", "a message has a value; it may be empty")
		return
	case r.encoding == api.EncodingJSON:
		r.msg.Value = r.raw
	case r.kind != jsonscan.String:
		r.bad("/value", "must be a string with encoding %s, not %s", r.encoding, r.kind.Name())
		return
	case r.encoding == api.EncodingUTF8:
		r.msg.Value = r.text
	default:
		r.decoded = append(r.decoded[:0], make([]byte, base64.StdEncoding.DecodedLen(len(r.text)))...)
		n, err := base64.StdEncoding.Strict().Decode(r.decoded, r.text)
		if err != nil {
			r.bad("/value", "is not base64 (with padding): %v", err)
			return
		}
		r.msg.Value = r.decoded[:n]
	}
	if len(r.msg.Value) > r.maxValue {
		r.fail(mqerr.MessageTooLarge, "/value", "a message of this topic has at most %d bytes, this one has %d", r.maxValue, len(r.msg.Value))
	}
}

// checkHeader says what is wrong with a header of a message, or nil.
func checkHeader(h mq.Header) *mqerr.Error {
	if len(h.Name)+len(h.Value) > mq.MaxHeaderBytes {
		return mqerr.New(mqerr.HeadersTooLarge, "a header has at most %d bytes, this one has %d", mq.MaxHeaderBytes, len(h.Name)+len(h.Value))
	}
	if h.Name == "" {
		return mqerr.New(mqerr.ValidationFailed, "a header has a name")
	}
	for i := range len(h.Name) {
		if !isToken(h.Name[i]) {
			return mqerr.New(mqerr.ValidationFailed, "a header's name is made of letters, digits and !#$%%&'*+-.^_`|~; byte %d is %q", i, h.Name[i:i+1])
		}
	}
	return nil
}

// isToken says whether c may be in a header's name (RFC 9110), so that every one can be an HTTP header.
func isToken(c byte) bool {
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func checkContentType(s string) error {
	if len(s) > mq.MaxContentTypeBytes {
		return fmt.Errorf("a content type has at most %d bytes, this one has %d", mq.MaxContentTypeBytes, len(s))
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return fmt.Errorf("a content type is printable ASCII; byte %d is %q", i, s[i:i+1])
		}
	}
	return nil
}
