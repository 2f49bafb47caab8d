package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Socket is one WebSocket to a gateway: publish, receive and settle on it, with a frame instead of a request for each.
// Make it with Client.Socket and end it with Close; its methods may be called by any number of goroutines. Nothing is
// repeated: once the connection ended every call fails, and the caller makes another one, as Consumer.RunSocket does.
type Socket struct {
	client *Client
	base   string
	conn   *websocket.Conn
	ctx    context.Context // ends with the connection; its cause says why
	cancel context.CancelCauseFunc
	guard  *guard
	reader sync.WaitGroup

	mu            sync.Mutex
	last          uint64                        // number of the last request or subscription
	waiting       map[string]chan<- socketFrame // requests without an answer, by id; capacity 1
	subscriptions map[string]*socketSubscription
}

// socketFrame is any frame that a gateway sends.
type socketFrame struct {
	api.SocketHead
	Subscription string          `json:"subscription"`
	Messages     []api.Delivery  `json:"messages"`
	Results      json.RawMessage `json:"results"`
	Error        *api.ItemError  `json:"error"`
}

// socketStall is how long a frame may take to be written before the connection is given up.
const socketStall = 15 * time.Second

var (
	errClosed  = errors.New("client: the socket was closed")
	errDrained = &Error{Code: mqerr.Draining.String(), Status: mqerr.Draining.Status(), Title: mqerr.Draining.Title(), Retryable: true,
		Detail: "the gateway asks to connect elsewhere"}
)

// Socket connects to the server in use, or to the next one that can be reached. ctx bounds the connecting only.
func (c *Client) Socket(ctx context.Context) (*Socket, error) {
	var err error
	for range c.servers.bases {
		base := c.servers.current()
		s := &Socket{client: c, base: base, waiting: map[string]chan<- socketFrame{}, subscriptions: map[string]*socketSubscription{}}
		if err = s.dial(ctx); err == nil {
			s.reader.Go(s.read)
			return s, nil
		}
		if ctx.Err() != nil || final4xx(err) {
			return nil, err
		}
		c.servers.leave(base)
	}
	return nil, err
}

func (s *Socket) dial(ctx context.Context) error {
	s.ctx, s.guard = s.client.guard(context.Background(), s.base, waitSilence)
	s.cancel = s.guard.cancel
	silence := time.AfterFunc(streamSilence, func() { s.cancel(ErrSilent) }) // the server pings every 15 s
	dialing, shaken := s.client.guard(ctx, s.base, callSilence)
	conn, answer, err := websocket.Dial(dialing, s.base+pathOf("stream"), &websocket.DialOptions{HTTPClient: s.client.http,
		HTTPHeader: http.Header{"User-Agent": {s.client.userAgent}}, OnPingReceived: func(context.Context, []byte) bool {
			s.guard.touch()
			silence.Reset(streamSilence)
			return true
		}})
	err = shaken.explain(err)
	shaken.stop()
	if err != nil {
		silence.Stop()
		s.cancel(err)
		s.guard.stop()
		if answer != nil && answer.StatusCode >= 300 {
			return readProblem(answer)
		}
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u // without the words of the library
		}
		return fmt.Errorf("client: %w", err)
	}
	context.AfterFunc(s.ctx, func() { silence.Stop() })
	conn.SetReadLimit(maxEvent)
	s.conn = conn
	return nil
}

// Close ends the connection and what waits on it. What a subscription has delivered stays leased; what it had not is given
// back.
func (s *Socket) Close() {
	s.cancel(errClosed)
	s.reader.Wait()
}

// Done is closed when the connection has ended.
func (s *Socket) Done() <-chan struct{} { return s.ctx.Done() }

// read takes frames until the connection ends.
func (s *Socket) read() {
	defer func() { _ = s.conn.CloseNow() }()
	defer s.guard.stop()
	for {
		_, b, err := s.conn.Read(s.ctx)
		s.guard.touch()
		var f socketFrame
		if err == nil {
			err = json.Unmarshal(b, &f)
		}
		if err != nil {
			s.cancel(fmt.Errorf("client: the socket broke off: %w", err)) // unless something ended it before
			if context.Cause(s.ctx) != errClosed {
				s.client.servers.leave(s.base)
			}
			s.over()
			return
		}
		s.take(&f)
	}
}

