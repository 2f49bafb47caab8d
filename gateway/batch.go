package gateway

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const ndjson = "application/x-ndjson"

// batchOptions are the query of a batch.
type batchOptions struct {
	runs   bool // ?results=runs
	strict bool // ?strict=true: 422 if anything failed
}

// handlePublishBatch is POST /v1/topics/{t}/messages/batch: {"messages":[...]} or a stream of lines.
func (g *Gateway) handlePublishBatch(c echo.Context) error {
	name, err := pathName(c, "topic")
	if err != nil {
		return err
	}
	if err := noMessageHeaders(c.Request().Header); err != nil {
		return err
	}
	kind, err := mediaType(c.Request().Header)
	if err != nil {
		return err
	}
	if kind == ndjson {
		return g.publishStream(c, name)
	}
	var o batchOptions
	if o.strict, err = queryBool(c, "strict"); err != nil {
		return err
	}
	switch v := c.QueryParam("results"); v {
	case "", "each":
	case "runs":
		o.runs = true
	default:
		return badParameter("query/results", "must be each or runs, not %.40q", v)
	}
	return g.publishBatch(c, name, o)
}

// noMessageHeaders refuses what says how one message is published: passed over, it would be an idempotency key that
// nobody compares, or a TTL that nothing ends.
func noMessageHeaders(h http.Header) error {
	for name := range h {
		if name == headerIdempotency || strings.HasPrefix(name, mqHeaders) {
			return invalid("header/"+name, "is for a publish of one message; here each item has fields for that (key, headers, ttl, idempotency_key, …)")
		}
	}
	return nil
}

// mediaType is the type of a body that is JSON or lines of it; what curl sends unasked counts as JSON.
func mediaType(h http.Header) (string, error) {
	ct := h.Get(echo.HeaderContentType)
	if ct == "" || ct == echo.MIMEApplicationJSON {
		return echo.MIMEApplicationJSON, nil
	}
	if err := utf8Only(h); err != nil {
		return "", err
	}
	kind, _, err := mime.ParseMediaType(ct)
	switch {
	case err == nil && kind == ndjson:
		return ndjson, nil
	case err == nil && (kind == echo.MIMEApplicationJSON || kind == echo.MIMEApplicationForm || strings.HasSuffix(kind, "+json")):
		return echo.MIMEApplicationJSON, nil
	}
	return "", mqerr.New(mqerr.UnsupportedMedia, "this call takes application/json or application/x-ndjson, not %.80q", ct)
}

// utf8Only refuses a body that says to be in another charset: it would be read as what it is not.
func utf8Only(h http.Header) error {
	ct := h.Get(echo.HeaderContentType)
	if strings.IndexByte(ct, ';') < 0 {
		return nil
	}
	_, params, err := mime.ParseMediaType(ct)
	charset := params["charset"]
	if err != nil || charset == "" || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "us-ascii") {
		return nil
	}
	return mqerr.New(mqerr.UnsupportedMedia, "this call reads UTF-8, not %.40q", charset)
}

func (g *Gateway) publishBatch(c echo.Context, name string, o batchOptions) error {
	limits, err := g.publishLimits(c.Request().Context(), name)
	if err != nil {
		return err
	}
	in, err := g.readBody(c, g.cfg.MaxBodyBytes, func() error {
		return mqerr.New(mqerr.BatchTooLarge, "the body of a batch has at most %d bytes", g.cfg.MaxBodyBytes)
	})
	if err != nil {
		return err
	}
	defer in.release()
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	p, err := g.planBatch(ctx, limits, in.b, (*plan).readMessages)
	if err != nil {
		return err
	}
	defer p.release()
	in.release() // the batches hold copies
	p.send(ctx, c.RealIP())
	return p.answer(c, o)
}

// planBatch reads messages in their JSON form by read, and makes the topic if there is none yet. The plan holds copies; the
// caller releases it.
func (g *Gateway) planBatch(ctx context.Context, limits meta.Topic, text []byte, read func(*plan, *itemReader, []byte) error) (*plan, error) {
	r := itemReaders.Get().(*itemReader)
	defer itemReaders.Put(r)
	r.clock = g.clock
	r.maxValue = limits.Settings.MaxMessageBytes
	p := newPlan(g, limits, len(text)/128)
	if err := read(p, r, text); err != nil {
		p.release()
		return nil, err
	}
	if limits.ID == 0 {
		// The topic is made now, when the whole body was read without an error. Who was faster may have
		// given it another shape.
		t, err := g.topicToPublish(ctx, limits.Name)
		if err != nil {
			p.release()
			return nil, err
		}
		if p.adopt(t); t.Settings.Partitions != limits.Settings.Partitions || t.Settings.MaxMessageBytes != r.maxValue {
			size := len(p.slots)
			p.release()
			p, r.maxValue = newPlan(g, t, size), t.Settings.MaxMessageBytes
			if err := read(p, r, text); err != nil {
				p.release()
				return nil, err
			}
		}
	}
	return p, nil
}

var itemReaders = sync.Pool{New: func() any { return new(itemReader) }}

func invalidJSON(err error) error {
	var syntax *jsonscan.SyntaxError
	if errors.As(err, &syntax) {
		return mqerr.New(mqerr.InvalidJSON, "%v", syntax)
	}
	return err
}

