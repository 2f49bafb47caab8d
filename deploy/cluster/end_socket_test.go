package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// TestSockets runs what WebSockets promise on one node with two gateways; each part has its own topic.
func TestSockets(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Gateways: 2})
	for name, part := range map[string]func(*testing.T, *Cluster){
		"publish, subscribe, settle":               socketDay,
		"credit is raised, lowered, and per group": socketCredit,
		"what is wrong is answered":                socketErrors,
		"pages of other sites are refused":         socketOrigin,
		"a drain answers what was asked":           socketDrain,
	} {
		t.Run(name, func(t *testing.T) { part(t, c) })
	}
}

// frame is any frame that a gateway sends.
type frame struct {
	Type, ID, Subscription, After string
	Messages                      []message
	Failed                        int
	Results                       []struct {
		ID    string
		Error struct{ Code string }
	}
	Error struct{ Code, Detail string }
}

// socket is an open WebSocket.
type socket struct {
	t    *testing.T
	conn *websocket.Conn
}

func (c caller) socket() *socket {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), hang)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, c.url+"/v1/stream", nil)
	must(c.t, err)
	conn.SetReadLimit(64 << 20)
	c.t.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{c.t, conn}
}

func (s *socket) send(format string, args ...any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), hang)
	defer cancel()
	must(s.t, s.conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...)))
}

// next is the next frame, which must be of the type.
func (s *socket) next(kind string) (f frame) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), hang)
	defer cancel()
	_, b, err := s.conn.Read(ctx)
	must(s.t, err)
	must(s.t, json.Unmarshal(b, &f))
	if f.Type != kind {
		s.t.Fatalf("got %s, want %s", b, kind)
	}
	return f
}

func socketDay(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1).socket(), via(t, c, 2).socket()
	one.send(`{"type":"publish","id":"p","topic":"day","messages":[{"value":"a","key":"k"},{"value":"b","key":"k"},{"valu":1}]}`)
	sent := one.next("published")
	if sent.ID != "p" || sent.Failed != 1 || len(sent.Results) != 3 || sent.Results[2].Error.Code != "validation_failed" {
		t.Fatalf("%+v", sent)
	}
	two.send(`{"type":"subscribe","id":"s","subscription":"x","topic":"day","group":"g"}`)
	if f := two.next("subscribed"); f.ID != "s" || f.Subscription != "x" {
		t.Errorf("%+v", f)
	}
	got := two.next("messages")
	if len(got.Messages) != 2 || got.Messages[0].ID != sent.Results[0].ID || got.Messages[1].Value != "b" || got.Subscription != "x" {
		t.Fatalf("sent %+v, got %+v", sent, got)
	}
	// The other connection, at another gateway, settles.
	one.send(`{"type":"settle","id":"t","ack":["%s","no"],"nack":[{"receipt":"%s","delay":"0s"}]}`, got.Messages[0].Receipt, got.Messages[1].Receipt)
	if f := one.next("settled"); f.ID != "t" || f.Failed != 1 || f.Results[1].Error.Code != "invalid_receipt" || f.Results[0].Error.Code != "" {
		t.Errorf("%+v", f)
	}
	if again := two.next("messages"); len(again.Messages) != 1 || again.Messages[0].Attempt != 2 || again.Messages[0].Value != "b" {
		t.Errorf("%+v", again)
	}
	two.send(`{"type":"unsubscribe","id":"u","subscription":"x"}`)
	if f := two.next("unsubscribed"); f.ID != "u" || f.Subscription != "x" {
		t.Errorf("%+v", f)
	}
}

func socketCredit(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("limits", `{"partitions":2}`)
	one.publishMany("limits", "v", 20)
	s := one.socket()
	count := map[string]int{}
	var out []message
	until := func(name string, n int) {
		for count[name] < n {
			f := s.next("messages")
			count[f.Subscription] += len(f.Messages)
			out = append(out, f.Messages...)
		}
	}
	s.send(`{"type":"subscribe","subscription":"g","topic":"limits","group":"g","credit":2}`)
	s.next("subscribed")
	until("g", 2)
	s.send(`{"type":"subscribe","subscription":"h","topic":"limits","group":"h","credit":5}`)
	s.next("subscribed")
	until("h", 5)
	s.send(`{"type":"credit","subscription":"g","credit":7}`)
	until("g", 7)
	for name, want := range map[string]int{"g": 7, "h": 5} {
		if g := one.group("limits", name); g.InFlight != want || count[name] != want {
			t.Errorf("%s: %d are out, %d came, want %d", name, g.InFlight, count[name], want)
		}
	}
	// With less credit than is out nothing comes until enough is settled.
	s.send(`{"type":"credit","subscription":"h","credit":0}`)
	s.send(`{"type":"ping","id":"behind"}`)
	s.next("pong")
	one.settle("ack", out, "")
	until("g", 14)
	if g := one.group("limits", "h"); g.InFlight != 0 || count["h"] != 5 {
		t.Errorf("h rests: %d are out, %d came", g.InFlight, count["h"])
	}
}

