package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/leaks"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// dial opens a connection to the gateway.
func (e *env) dial() net.Conn {
	e.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.g.URL(), "http://"))
	e.check(err)
	return conn
}

const openStream = "GET /v1/topics/t/groups/g/stream?max_in_flight=1000 HTTP/1.1\r\nHost: x\r\n\r\n"

// A client that reads nothing is cut off. What was written whole is out to it, all else was given back uncounted.
func TestStalledStreamGivesBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *Config) { c.StallTimeout = 2 * time.Second })
	topic := e.topic("t", onePartition)
	p := mq.PartitionID{Topic: topic.ID}
	const n = 400
	value := strings.Repeat("x", 64<<10)
	for range n / 40 {
		batch := `{"messages":[` + strings.Repeat(`{"value":"`+value+`"},`, 39) + `{"value":"` + value + `"}]}`
		if r := e.post("/v1/topics/t/messages/batch", batch); r.status != 200 {
			t.Fatal(r.status, r.body[:200])
		}
	}
	conn := e.dial()
	defer conn.Close()
	_, err := io.WriteString(conn, openStream)
	e.check(err)
	var written int
	e.leader.until(t, "the stalled stream has ended, and nothing is in doubt", func() bool {
		for _, d := range e.leader.part(p).groups {
			written = len(d.leased)
			return len(d.again) > 0 && len(d.out) == 0
		}
		return false
	})
	if written == 0 || written == n {
		t.Fatalf("%d of %d are out", written, n)
	}
	// Others get all the rest as if nothing had been, and the client can read what it was given, to the last event.
	rest := 0
	for rest < n-written {
		var got api.ReceiveAnswer
		e.post("/v1/topics/t/groups/g/receive?max=50", nil).into(t, &got)
		for _, m := range got.Messages {
			if m.Attempt != 1 {
				t.Fatalf("offset %d comes as attempt %d", m.Offset, m.Attempt)
			}
		}
		if rest += len(got.Messages); len(got.Messages) == 0 {
			t.Fatalf("%d of %d come, %d are out", rest, n, written)
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	e.check(err)
	text, _ := io.ReadAll(res.Body) // it breaks off
	whole := strings.Count(string(text), "event: message\ndata: {") - 1
	if strings.HasSuffix(string(text), "}\n\n") {
		whole++
	}
	if whole < written {
		t.Errorf("%d messages arrived whole, %d are taken for delivered", whole, written)
	}
}

// A stream whose client is gone takes nothing more, and what comes goes to the next one uncounted.
func TestMuseum41AbandonedStreamSwallowsNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	conn := e.dial()
	_, err := io.WriteString(conn, openStream)
	e.check(err)
	e.waiting(1)
	e.check(conn.Close())
	e.post("/v1/topics/t/messages", "x")
	var got api.ReceiveAnswer
	e.post("/v1/topics/t/groups/g/receive?wait=20s", nil).into(t, &got)
	if len(got.Messages) != 1 || got.Messages[0].Attempt != 1 {
		t.Errorf("%+v", got)
	}
}

// What ends a stream stays in its answer: the next request on the connection gets its own.
func TestMuseum39EndedStreamWritesIntoNoOther(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	conn := e.dial()
	defer conn.Close()
	in := bufio.NewReader(conn)
	for range 3 {
		_, err := io.WriteString(conn, openStream)
		e.check(err)
		res, err := http.ReadResponse(in, nil)
		e.check(err)
		e.waiting(1)
		if r := e.call(http.MethodDelete, "/v1/topics/t/groups/g", nil); r.status != 200 {
			t.Fatal(r)
		}
		body, err := io.ReadAll(res.Body)
		e.check(err)
		if !strings.HasSuffix(string(body), "\n\n") || !strings.Contains(string(body), `"group_not_found"`) {
			t.Errorf("the stream ends with %q", body)
		}
		_, err = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		e.check(err)
		res, err = http.ReadResponse(in, nil)
		e.check(err)
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "{\"status\":\"ok\"}\n" {
			t.Errorf("%q %v", body, err)
		}
	}
}

