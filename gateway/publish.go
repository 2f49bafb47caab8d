package gateway

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// The names of the headers of a raw publish, in Go's canonical form.
const (
	headerKey       = "Mq-Key"
	headerPartition = "Mq-Partition"
	headerLane      = "Mq-Lane"
	mqHeaders       = "Mq-"
	headerPrefix    = mqHeaders + "Header-"
	cloudEvents     = "Ce-"
	traceHeader     = "Traceparent"
)

// publishHeaders are all that say how a message is published: another one that looks like them is a mistake, and
// a message without its TTL or its delay would be a bad answer to one.
var publishHeaders = [...]string{headerKey, headerPartition, headerLane, headerTTL, headerDelay, headerDeliverAt}

// handlePublish is POST /v1/topics/{t}/messages: the body is one message.
func (g *Gateway) handlePublish(c echo.Context) error {
	name, err := pathName(c, "topic")
	if err != nil {
		return err
	}
	var m mq.Message
	partition, err := messageFromHeaders(c.Request().Header, &m)
	if err != nil {
		return err
	}
	at, err := timeFromHeaders(c.Request().Header, g.clock)
	if err != nil {
		return err
	}
	in, err := g.readMessage(c, name)
	if err != nil {
		return err
	}
	defer in.release()
	m.Value = in.b
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	t, err := g.topicToPublish(ctx, name)
	if err != nil {
		return err
	}
	bound := !anywhere(&m, partition)
	if !bound {
		partition = int64(g.nextPartition(t))
	}
	n, bad := choose(t, &m, partition)
	if bad != nil {
		return bad
	}
	b := newOutgoing(t.ID, way{n, at != 0})
	defer b.release()
	b.add(&m, at)
	b.bound = bound
	g.sendBatch(ctx, t, b, c.RealIP())
	where, bad := slot{batch: b}.result()
	if bad != nil {
		return bad
	}
	out := make([]byte, 0, 160)
	out = appendPublished(out, where)
	if where.due == 0 {
		out = append(out, `,"timestamp":"`...)
		out = append(appendTime(out, where.stamp), '"')
	}
	out = append(out, '}', '\n')
	switch {
	case where.duplicate:
		return c.JSONBlob(http.StatusOK, out)
	case where.due != 0:
		return c.JSONBlob(http.StatusAccepted, out)
	}
	return c.JSONBlob(http.StatusCreated, out)
}

// readMessage reads the body as one message, within the topic's limit. The topic is not made yet: a request
// that is refused leaves nothing behind.
func (g *Gateway) readMessage(c echo.Context, topic string) (*body, error) {
	limit := int64(mq.DefaultMaxMessageBytes)
	if t, ok := g.view.Topic(topic); ok {
		limit = int64(t.Settings.MaxMessageBytes)
	} else if t, err := g.knownTopic(c.Request().Context(), topic); err == nil {
		limit = int64(t.Settings.MaxMessageBytes)
	} else if !mqerr.Is(err, mqerr.TopicNotFound) {
		return nil, err
	}
	return g.readBody(c, limit, func() error {
		return mqerr.New(mqerr.MessageTooLarge, "a message of topic %s has at most %d bytes", topic, limit)
	})
}

// messageFromHeaders fills everything of a message but its value, and says which partition was asked for.
func messageFromHeaders(h http.Header, m *mq.Message) (partition int64, err error) {
	m.Lane = mq.LaneNormal
	if v, ok := h[headerLane]; ok {
		if m.Lane, ok = mq.ParseLane(v[0]); !ok || len(v) > 1 {
			return 0, invalid("header/"+headerLane, "must be one of %s, not %.40q", laneList, v[0])
		}
	}
	if v, ok := h[headerTTL]; ok {
		if m.TTL, err = parseTTL(v[0]); err != nil {
			return 0, invalid("header/"+headerTTL, "%v", err)
		}
		if len(v) > 1 {
			return 0, invalid("header/"+headerTTL, "is given twice")
		}
	}
	if v, ok := h[headerKey]; ok {
		if m.Key, m.HasKey = []byte(v[0]), true; len(v) > 1 || len(m.Key) > mq.MaxKeyBytes {
			return 0, invalid("header/"+headerKey, "there is one key of at most %d bytes", mq.MaxKeyBytes)
		}
	}
	if len(h[echo.HeaderContentType]) > 1 {
		return 0, invalid("header/Content-Type", "is given twice")
	}
	m.ContentType = h.Get(echo.HeaderContentType)
	if err := checkContentType(m.ContentType); err != nil {
		return 0, invalid("header/Content-Type", "%v", err)
	}
	if err := idempotencyHeader(h, m); err != nil {
		return 0, err
	}
	partition = anyPartition
	if v, ok := h[headerPartition]; ok {
		n, err := strconv.ParseUint(v[0], 10, 32)
		if err != nil || len(v) > 1 {
			return 0, badParameter("header/"+headerPartition, "must be one whole number from 0, not %.40q", v[0])
		}
		partition = int64(n)
	}
	return partition, messageHeaders(h, m)
}

