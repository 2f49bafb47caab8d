package gateway

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const eventStream = "text/event-stream"

// What is said in a stream of events beside messages. retry is how long clients wait before they connect again.
const (
	eventsBegin     = "retry: 1000\n\n"
	eventsAlive     = ": alive\n\n"
	eventsEnd       = "event: end\ndata: {\"reason\":\"max\"}\n\n"
	eventsReconnect = "event: reconnect\ndata: {\"reason\":\"draining\",\"after\":\"1s\"}\n\n"
)

// streamRoutes are the calls that stay open and deliver to a group.
func (g *Gateway) streamRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/topics/:topic/groups/:group/stream", g.handleStream, []string{"max_in_flight", "max", "lease", "consumer", "member", "partitions", "encoding"}},
		{http.MethodGet, "/v1/stream", g.handleSocket, nil},
	}
}

// handleStream sends a group's messages as server-sent events, max_in_flight of them at once. Every one is settled like
// those of a receive.
func (g *Gateway) handleStream(c echo.Context) error {
	if accept := c.Request().Header.Get(echo.HeaderAccept); !acceptsEvents(accept) {
		return mqerr.New(mqerr.NotAcceptable, "text/event-stream can be had, not %.80q", accept)
	}
	most, err := queryInt(c, "max", 0, 1, math.MaxInt32)
	if err != nil {
		return err
	}
	r, credit, err := g.newStream(c)
	if err != nil {
		return err
	}
	defer r.release()
	open := g.metrics.streams.WithLabelValues(streamEvents)
	open.Inc()
	defer open.Dec()
	s := &events{out: g.streaming(c)}
	beginEvents(c)
	ctx := c.Request().Context()
	full := false
	err = s.text(eventsBegin) // at once, so that the client knows that it was understood
	if err == nil {
		f := &feed{g: g, r: *r, account: g.accounts.open(credit), most: int(most), send: s.messages, alive: func() error { return s.text(eventsAlive) }}
		err = f.run(ctx)
		full = f.full()
	}
	switch {
	case ctx.Err() != nil || s.out.broken: // nobody is left to tell
	case err == nil && full:
		_ = s.text(eventsEnd) // as above
	case err == nil:
		_ = s.text(eventsReconnect)
	default:
		_ = s.failed(g.lateError(c, err))
	}
	return nil
}

func acceptsEvents(accept string) bool {
	if accept == "" {
		return true
	}
	for kind := range strings.SplitSeq(accept, ",") {
		kind, parameters, _ := strings.Cut(kind, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case eventStream, "text/*", "*/*":
			if !unwanted.MatchString(parameters) {
				return true
			}
		}
	}
	return false
}

// newStream reads the query of a stream. It takes what a receive takes, in another place.
func (g *Gateway) newStream(c echo.Context) (*receive, int, error) {
	topic, err := pathName(c, "topic")
	if err != nil {
		return nil, 0, err
	}
	group, err := pathName(c, "group")
	if err != nil {
		return nil, 0, err
	}
	credit, err := queryInt(c, "max_in_flight", defaultCredit, 1, maxCredit)
	if err != nil {
		return nil, 0, err
	}
	lease, err := queryDuration(c, "lease", 0, mq.MinLease, mq.MaxLease)
	if err != nil {
		return nil, 0, err
	}
	req := api.ReceiveRequest{Max: 1, MaxBytes: feedBytes, Lease: mq.Duration(lease), Consumer: c.QueryParam("consumer"),
		Member: c.QueryParam("member")}
	if len(req.Consumer) > mq.MaxConsumerBytes {
		return nil, 0, badParameter("query/consumer", "has at most %d bytes", mq.MaxConsumerBytes)
	}
	if req.Member != "" && mq.CheckName(req.Member) != nil {
		return nil, 0, badParameter("query/member", "is no name of a member")
	}
	if req.Partitions, err = queryPartitions(c); err != nil {
		return nil, 0, err
	}
	r := &receive{g: g}
	if r.base64, err = queryEncoding(c); err != nil {
		return nil, 0, err
	}
	r.take(&req, c.RealIP())
	return r, int(credit), r.find(c.Request().Context(), topic, group)
}

// queryPartitions reads ?partitions=0,3; nil is all.
func queryPartitions(c echo.Context) ([]uint32, error) {
	if !c.QueryParams().Has("partitions") {
		return nil, nil
	}
	text := c.QueryParam("partitions")
	var out []uint32
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil || len(out) == mq.MaxPartitions {
			return nil, badParameter("query/partitions", "names at most %d partitions, as 0,3,7, not %.40q", mq.MaxPartitions, text)
		}
		out = append(out, uint32(n))
	}
	return out, nil
}

// events is a stream of server-sent events under way.
type events struct {
	out *steady
	buf []byte
}

// beginEvents writes the head of an answer of events.
func beginEvents(c echo.Context) {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, eventStream)
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	c.Response().WriteHeader(http.StatusOK)
}

// text writes what is formed already.
func (s *events) text(t string) error {
	s.buf = append(s.buf[:0], t...)
	return s.put()
}

// messages writes an event for each.
func (s *events) messages(all [][]byte) error {
	s.buf = s.buf[:0]
	for _, m := range all {
		s.buf = append(s.buf, "event: message\ndata: "...)
		s.buf = append(s.buf, m...)
		s.buf = append(s.buf, '\n', '\n')
	}
	return s.put()
}

// failed writes why the stream ends.
func (s *events) failed(e *api.ItemError) error {
	b, err := json.Marshal(struct {
		Error *api.ItemError `json:"error"`
	}{e})
	if err != nil {
		return err
	}
	return s.text("event: error\ndata: " + string(b) + "\n\n")
}

func (s *events) put() error {
	_, err := s.out.Write(s.buf)
	if err == nil {
		err = s.out.Flush()
	}
	if cap(s.buf) > 2*pieceBytes {
		s.buf = nil // one large message should not stay with a stream that rests
	}
	return err
}

// lateError is what can be told of an error once an answer has begun.
func (g *Gateway) lateError(c echo.Context, err error) *api.ItemError {
	item := api.ItemErrorOf(asError(err))
	if item.Code == mqerr.Internal.String() {
		g.log.Error("a stream failed", "request_id", requestID(c), "route", c.Path(), "error", err)
		item.Detail = ""
	}
	return item
}
