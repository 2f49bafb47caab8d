package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/cursor"
	"github.com/splashdam/splashdam/gateway/internal/waiter"
	"github.com/splashdam/splashdam/shared/api"
)

const (
	// streamPage is how many messages a stream writes between two flushes.
	streamPage = 500
	// eventPage is the same for events, each of which has a cursor of its own: that of many partitions is long.
	eventPage = 100
	// sseHeartbeat is how often an event stream without messages says that it lives.
	sseHeartbeat = aliveEvery
)

// streamRead answers messages line by line (NDJSON) or event by event (SSE).
//
// An NDJSON answer ends with its range, its limit, or at the end of what there is, once nothing came for as
// long as wait says; the trailer holds the cursor to go on with. An event stream follows until its caller leaves,
// its range or limit is done, or the gateway drains; events carry cursors as ids, so that Last-Event-ID resumes.
// What goes wrong after the first message is a last line {"error":…}, or an event "error".
func (g *Gateway) streamRead(c echo.Context, q *readQuery) error {
	ctx := c.Request().Context()
	s := &readStream{g: g, q: q, c: c, out: g.streaming(c)}
	defer func() {
		if s.tail != nil {
			s.tail.Leave()
		}
	}()
	left := q.limit
	for left > 0 {
		n, err := s.page(ctx, min(left, streamPage))
		if err != nil {
			return s.fail(err)
		}
		if left -= n; left == 0 || s.g.rangeDone(q.reader) {
			break
		}
		if n > 0 && !q.reader.Dry() {
			continue
		}
		more, err := s.wait(ctx, min(left, streamPage))
		if err != nil {
			return s.fail(err)
		}
		if left -= more; more == 0 && s.over(ctx) {
			break
		}
	}
	return s.end()
}

// readStream is one streamed answer; it belongs to its handler.
type readStream struct {
	g     *Gateway
	q     *readQuery
	c     echo.Context
	out   *steady
	begun bool
	tail  *waiter.Follower // nil until the end was reached
}

// page writes the messages that are there.
func (s *readStream) page(ctx context.Context, limit int) (int, error) {
	p, err := s.g.nextPage(ctx, s.q, limit)
	if err != nil {
		return 0, err
	}
	defer p.release()
	return len(p.items), s.write(&p)
}

// wait waits for messages, as long as the form says, and writes those that come.
func (s *readStream) wait(ctx context.Context, limit int) (int, error) {
	wait := s.q.wait
	if s.q.form == formSSE {
		wait = sseHeartbeat
	}
	if wait == 0 {
		return 0, nil
	}
	if err := s.write(&page{}); err != nil { // so that the caller knows that it was understood
		return 0, err
	}
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if s.tail == nil {
		var err error
		if s.tail, err = s.g.waits.Follow(waitCtx, s.q.topic.ID, s.q.topic.Settings.Partitions); err != nil {
			return 0, err
		}
	}
	p, err := s.g.awaitPage(waitCtx, s.q, s.tail, limit)
	if err != nil {
		return 0, err
	}
	defer p.release()
	if len(p.items) == 0 && s.q.form == formSSE {
		if s.over(ctx) {
			return 0, nil
		}
		return 0, s.put([]byte(eventsAlive))
	}
	return len(p.items), s.write(&p)
}

// over says whether a stream that has nothing to write ends.
func (s *readStream) over(ctx context.Context) bool {
	select {
	case <-s.g.draining:
		return true
	default:
	}
	return ctx.Err() != nil || s.q.form == formNDJSON || s.g.rangeDone(s.q.reader)
}

// write writes messages and flushes them.
func (s *readStream) write(p *page) error {
	var b []byte
	for i := range p.items {
		if s.q.form != formSSE {
			b = append(appendItem(b, s.q, &p.items[i]), '\n')
			continue
		}
		// The id is a cursor that goes on exactly behind this message.
		id, err := s.g.sealCursor(cursor.Read, readScope(s.q.topic), p.states[i])
		if err != nil {
			return err
		}
		b = append(append(append(b, "id: "...), id...), "\nevent: message\ndata: "...)
		b = append(appendItem(b, s.q, &p.items[i]), '\n', '\n')
	}
	return s.put(b)
}

func (s *readStream) put(b []byte) error {
	if !s.begun {
		s.begun = true
		if s.q.form == formSSE {
			beginEvents(s.c)
			b = append([]byte(eventsBegin), b...)
		} else {
			h := s.c.Response().Header()
			h.Set(echo.HeaderContentType, ndjson)
			h.Set("Trailer", api.NextCursorTrailer)
			s.c.Response().WriteHeader(http.StatusOK)
		}
	}
	if _, err := s.out.Write(b); err != nil {
		return err
	}
	return s.out.Flush()
}

// fail ends the answer with an error: as a problem while nothing is written, as a last line after.
func (s *readStream) fail(err error) error {
	if !s.begun || s.out.broken || s.c.Request().Context().Err() != nil {
		return err
	}
	item := s.g.lateError(s.c, err)
	b, merr := json.Marshal(struct {
		Error *api.ItemError `json:"error"`
	}{item})
	if merr != nil {
		return merr
	}
	if s.q.form == formSSE {
		b = append([]byte("event: error\ndata: "), append(b, '\n')...)
	}
	_ = s.put(append(b, '\n')) // the caller is gone: nobody is left to tell
	return s.end()
}

// end sets the trailer with the cursor to go on with.
func (s *readStream) end() error {
	if s.q.form == formSSE && s.g.isDraining() && !s.g.rangeDone(s.q.reader) {
		return s.put([]byte(eventsReconnect))
	}
	if err := s.put(nil); err != nil || s.q.form == formSSE || s.g.rangeDone(s.q.reader) {
		return err
	}
	next, err := s.g.readCursor(s.q)
	if err != nil {
		return nil // without a secret there is no cursor; the messages are all there
	}
	s.c.Response().Header().Set(api.NextCursorTrailer, next)
	return nil
}
