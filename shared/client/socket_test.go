package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// socketServer plays a gateway's WebSocket: answer is given each frame of a connection and may write to it.
type socketServer struct {
	*httptest.Server
	answer func(connection int, f map[string]any, write func(format string, args ...any), cut func())

	mu    sync.Mutex
	count int
	seen  []string // types of frames, and methods of other requests
}

func newSocketServer(t *testing.T, answer func(int, map[string]any, func(string, ...any), func())) *socketServer {
	s := &socketServer{answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *socketServer) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, what)
}

func (s *socketServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/stream" {
		s.note(r.Method + " " + r.URL.Path)
		_, _ = fmt.Fprint(w, `{"results":[{}],"failed":0}`)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	s.mu.Lock()
	s.count++
	number := s.count
	s.mu.Unlock()
	for {
		_, b, err := conn.Read(r.Context())
		var f map[string]any
		if err != nil || json.Unmarshal(b, &f) != nil {
			return
		}
		s.note(f["type"].(string))
		s.answer(number, f, func(format string, args ...any) {
			_ = conn.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...))
		}, func() { _ = conn.CloseNow() })
	}
}

func socketTo(t *testing.T, s *socketServer) (*Client, *Socket) {
	t.Helper()
	c, err := New(Options{Servers: []string{s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	socket, err := c.Socket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(socket.Close)
	return c, socket
}

const socketMessage = `{"id":"%[1]s","value":"v","encoding":"utf8","receipt":"r%[1]s","attempt":1}`

// Answers find who asked, in whatever order they come; what is refused is told like the answer to a call.
func TestSocketAnswers(t *testing.T) {
	var mu sync.Mutex
	held := ""
	s := newSocketServer(t, func(_ int, f map[string]any, write func(string, ...any), _ func()) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case f["type"] == "settle":
			write(`{"type":"settled","id":"%s","results":[{},{"error":{"code":"receipt_stale"}}],"failed":1}`, f["id"])
			write(`{"type":"published","id":"%s","results":[{"id":"EAEAAQ","partition":3,"offset":7}],"failed":0}`, held)
		case f["topic"] == "none":
			write(`{"type":"error","id":"%s","error":{"code":"topic_not_found","detail":"no topic"}}`, f["id"])
		default:
			held = f["id"].(string)
		}
	})
	_, socket := socketTo(t, s)
	published := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		got, err := socket.Publish(t.Context(), "orders", []Message{{Value: []byte("v")}})
		if err == nil && (len(got) != 1 || got[0].Partition != 3 || got[0].Offset != 7) {
			err = fmt.Errorf("published %+v", got)
		}
		published <- err
	}()
	<-started
	for {
		mu.Lock()
		there := held != ""
		mu.Unlock()
		if there {
			break
		}
		if _, err := socket.Publish(t.Context(), "none", []Message{{}}); !IsCode(err, mqerr.TopicNotFound) || err.(*Error).Status != 404 {
			t.Fatalf("the refusal is %v", err)
		}
	}
	results, err := socket.Settle(t.Context(), api.SettleRequest{Ack: []string{"a", "b"}})
	if err != nil || len(results) != 2 || results[0] != nil || !IsCode(results[1], mqerr.ReceiptStale) {
		t.Errorf("settled %v, %v", results, err)
	}
	if err := <-published; err != nil {
		t.Error(err)
	}
}

// A connection that breaks while a publish is out leaves its outcome unknown; afterwards nothing is sent.
func TestSocketBreaks(t *testing.T) {
	s := newSocketServer(t, func(_ int, _ map[string]any, _ func(string, ...any), cut func()) { cut() })
	_, socket := socketTo(t, s)
	if _, err := socket.Publish(t.Context(), "orders", []Message{{}}); !IsOutcomeUnknown(err) {
		t.Errorf("the outcome is %v", err)
	}
	<-socket.Done()
	if _, err := socket.Publish(t.Context(), "orders", []Message{{}}); err == nil || IsOutcomeUnknown(err) {
		t.Errorf("on a broken connection: %v", err)
	}
}

// What was delivered is handed out before the error that ended the connection; beyond the credit the oldest go.
func TestSocketSubscription(t *testing.T) {
	s := newSocketServer(t, func(_ int, f map[string]any, write func(string, ...any), cut func()) {
		if f["credit"] != 2.0 || f["lease"] != "1m" || f["member"] != "m" || f["consumer"] != "n" {
			t.Errorf("subscribed with %v", f)
		}
		write(`{"type":"subscribed","id":"%s","subscription":"%s"}`, f["id"], f["subscription"])
		write(`{"type":"messages","subscription":"%s","messages":[`+strings.Repeat(socketMessage+",", 2)+socketMessage+`]}`, f["subscription"])
		cut()
	})
	_, socket := socketTo(t, s)
	got, last := "", error(nil)
	for d, err := range socket.Subscribe(t.Context(), "t", "g", SubscribeOptions{MaxInFlight: 2, Lease: time.Minute, Member: "m", Name: "n"}) {
		got += d.Receipt + " "
		last = err
	}
	if strings.Count(got, "r") != 2 || last == nil {
		t.Errorf("got %q, then %v", got, last)
	}
}