// take gives a frame to who waits for it.
func (s *Socket) take(f *socketFrame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to := s.waiting[f.ID]; f.ID != "" && to != nil {
		delete(s.waiting, f.ID)
		to <- *f
		return
	}
	switch f.Type {
	case api.FrameMessages:
		if sub := s.subscriptions[f.Subscription]; sub != nil {
			sub.add(f.Messages)
		}
	case api.FrameReconnect: // what was asked is answered first, but nothing new should begin here
		s.client.servers.leave(s.base)
		for _, sub := range s.subscriptions {
			sub.end(errDrained)
		}
	case api.FrameError:
		if sub := s.subscriptions[f.Subscription]; sub != nil {
			sub.end(lateError(f.Error))
		}
	}
}

// over ends all that waits.
func (s *Socket) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subscriptions {
		sub.end(context.Cause(s.ctx))
	}
}

// lateError is the error of a frame or event as if it were the answer to a call.
func lateError(item *api.ItemError) *Error {
	if item == nil {
		item = &api.ItemError{Code: mqerr.Internal.String()}
	}
	err := itemError(item)
	for _, code := range mqerr.Codes() {
		if code.String() == err.Code {
			err.Status = code.Status()
		}
	}
	return err
}

// next is an id that the connection has not seen.
func (s *Socket) next() string {
	s.last++
	return strconv.FormatUint(s.last, 36)
}

// ask sends a request and waits for its answer. sent says that an error came when it may have left already.
func (s *Socket) ask(ctx context.Context, frame func(id string) any) (f socketFrame, sent bool, err error) {
	answer := make(chan socketFrame, 1)
	s.mu.Lock()
	id := s.next()
	s.waiting[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
	}()
	if sent, err = s.write(frame(id)); err != nil {
		return f, sent, err
	}
	select {
	case f = <-answer:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.ctx.Done():
		err = context.Cause(s.ctx)
	}
	if err != nil {
		select {
		case f = <-answer: // it came before the end, which ask saw first
		default:
			return f, true, err
		}
	}
	if f.Type == api.FrameError {
		return f, true, lateError(f.Error)
	}
	return f, true, nil
}

// write sends a frame. The caller's context is not asked: a frame that is written by half ends the connection, which
// others use.
func (s *Socket) write(frame any) (sent bool, err error) {
	b, err := json.Marshal(frame)
	if err != nil {
		return false, &Error{Code: mqerr.InvalidRequest.String(), Detail: err.Error(), cause: err}
	}
	if s.ctx.Err() != nil {
		return false, context.Cause(s.ctx)
	}
	ctx, cancel := context.WithTimeout(s.ctx, socketStall)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, b); err != nil {
		s.cancel(fmt.Errorf("client: the socket broke off: %w", err))
		return true, context.Cause(s.ctx)
	}
	return true, nil
}

// Publish stores messages like PublishBatch, but sends them once: what was refused for now is not sent again. The
// publishes of a connection are carried out in the order in which they were called.
func (s *Socket) Publish(ctx context.Context, topic string, messages []Message) ([]Result, error) {
	items := make([]api.PublishItem, len(messages))
	for i := range messages {
		var err error
		if items[i], err = messages[i].item(); err != nil {
			return nil, err
		}
	}
	f, sent, err := s.ask(ctx, func(id string) any {
		return api.SocketPublish{SocketHead: api.SocketHead{Type: api.FramePublish, ID: id}, Topic: topic, Messages: items}
	})
	if err != nil {
		return nil, final(err, sent, false)
	}
	var answers []api.PublishResult
	if err := json.Unmarshal(f.Results, &answers); err != nil || len(answers) != len(items) {
		return nil, &Error{Code: codeOutcomeUnknown, Detail: "the answer has not one result for each message"}
	}
	out := make([]Result, len(items))
	for i := range answers {
		out[i] = resultOf(&answers[i])
	}
	return out, nil
}

// Settle carries out all acts of r like Client.Settle, but sends them once. Settling again, by any way, is harmless.
func (s *Socket) Settle(ctx context.Context, r api.SettleRequest) ([]error, error) {
	n := receipts(&r)
	if n == 0 {
		return nil, nil
	}
	f, _, err := s.ask(ctx, func(id string) any {
		return api.SocketSettle{SocketHead: api.SocketHead{Type: api.FrameSettle, ID: id}, SettleRequest: r}
	})
	if err != nil {
		return nil, err
	}
	var answers []api.SettleResult
	if err := json.Unmarshal(f.Results, &answers); err != nil {
		return nil, &Error{Code: codeOutcomeUnknown, Retryable: true, Detail: err.Error()}
	}
	return settled(answers, n)
}
