package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/replay"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// streamPage is how many messages a stream writes between two flushes.
	streamPage = 500
	// sseHeartbeat is how often an event stream without messages says that it lives.
	sseHeartbeat = 15 * time.Second
)

// streamRead answers messages line by line (NDJSON) or event by event (SSE).
//
// An NDJSON answer ends with its range, its limit, or at the end of what there is, once nothing came for as
// long as wait says; the trailer holds the cursor to go on with. An event stream follows until its caller leaves,
// its range or limit is done, or the gateway drains; events carry cursors as ids, so that Last-Event-ID resumes.
// What goes wrong after the first message is a last line {"error":…}, or an event "error".
func (g *Gateway) streamRead(c echo.Context, q *readQuery) error {
	ctx := c.Request().Context()
	s := &readStream{g: g, q: q, c: c, control: http.NewResponseController(c.Response())}
	left := q.limit
	for left > 0 {
		n, err := s.page(ctx, min(left, streamPage))
		if err != nil {
			return s.fail(err)
		}
		if left -= n; left == 0 || rangeDone(q.reader) {
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
	g       *Gateway
	q       *readQuery
	c       echo.Context
	control *http.ResponseController
	begun   bool
}

// page writes the messages that are there.
func (s *readStream) page(ctx context.Context, limit int) (int, error) {
	p, err := s.g.nextPage(ctx, s.q, limit)
	if err != nil {
		return 0, err
	}
	defer p.release()
	return len(p.items), s.write(p.items)
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
	if err := s.write(nil); err != nil { // so that the caller knows that it was understood
		return 0, err
	}
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	p, err := s.g.awaitPage(waitCtx, s.q, limit)
	if err != nil {
		return 0, err
	}
	defer p.release()
	if len(p.items) == 0 && s.q.form == formSSE {
		return 0, s.put([]byte(": alive\n\n"))
	}
	return len(p.items), s.write(p.items)
}

// over says whether a stream that has nothing to write ends.
func (s *readStream) over(ctx context.Context) bool {
	select {
	case <-s.g.draining:
		return true
	default:
	}
	return ctx.Err() != nil || s.q.form == formNDJSON || rangeDone(s.q.reader)
}

// write writes messages and flushes them.
func (s *readStream) write(items []replay.Item) error {
	var b []byte
	for i := range items {
		if s.q.form == formSSE {
			b = append(b, "data: "...)
			b = appendItem(b, s.q, &items[i])
			b = append(b, '\n')
			if i == len(items)-1 {
				// A cursor names the place behind the whole page. A caller that loses the connection within a page
				// gets that page again.
				id, err := s.g.readCursor(s.q)
				if err != nil {
					return err
				}
				b = append(append(append(b, "id: "...), id...), '\n')
			}
			b = append(b, '\n')
			continue
		}
		b = append(appendItem(b, s.q, &items[i]), '\n')
	}
	return s.put(b)
}

func (s *readStream) put(b []byte) error {
	// The server's own write timeout is for answers that end. A reader that stalls is cut off all the same.
	if err := s.control.SetWriteDeadline(time.Now().Add(s.g.cfg.BodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if !s.begun {
		h := s.c.Response().Header()
		h.Set(echo.HeaderContentType, "application/x-ndjson")
		if s.q.form == formSSE {
			h.Set(echo.HeaderContentType, "text/event-stream")
			h.Set(echo.HeaderCacheControl, "no-store")
		} else {
			h.Set("Trailer", api.NextCursorTrailer)
		}
		s.c.Response().WriteHeader(http.StatusOK)
		s.begun = true
	}
	if _, err := s.c.Response().Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}

// fail ends the answer with an error: as a problem while nothing is written, as a last line after.
func (s *readStream) fail(err error) error {
	if !s.begun || s.c.Request().Context().Err() != nil {
		return err
	}
	item := api.ItemErrorOf(asError(err))
	if item.Code == mqerr.Internal.String() {
		s.g.log.Error("a read failed", "request_id", requestID(s.c), "error", err)
		item.Detail = ""
	}
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
	if err := s.put(nil); err != nil {
		return err
	}
	if s.q.form == formSSE || rangeDone(s.q.reader) {
		return nil
	}
	next, err := s.g.readCursor(s.q)
	if err != nil {
		return nil // without a secret there is no cursor; the messages are all there
	}
	s.c.Response().Header().Set(api.NextCursorTrailer, next)
	return nil
}