// A consumer settles on its socket, connects again when that broke or drains, and settles by a request what it could
// not; a refusal ends it.
func TestConsumerOverSockets(t *testing.T) {
	s := newSocketServer(t, func(n int, f map[string]any, write func(string, ...any), cut func()) {
		switch {
		case f["type"] == "unsubscribe":
			write(`{"type":"unsubscribed","id":"%s"}`, f["id"])
		case f["type"] == "settle" && n == 2:
			cut()
		case f["type"] == "settle":
			write(`{"type":"settled","id":"%s","results":[{}],"failed":0}`, f["id"])
			write(`{"type":"reconnect","reason":"draining","after":"1s"}`)
		case n == 3:
			write(`{"type":"error","id":"%s","subscription":"%s","error":{"code":"group_not_found"}}`, f["id"], f["subscription"])
		default:
			write(`{"type":"subscribed","id":"%s","subscription":"%s"}`, f["id"], f["subscription"])
			write(`{"type":"messages","subscription":"%s","messages":[%s]}`, f["subscription"], fmt.Sprintf(socketMessage, fmt.Sprint(n)))
		}
	})
	c, err := New(Options{Servers: []string{s.URL}, Retry: Retry{Initial: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var mu sync.Mutex
	var handled []string
	err = c.Consumer("t", "g", func(_ context.Context, d Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		handled = append(handled, d.ID)
		return nil
	}, ConsumerOptions{Concurrency: 1}).RunSocket(t.Context())
	if !IsCode(err, mqerr.GroupNotFound) {
		t.Errorf("ended with %v", err)
	}
	if fmt.Sprint(handled) != "[1 2]" {
		t.Errorf("handled %v", handled)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := strings.Join(s.seen, " "); strings.Count(seen, "settle") != 3 || !strings.Contains(seen, "POST /v1/settle") {
		t.Errorf("the server saw %s", seen)
	}
}

// Under a backlog the queue is never empty: a subscription ends with its context all the same, and gives back what it did
// not hand out, also what came until the server knew.
func TestSubscriptionEndsUnderABacklog(t *testing.T) {
	var released []any
	s := newSocketServer(t, func(_ int, f map[string]any, write func(string, ...any), _ func()) {
		message := func(id string) string { return fmt.Sprintf(socketMessage, id) }
		switch f["type"] {
		case "subscribe":
			write(`{"type":"subscribed","id":"%s","subscription":"%s"}`, f["id"], f["subscription"])
			write(`{"type":"messages","subscription":"%s","messages":[%s,%s,%s]}`, f["subscription"], message("a"), message("b"), message("c"))
		case "unsubscribe":
			write(`{"type":"messages","subscription":"%s","messages":[%s]}`, f["subscription"], message("d"))
			write(`{"type":"unsubscribed","id":"%s","subscription":"%s"}`, f["id"], f["subscription"])
		case "settle":
			released = f["release"].([]any)
			write(`{"type":"settled","id":"%s","results":[{},{},{}],"failed":0}`, f["id"])
		}
	})
	_, socket := socketTo(t, s)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n := 0
	for _, err := range socket.Subscribe(ctx, "t", "g", SubscribeOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		stop()
	}
	if n != 1 || fmt.Sprint(released) != "[rb rc rd]" {
		t.Errorf("%d messages came, the context ended at the first; %v are given back", n, released)
	}
}

// A socket that is closed under a subscription ends it, and what it had not handed out is given back by a request.
func TestClosedSocketGivesBack(t *testing.T) {
	s := newSocketServer(t, func(_ int, f map[string]any, write func(string, ...any), _ func()) {
		write(`{"type":"subscribed","id":"%s","subscription":"%s"}`, f["id"], f["subscription"])
		write(`{"type":"messages","subscription":"%s","messages":[%s,%s]}`, f["subscription"], fmt.Sprintf(socketMessage, "a"), fmt.Sprintf(socketMessage, "b"))
	})
	_, socket := socketTo(t, s)
	n := 0
	var last error
	for _, err := range socket.Subscribe(t.Context(), "t", "g", SubscribeOptions{}) {
		if last = err; err == nil {
			n++
			socket.Close()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := strings.Join(s.seen, ", "); n != 1 || last == nil || seen != "subscribe, POST /v1/settle" {
		t.Errorf("%d came, then %v; the server saw %s", n, last, seen)
	}
}