func socketErrors(t *testing.T, c *Cluster) {
	s := via(t, c, 1).socket()
	long := strings.Repeat("x", 129)
	for text, want := range map[string]string{
		`{"type":"publish"`:                   "invalid_json",
		`[]`:                                  "validation_failed",
		`{"type":"dance"}`:                    "validation_failed",
		`{"type":"ping","id":"` + long + `"}`: "validation_failed",
		`{"type":"ping","type":"ping"}`:       "validation_failed",
		`{"type":"publish","topic":"..","messages":[{"value":"v"}]}`:                     "validation_failed",
		`{"type":"publish","topic":"t","messages":[]}`:                                   "validation_failed",
		`{"type":"publish","topic":"t"}`:                                                 "validation_failed",
		`{"type":"publish","topic":"t","messages":[{"value":"v"}],"ack":[]}`:             "validation_failed",
		`{"type":"settle","ack":["r"],"topic":"t"}`:                                      "validation_failed",
		`{"type":"settle","ack":["r"],"extra":1}`:                                        "validation_failed",
		`{"type":"settle"}`:                                                              "validation_failed",
		`{"type":"settle","ack":["r"],"ack":["r"]}`:                                      "validation_failed",
		`{"type":"subscribe","subscription":"","topic":"t","group":"g"}`:                 "validation_failed",
		`{"type":"subscribe","subscription":"a","topic":"t","group":"g","credit":10001}`: "validation_failed",
		`{"type":"subscribe","subscription":"a","topic":"t","group":"g","lease":"1ms"}`:  "validation_failed",
		`{"type":"subscribe","subscription":"a","topic":"t","group":"g","credi":1}`:      "validation_failed",
		`{"type":"subscribe","subscription":"a","topic":"no-such-topic","group":"g"}`:    "topic_not_found",
		`{"type":"credit","subscription":"nobody","credit":1}`:                           "validation_failed",
		`{"type":"unsubscribe","subscription":"nobody"}`:                                 "validation_failed",
	} {
		s.send("%s", text)
		if f := s.next("error"); f.Error.Code != want {
			t.Errorf("%.80s: %+v, want %s", text, f, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	must(t, s.conn.Write(ctx, websocket.MessageBinary, []byte("{}")))
	if _, _, err := s.conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
		t.Errorf("a binary frame: %v", err)
	}
}

func socketOrigin(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	_, res, err := websocket.Dial(ctx, one.url+"/v1/stream", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}}})
	if err == nil || res == nil || res.StatusCode != 400 {
		t.Errorf("another site's page: %v", err)
	}
	own, _, err := websocket.Dial(ctx, one.url+"/v1/stream", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {one.url}}})
	must(t, err)
	_ = own.CloseNow()
	one.call(400, "GET", "/v1/stream", "", nil)
}

func socketDrain(t *testing.T, c *Cluster) {
	s := via(t, c, 2).socket()
	const n = 30
	for i := range n {
		s.send(`{"type":"publish","id":"%d","topic":"drained","messages":[{"value":"v"}]}`, i)
	}
	s.send(`{"type":"ping"}`)
	stopped := make(chan error, 1)
	answered := 0
	stopping := false
	for {
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		_, b, err := s.conn.Read(ctx)
		cancel()
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusServiceRestart {
				t.Errorf("closed by %v", err)
			}
			break
		}
		var f frame
		must(t, json.Unmarshal(b, &f))
		if f.Type == "published" {
			answered++
		}
		// Everything was read by the gateway when it answers the ping; some of it is under way.
		if (f.Type == "pong" || answered == n) && !stopping {
			stopping = true
			go func() { stopped <- c.Gateway(2).Stop(t.Context()) }()
		}
	}
	must(t, <-stopped)
	must(t, c.Gateway(2).Start(t.Context()))
	if answered != n {
		t.Errorf("%d of %d publishes are answered", answered, n)
	}
	if got := via(t, c, 1).receiveN("drained", "g", n, ""); !slices.ContainsFunc(got, func(m message) bool { return m.Value == "v" }) {
		t.Errorf("%+v", got)
	}
}
