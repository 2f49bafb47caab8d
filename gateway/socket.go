package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// maxSubscriptions bounds those of one connection, maxQueued the requests that it has sent and that are not answered:
	// beyond it nothing more is read from it.
	maxSubscriptions = 64
	maxQueued        = 64
	maxFrameID       = 128
	maxSubscription  = 64
)

// socket is one WebSocket connection. Its goroutines: the request's own reads frames; one keeps it alive and ends it
// when the gateway drains; one for each subscription; and while there is something to do one that publishes and one that
// settles, each in the order of the frames.
type socket struct {
	g      *Gateway
	c      echo.Context
	conn   *websocket.Conn
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	work   sync.WaitGroup
	remote string

	queued     chan struct{} // a place for each request that is not answered
	publishing inOrder
	settling   inOrder

	mu            sync.Mutex
	subscriptions map[string]*subscription
}

// handleSocket is GET /v1/stream.
func (g *Gateway) handleSocket(c echo.Context) error {
	r := c.Request()
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return mqerr.New(mqerr.InvalidRequest, "this call is a WebSocket: connect with ws:// and no body")
	}
	if g.isDraining() {
		return mqerr.New(mqerr.Draining, "the gateway stops")
	}
	g.sockets.Add(1)
	defer g.sockets.Done()
	// The origin is checked before (checkOrigin), with an answer of the API's own form.
	conn, err := websocket.Accept(c.Response(), r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil // it has answered
	}
	open := g.metrics.streams.WithLabelValues(streamSocket)
	open.Inc()
	defer open.Dec()
	s := &socket{g: g, c: c, conn: conn, remote: c.RealIP(), queued: make(chan struct{}, maxQueued), subscriptions: map[string]*subscription{}}
	s.ctx, s.cancel = context.WithCancel(r.Context())
	defer s.cancel()
	defer context.AfterFunc(g.life, s.end)()
	conn.SetReadLimit(-1) // readFrame has its own bound, and an answer for what is beyond
	s.work.Go(s.keep)
	code, reason := s.read()
	if code == 0 {
		s.cancel()
		_ = conn.CloseNow() // it has ended
	} else {
		_ = conn.Close(code, reason) // a peer that does not answer is waited for 5 s at most
		s.cancel()
	}
	s.work.Wait()
	return nil
}

// keep pings the client and says when the gateway drains. A client that does not answer a ping is gone.
func (s *socket) keep() {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			ctx, cancel := context.WithTimeout(s.ctx, s.g.cfg.StallTimeout)
			err := s.conn.Ping(ctx)
			cancel()
			if err != nil {
				s.end()
				return
			}
		case <-s.g.draining:
			s.drain()
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// end cuts the connection; the reader notices.
func (s *socket) end() {
	s.cancel()
	_ = s.conn.CloseNow()
}

// drain says that the gateway stops, lets what was asked be answered, and closes.
func (s *socket) drain() {
	_ = s.write([]byte(`{"type":"reconnect","reason":"draining","after":"1s"}`)) // a failure ends the reader
	for range maxQueued {                                                        // all places are free when nothing is under way
		select {
		case s.queued <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
	}
	_ = s.conn.Close(websocket.StatusServiceRestart, "draining") // the reader ends with it
	s.end()
}

// write sends one frame. A client that does not take it in time loses its connection.
func (s *socket) write(b []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.g.cfg.StallTimeout)
	defer cancel()
	err := s.conn.Write(ctx, websocket.MessageText, b)
	if err != nil {
		s.cancel()
	}
	return err
}

// appendFrame begins a frame; the caller closes the brace.
func appendFrame(b []byte, kind string, id []byte) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, '"')
	if len(id) > 0 {
		b = jsonscan.AppendString(append(b, `,"id":`...), id)
	}
	return b
}

// fail answers a request, or ends a subscription, with an error.
func (s *socket) fail(id []byte, subscription string, err error) {
	if s.ctx.Err() != nil {
		return // nobody is left to tell; what could not be written to is no fault of this gateway
	}
	e := asError(err)
	if e.Code == mqerr.Internal {
		s.g.log.Error("a stream failed", "request_id", requestID(s.c), "route", s.c.Path(), "error", err)
		e = &mqerr.Error{Code: mqerr.Internal}
	}
	b := appendFrame(nil, api.FrameError, id)
	if subscription != "" {
		b = jsonscan.AppendString(append(b, `,"subscription":`...), subscription)
	}
	b = appendItemError(append(b, `,"error":`...), e)
	_ = s.write(append(b, '}')) // a failure ends the connection
}

// inOrder carries out the requests of one kind, one after the other.
type inOrder struct {
	mu      sync.Mutex
	waiting []func()
	running bool
}

// do queues a request, once there is a place for it.
func (s *socket) do(l *inOrder, request func()) {
	select {
	case s.queued <- struct{}{}:
	case <-s.ctx.Done():
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, request)
	if !l.running {
		l.running = true
		s.work.Go(func() { s.carryOut(l) })
	}
}

func (s *socket) carryOut(l *inOrder) {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			l.running, l.waiting = false, nil
			l.mu.Unlock()
			return
		}
		request := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		request()
		<-s.queued
	}
}
