package gateway

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/cursor"
	"github.com/splashdam/splashdam/gateway/internal/replay"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// maxReadLimit bounds a JSON page of messages; the forms that stream take as many as are wanted.
	maxReadLimit   = 10_000
	maxStreamLimit = 1_000_000_000
	// readPageBytes bounds the messages of one page, except that one message comes whatever its size.
	readPageBytes = 8 << 20
	// readBudget is what a page may hold while it is being made: values, and as JSON. maxReading bounds the
	// bytes of all pages at once: beyond it reads wait, and in the end get 503.
	readBudget = 24 << 20
	maxReading = 512 << 20
	// maxMergeBytes bounds what a merge may have to hold: a stored batch of each partition.
	maxMergeBytes = 256 << 20
)

// readForm is how a read answers.
type readForm int

const (
	formJSON readForm = iota
	formNDJSON
	formSSE
)

// readQuery is a read as it was asked for.
type readQuery struct {
	topic        meta.Topic
	form         readForm
	limit        int
	wait         time.Duration
	alwaysBase64 bool
	reader       *replay.Reader
}

// parseRead reads the whole request. With a cursor, or the Last-Event-ID of an event stream, that says what
// is read; partition, from, to and direction are not looked at.
func (g *Gateway) parseRead(c echo.Context) (q readQuery, err error) {
	name, err := pathName(c, "topic")
	if err != nil {
		return q, err
	}
	if q.form, err = acceptedForm(c.Request().Header.Get(echo.HeaderAccept)); err != nil {
		return q, err
	}
	defaultLimit, maxLimit := int64(defaultPage), int64(maxReadLimit)
	if q.form != formJSON {
		defaultLimit, maxLimit = maxStreamLimit, maxStreamLimit
	}
	limit, err := queryInt(c, "limit", defaultLimit, 1, maxLimit)
	if err != nil {
		return q, err
	}
	q.limit = int(limit)
	if q.wait, err = queryDuration(c, "wait", 0, 0, mq.MaxWait); err != nil {
		return q, err
	}
	if q.alwaysBase64, err = queryEncoding(c); err != nil {
		return q, err
	}
	if q.topic, err = g.knownTopic(c.Request().Context(), name); err != nil {
		return q, err
	}
	q.reader, err = g.readerFor(c, q.topic)
	return q, err
}

// unwanted is a quality of 0, by which a caller says that it takes anything but this type.
var unwanted = regexp.MustCompile(`(?i)(^|;)\s*q\s*=\s*0(\.0*)?\s*(;|$)`)

// acceptedForm chooses how to answer: the first type of Accept that can be had.
func acceptedForm(accept string) (readForm, error) {
	if accept == "" {
		return formJSON, nil
	}
	for kind := range strings.SplitSeq(accept, ",") {
		kind, parameters, _ := strings.Cut(kind, ";")
		if unwanted.MatchString(parameters) {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "application/json", "application/*", "*/*":
			return formJSON, nil
		case "application/x-ndjson":
			return formNDJSON, nil
		case "text/event-stream":
			return formSSE, nil
		}
	}
	return 0, mqerr.New(mqerr.NotAcceptable, "application/json, application/x-ndjson and text/event-stream can be had, not %.80q", accept)
}

// queryEncoding reads ?encoding=: base64 for always, utf8 for where it is.
func queryEncoding(c echo.Context) (always bool, err error) {
	switch v := c.QueryParam("encoding"); v {
	case "", "utf8":
		return false, nil
	case "base64":
		return true, nil
	default:
		return false, badParameter("query/encoding", "must be utf8 or base64, not %.40q", v)
	}
}

func readScope(t meta.Topic) string { return strconv.FormatUint(uint64(t.ID), 10) }

// readerFor makes the reader that the query asks for, or goes on with that of a cursor.
func (g *Gateway) readerFor(c echo.Context, t meta.Topic) (*replay.Reader, error) {
	text, where := c.QueryParam("cursor"), "cursor"
	if last := c.Request().Header.Get("Last-Event-ID"); last != "" {
		text, where = last, "Last-Event-ID"
	}
	base := replay.Query{Topic: t.ID, Unpack: func(b *mq.Batch) ([]byte, error) { return g.packer.Body(b, nil) }}
	if text == "" {
		return g.newReader(c, t, base)
	}
	state, err := cursor.Open(cursor.Read, readScope(t), text, g.view.Secret)
	if err != nil {
		return nil, err
	}
	r, err := replay.Resume(state, base, allNumbers(t), g.fetchRead)
	if err != nil {
		return nil, mqerr.New(mqerr.InvalidCursor, "the %s is of another version", where)
	}
	return r, nil
}

func (g *Gateway) newReader(c echo.Context, t meta.Topic, q replay.Query) (*replay.Reader, error) {
	numbers := allNumbers(t)
	only, err := queryInt(c, "partition", -1, 0, mq.MaxPartitions-1)
	switch {
	case err != nil:
		return nil, err
	case only >= int64(len(numbers)):
		return nil, mqerr.New(mqerr.PartitionNotFound, "topic %q has the partitions 0 to %d, not %d", t.Name, len(numbers)-1, only)
	case only >= 0:
		numbers = []uint32{uint32(only)}
	default:
		q.All = true
	}
	if len(numbers)*max(mq.BatchCutBytes, t.Settings.MaxMessageBytes) > maxMergeBytes {
		return nil, badParameter("query/partition", "is needed: this topic has too many partitions and too large messages to merge them")
	}
	if q.Archived, err = g.queryArchived(c, t); err != nil {
		return nil, err
	}
	if err := readDirection(c, &q); err != nil {
		return nil, err
	}
	if err := checkRange(&q, len(numbers)); err != nil {
		return nil, err
	}
	return replay.New(q, numbers, g.fetchRead), nil
}

// readDirection reads direction, from and to.
func readDirection(c echo.Context, q *replay.Query) error {
	switch v := c.QueryParam("direction"); v {
	case "", "forward":
	case "backward":
		q.Backward = true
	default:
		return badParameter("query/direction", "must be forward or backward, not %.40q", v)
	}
	for name, place := range map[string]*frame.Place{"from": &q.From, "to": &q.To} {
		text := c.QueryParam(name)
		if text == "" {
			continue
		}
		p, err := replay.ParsePlace(text)
		if err != nil {
			return badParameter("query/"+name, "%v", err)
		}
		*place = p
	}
	if q.Backward && q.From.Where == frame.Latest && q.To.Where == 0 {
		q.From, q.To = frame.Place{}, q.From // "from the latest backward" can only mean this
	}
	return nil
}

// checkRange refuses ranges that can't be meant.
func checkRange(q *replay.Query, partitions int) error {
	for name, p := range map[string]frame.Place{"from": q.From, "to": q.To} {
		if p.Where == frame.AtOffset && partitions > 1 {
			return badParameter("query/"+name, "an offset belongs to one partition: give partition, or a time, earliest or latest")
		}
	}
	upsideDown := q.From.Where == q.To.Where && (q.From.Where == frame.AtOffset || q.From.Where == frame.AtTime) && q.From.Value > q.To.Value ||
		q.From.Where == frame.Latest && q.To.Where == frame.Earliest
	if upsideDown {
		return badParameter("query/to", "must not be before from: from is the lower end whichever way is read")
	}
	return nil
}

func allNumbers(t meta.Topic) []uint32 {
	out := make([]uint32, t.Settings.Partitions)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}