// Leaders that told nothing are asked whether leases go on: with a leader that never tells, credit still comes back.
func TestMuseum29CreditIsAskedFor(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	asked := make(chan struct{}, 100)
	e.leader.with(func() {
		e.leader.refuse = func(f frame.Type, _ mq.PartitionID) error {
			if f == frame.TypeLeased {
				asked <- struct{}{}
			}
			return nil
		}
	})
	for range 3 {
		e.post("/v1/topics/t/messages", "x")
	}
	conn := e.dial()
	defer conn.Close()
	_, err := io.WriteString(conn, strings.Replace(openStream, "1000", "1", 1))
	e.check(err)
	lines := bufio.NewScanner(conn)
	for n := 0; n < 2 && lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		n++
		<-asked
		_, receipt, _ := strings.Cut(data, `"receipt":"`)
		receipt, _, _ = strings.Cut(receipt, `"`)
		if r := e.post("/v1/ack", receipt, "Content-Type", "text/plain"); r.status != 200 {
			t.Fatal(r)
		}
	}
}

// Clients that come and go leave nothing behind: no goroutine, no waiter, no account.
func TestStreamsLeakNothing(t *testing.T) {
	e := newEnv(t)
	e.topic("t", onePartition)
	e.post("/v1/topics/t/messages", "x")
	visit := func(i int) {
		conn := e.dial()
		defer conn.Close()
		switch i % 3 {
		case 0:
			_, err := io.WriteString(conn, openStream)
			e.check(err)
			if i%2 == 0 {
				_, err = bufio.NewReader(conn).ReadString('\n')
				e.check(err)
			}
		case 1:
			_, err := io.WriteString(conn, "POST /v1/topics/t/groups/g/receive?wait=30s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
			e.check(err)
		case 2:
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ws, _, err := websocket.Dial(ctx, e.g.URL()+"/v1/stream", nil)
			e.check(err)
			defer ws.CloseNow()
			for k := range 3 {
				e.check(ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"subscribe","subscription":"%d","topic":"t","group":"g"}`, k)))
			}
			if i%2 == 0 {
				_, _, err = ws.Read(ctx)
				e.check(err)
			}
		}
	}
	visit(0)
	for range 2 { // the second one waits: the topic's subscription, which is kept for a while, is there
		e.post("/v1/topics/t/groups/h/receive?wait=1ms", "")
	}
	e.client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	ignore := goleak.IgnoreCurrent()
	for i := range 300 {
		visit(i)
	}
	e.leader.until(t, "nobody waits", func() bool { return e.g.waits.Waiting() == 0 || e.leaderTick() })
	http.DefaultClient.CloseIdleConnections()
	if err := leaks.Left(ignore); err != nil {
		t.Error(err)
	}
	e.g.accounts.mu.Lock()
	defer e.g.accounts.mu.Unlock()
	if n := len(e.g.accounts.all); n != 0 {
		t.Errorf("%d accounts are left", n)
	}
	if !e.g.feeding.TryAcquire(maxFeeding) {
		t.Error("bytes of streams are still held")
	}
}

func TestStreamBadInput(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	for query, code := range map[string]string{
		"max_in_flight=0": "invalid_parameter", "max_in_flight=10001": "invalid_parameter", "max_in_flight=x": "invalid_parameter",
		"lease=1ms": "invalid_parameter", "lease=13h": "invalid_parameter", "partitions=": "", "partitions=1": "partition_not_found",
		"partitions=0,": "invalid_parameter", "partitions=-1": "invalid_parameter", "encoding=hex": "invalid_parameter",
		"consumer=" + strings.Repeat("x", 256): "invalid_parameter", "max=0": "invalid_parameter", "wait=1s": "invalid_parameter",
	} {
		if code == "" {
			continue
		}
		if r := e.call(http.MethodGet, "/v1/topics/t/groups/g/stream?"+query, nil); r.code(t) != code {
			t.Errorf("%s: %s", query, r.body)
		}
	}
	if r := e.call(http.MethodGet, "/v1/topics/nowhere/groups/g/stream", nil); r.code(t) != mqerr.TopicNotFound.String() {
		t.Error(r)
	}
	if r := e.call(http.MethodGet, "/v1/topics/t/groups/g/stream", nil, "Accept", "application/json"); r.code(t) != mqerr.NotAcceptable.String() {
		t.Error(r)
	}
}