// messageHeaders takes Mq-Header-<name>, ce-* and traceparent as headers of the message. HTTP header names have no case,
// so they become lower case, and the order is by name.
func messageHeaders(h http.Header, m *mq.Message) error {
	for name, values := range h {
		switch {
		case strings.HasPrefix(name, headerPrefix):
			name = name[len(headerPrefix):]
		case strings.HasPrefix(name, mqHeaders) && !slices.Contains(publishHeaders[:], name):
			return invalid("header/"+name, "is not a header of this call; a header of the message is %s<name>", headerPrefix)
		case !strings.HasPrefix(name, cloudEvents):
			continue
		}
		for _, v := range values {
			x := mq.Header{Name: strings.ToLower(name), Value: v}
			err := checkHeader(x)
			if err == nil && !utf8.ValidString(v) {
				err = mqerr.New(mqerr.ValidationFailed, "a header's value is UTF-8") // JSON could not show another one
			}
			if err != nil {
				err.Fields = []mqerr.Field{{Pointer: "header/" + headerPrefix + x.Name, Detail: err.Detail}}
				err.Detail = "header " + headerPrefix + x.Name + ": " + err.Detail
				return err
			}
			m.Headers = append(m.Headers, x)
		}
	}
	// Mostly a library has added it, not the caller: a wrong one, or one that there is no room for, is dropped and not refused.
	if v := h[traceHeader]; len(v) == 1 && mq.ValidTraceparent(v[0]) && len(m.Headers) < mq.MaxHeaders && len(h[headerPrefix+traceHeader]) == 0 {
		m.Headers = append(m.Headers, mq.Header{Name: mq.Traceparent, Value: v[0]})
	}
	if len(m.Headers) > mq.MaxHeaders {
		return mqerr.New(mqerr.HeadersTooLarge, "a message has at most %d headers, this one has %d", mq.MaxHeaders, len(m.Headers))
	}
	slices.SortStableFunc(m.Headers, func(a, b mq.Header) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(m.Headers); i++ {
		// An item's headers are an object, which has a name once; of two values readers would see the last one.
		if name := m.Headers[i].Name; name == m.Headers[i-1].Name {
			return invalid("header/"+headerPrefix+name, "is given twice")
		}
	}
	return nil
}

// appendPublished appends the begin of an api.Published, without the closing brace.
func appendPublished(b []byte, at placed) []byte {
	b = append(b, `{"id":"`...)
	b = at.id.AppendTo(b)
	b = append(b, `","partition":`...)
	b = strconv.AppendUint(b, uint64(at.id.Partition.Number), 10)
	if !at.id.Scheduled {
		b = append(b, `,"offset":`...)
		b = strconv.AppendUint(b, at.id.Number, 10)
	}
	return at.appendRest(b)
}

// appendRest appends when the message is due, and that it was there.
func (at placed) appendRest(b []byte) []byte {
	if at.due != 0 {
		b = append(b, `,"deliver_at":"`...)
		b = append(appendTime(b, at.due), '"')
	}
	if at.duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	return b
}

// appendTime appends a time (Unix nanoseconds) as RFC 3339 in UTC.
func appendTime(b []byte, unix int64) []byte {
	return time.Unix(0, unix).UTC().AppendFormat(b, time.RFC3339Nano)
}

// publishLimits is what the batch calls need to know of a topic before it is made.
func (g *Gateway) publishLimits(ctx context.Context, name string) (meta.Topic, error) {
	t, err := g.knownTopic(ctx, name)
	if mqerr.Is(err, mqerr.TopicNotFound) && g.cfg.AutoCreate {
		return meta.Topic{Name: name, Settings: mq.DefaultTopicSettings()}, nil
	}
	return t, err
}