// readMessages reads {"messages":[...]}. What is wrong with one message alone is its own error.
func (p *plan) readMessages(r *itemReader, body []byte) error {
	s := &r.scan
	s.Reset(body)
	if k := s.Peek(); k != jsonscan.Object {
		s.Skip()
		if err := s.End(); err != nil {
			return invalidJSON(err)
		}
		return invalid("", "the body is an object with messages, not %s", k.Name())
	}
	s.Open()
	found := false
	var unknown error
	for first := true; ; first = false {
		name, more := s.Key(first)
		if !more {
			break
		}
		switch {
		case string(name) != "messages":
			unknown = invalid(pointerTo(name), "there is no such field")
			s.Skip()
		case found:
			return invalid("/messages", "messages is given twice")
		default:
			found = true
			if err := p.readArray(r); err != nil {
				return err
			}
		}
	}
	switch err := s.End(); {
	case err != nil:
		return invalidJSON(err)
	case unknown != nil:
		return unknown
	case !found || len(p.slots) == 0:
		return invalid("/messages", "a batch has at least one message")
	}
	return nil
}

func (p *plan) readArray(r *itemReader) error {
	if k := r.scan.Peek(); k != jsonscan.Array {
		if r.scan.Skip(); r.scan.Err() != nil {
			return invalidJSON(r.scan.Err())
		}
		return invalid("/messages", "must be an array of messages, not %s", k.Name())
	}
	r.scan.Open()
	for first := true; r.scan.Element(first); first = false {
		if len(p.slots) == mq.MaxBatchMessages {
			return mqerr.New(mqerr.BatchTooLarge, "a batch has at most %d messages", mq.MaxBatchMessages)
		}
		r.index = len(p.slots)
		if err := r.read(); err != nil {
			return invalidJSON(err)
		}
		if r.err != nil {
			p.fail(r.err)
			continue
		}
		if p.add(&r.msg, r.partition, r.at); p.bytes > mq.MaxBatchBytes {
			return mqerr.New(mqerr.BatchTooLarge, "a batch has at most %d bytes of messages", mq.MaxBatchBytes)
		}
	}
	return invalidJSON(r.scan.Err())
}

// answer writes the results in the order of the messages.
func (p *plan) answer(c echo.Context, o batchOptions) error {
	failed := p.failed()
	status := http.StatusOK
	b := make([]byte, 0, 64+72*len(p.slots))
	b = append(b, '{')
	kind := echo.MIMEApplicationJSON
	switch {
	case failed > 0 && o.strict:
		e := &mqerr.Error{Code: mqerr.ValidationFailed, Detail: strconv.Itoa(failed) + " of " + strconv.Itoa(len(p.slots)) +
			" messages failed; what results show with an id is stored"}
		problem := appendProblem(nil, e, requestID(c))
		b = append(append(b[:0], problem[:len(problem)-2]...), ',')
		status, kind = http.StatusUnprocessableEntity, problemType
	case failed > 0:
		status = http.StatusMultiStatus
	}
	if o.runs {
		b = p.appendRuns(append(b, `"runs":[`...))
	} else {
		b = p.appendResults(append(b, `"results":[`...))
	}
	b = append(b, `],"failed":`...)
	b = strconv.AppendInt(b, int64(failed), 10)
	return c.Blob(status, kind, append(b, '}', '\n'))
}

// failed is how many messages are not stored.
func (p *plan) failed() int {
	failed := 0
	for _, s := range p.slots {
		if _, err := s.result(); err != nil {
			failed++
		}
	}
	return failed
}

func (p *plan) appendResults(b []byte) []byte {
	for i, s := range p.slots {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendResult(b, s)
	}
	return b
}

// appendResult appends an api.PublishResult.
func appendResult(b []byte, s slot) []byte {
	at, err := s.result()
	if err != nil {
		b = append(b, `{"error":`...)
		b = appendItemError(b, err)
	} else {
		b = appendPublished(b, at)
	}
	return append(b, '}')
}

// appendRuns appends one api.PublishRun for neighbours in one batch; a scheduled message is a run of its own.
func (p *plan) appendRuns(b []byte) []byte {
	for i := 0; i < len(p.slots); {
		s := p.slots[i]
		n := 1
		for i+n < len(p.slots) && follows(s, p.slots[i+n], n) {
			n++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendRun(b, s, n)
		i += n
	}
	return b
}

func appendRun(b []byte, s slot, n int) []byte {
	at, err := s.result()
	b = append(b, '{')
	if s.batch != nil { // a message that is refused before has no partition
		b = append(b, `"partition":`...)
		b = append(strconv.AppendUint(b, uint64(s.batch.partition), 10), ',')
	}
	if err == nil && !at.id.Scheduled {
		b = append(b, `"first_offset":`...)
		b = append(strconv.AppendUint(b, at.id.Number, 10), ',')
	}
	b = append(b, `"count":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	switch {
	case err != nil:
		b = append(b, `,"error":`...)
		b = appendItemError(b, err)
	case at.duplicate || at.id.Scheduled:
		b = append(b, `,"id":"`...)
		b = append(at.id.AppendTo(b), '"')
		b = at.appendRest(b)
	}
	return append(b, '}')
}

// follows says whether t, n places after s, belongs to the run that s begins.
func follows(s, t slot, n int) bool {
	switch {
	case s.err != nil || t.err != nil:
		return false
	case s.batch.err != nil || t.batch.err != nil:
		return s.batch == t.batch
	}
	at, err := s.result()
	next, bad := t.result()
	return err == nil && bad == nil && !at.duplicate && !next.duplicate && !at.id.Scheduled && !next.id.Scheduled &&
		at.id.Partition == next.id.Partition &&
		at.id.Number+uint64(n) == next.id.Number
}
