package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestStreams runs what streams promise on one node with two gateways; each part has its own topic.
func TestStreams(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Gateways: 2})
	for name, part := range map[string]func(*testing.T, *Cluster){
		"museum 29: credit comes back through any gateway": creditComesBack,
		"a lease that runs out makes room":                 expiryMakesRoom,
		"max leases no more than that":                     maxEnds,
		"a group that is deleted ends its streams":         deletedEndsStreams,
		"many follow the end of a topic":                   manyFollow,
		"Last-Event-ID goes on exactly behind":             goesOnExactly,
		"a drain asks to reconnect":                        drainAsksToReconnect,
	} {
		t.Run(name, func(t *testing.T) { part(t, c) })
	}
}

// event is one server-sent event.
type event struct{ name, id, data string }

// events is an open stream; its goroutine ends with the body.
type events struct {
	t    *testing.T
	in   chan event
	stop context.CancelFunc
}

// stream opens a stream of events and waits until it has begun.
func (c caller) stream(path string, headers ...string) *events {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	must(c.t, err)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	must(c.t, err)
	if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 || ct != "text/event-stream" {
		c.t.Fatalf("%s: %d %s", path, res.StatusCode, ct)
	}
	s := &events{t: c.t, in: make(chan event), stop: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.in)
		defer res.Body.Close()
		var e event
		for lines := bufio.NewReader(res.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch {
			case name == "" && e.data != "":
				select {
				case s.in <- e:
				case <-ctx.Done():
					return
				}
				e = event{}
			case name == "event":
				e.name = value
			case name == "id":
				e.id = value
			case name == "data":
				e.data = value
			}
		}
	}()
	c.t.Cleanup(func() {
		cancel()
		<-done
	})
	return s
}

// next is the next event, which must have the name.
func (s *events) next(name string) event {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), hang)
	defer cancel()
	select {
	case e, open := <-s.in:
		if !open || e.name != name {
			s.t.Fatalf("got event %+v (open %v), want %s", e, open, name)
		}
		return e
	case <-ctx.Done():
		s.t.Fatalf("no event %s", name)
	}
	return event{}
}

// message is the next message.
func (s *events) message() (m message) {
	s.t.Helper()
	must(s.t, json.Unmarshal([]byte(s.next("message").data), &m))
	return m
}

func creditComesBack(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.call(201, "PUT", "/v1/topics/credit", `{"partitions":3}`, nil)
	one.publishMany("credit", "v", 50)
	s := one.stream("/v1/topics/credit/groups/g/stream?max_in_flight=3")
	var out []message
	for n := range 50 {
		out = append(out, s.message())
		if len(out) == 3 {
			if g := two.group("credit", "g"); g.InFlight != 3 {
				t.Fatalf("%d are out, want as many as there is credit for", g.InFlight)
			}
			// One is done through the other gateway, one through this one; the stream is told of neither.
			by := []caller{two, one}[n%2]
			by.settle([]string{"ack", "reject"}[n%2], out[:1], "")
			out = out[1:]
		}
	}
	one.settle("ack", out, "")
}

// Each one that is settled makes room for another, which a client that wants only three must not be leased.
func maxEnds(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.publishMany("max", "v", 10)
	s := one.stream("/v1/topics/max/groups/sse/stream?max=3")
	for range 3 {
		one.settle("ack", []message{s.message()}, "")
	}
	if e := s.next("end"); e.data != `{"reason":"max"}` {
		t.Errorf("it ends with %q", e.data)
	}
	ws := one.socket()
	ws.send(`{"type":"subscribe","subscription":"s","topic":"max","group":"ws","max":3}`)
	ws.next("subscribed")
	for n := 0; n < 3; {
		f := ws.next("messages")
		n += len(f.Messages)
		one.settle("ack", f.Messages, "")
	}
	if f := ws.next("unsubscribed"); f.Subscription != "s" || f.ID != "" {
		t.Errorf("%q ends, for request %q", f.Subscription, f.ID)
	}
	ws.send(`{"type":"subscribe","subscription":"s","topic":"max","group":"ws","max":-1}`)
	if f := ws.next("error"); f.Error.Code != "validation_failed" {
		t.Errorf("max below 0: %+v", f.Error)
	}
	for _, name := range []string{"sse", "ws"} {
		if g := one.group("max", name); g.InFlight != 0 || g.Lag != 7 {
			t.Errorf("%s: %d in flight, lag %d, want 0 and 7", name, g.InFlight, g.Lag)
		}
	}
}

func expiryMakesRoom(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.publish("expiry", "v")
	s := one.stream("/v1/topics/expiry/groups/g/stream?max_in_flight=1&lease=100ms")
	first := s.message()
	if again := s.message(); again.ID != first.ID || again.Attempt != 2 {
		t.Errorf("after the lease ran out: %+v, then %+v", first, again)
	}
}

func deletedEndsStreams(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.publish("deleted", "v")
	full := one.stream("/v1/topics/deleted/groups/g/stream?max_in_flight=1")
	full.message()
	idle := one.stream("/v1/topics/deleted/groups/h/stream")
	idle.message()
	two.call(200, "DELETE", "/v1/topics/deleted/groups/g", "", nil)
	if e := full.next("error"); !strings.Contains(e.data, `"group_not_found"`) {
		t.Errorf("%+v", e)
	}
	two.call(200, "DELETE", "/v1/topics/deleted", "", nil)
	if e := idle.next("error"); !strings.Contains(e.data, `"topic_not_found"`) {
		t.Errorf("%+v", e)
	}
}

func drainAsksToReconnect(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.publish("drain", "v")
	s := two.stream("/v1/topics/drain/groups/g/stream?max_in_flight=1")
	m := s.message()
	must(t, c.Gateway(2).Stop(t.Context()))
	defer func() { must(t, c.Gateway(2).Start(t.Context())) }()
	if e := s.next("reconnect"); e.data != `{"reason":"draining","after":"1s"}` {
		t.Errorf("%+v", e)
	}
	if _, open := <-s.in; open {
		t.Error("the stream goes on")
	}
	one.settle("ack", []message{m}, "")
}

// A reader that loses its connection after any event, over and over, sees every message once and in order.
func goesOnExactly(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("exact", `{"partitions":3}`)
	for i := range 6 {
		one.publishMany("exact", fmt.Sprintf("%d-", i), 10)
	}
	last, seen := "", map[string]bool{}
	next := map[int]int{}
	for read := 1; len(seen) < 60; read = read%7 + 1 {
		s := []caller{one, two}[read%2].stream("/v1/topics/exact/messages", "Last-Event-ID", last)
		for range min(read, 60-len(seen)) {
			e := s.next("message")
			var m message
			must(t, json.Unmarshal([]byte(e.data), &m))
			if last = e.id; seen[m.ID] || m.Offset != next[m.Partition] {
				t.Fatalf("%+v, seen before: %v, want offset %d", m, seen[m.ID], next[m.Partition])
			}
			seen[m.ID] = true
			next[m.Partition]++
		}
		s.stop()
	}
	// At the end it follows.
	s := one.stream("/v1/topics/exact/messages", "Last-Event-ID", last)
	sent := two.publish("exact", "later")
	var m message
	if must(t, json.Unmarshal([]byte(s.next("message").data), &m)); m.ID != sent.ID {
		t.Errorf("sent %+v, got %+v", sent, m)
	}
}

// Readers at the end, at both gateways, get what comes, and the deletion of the topic ends them.
func manyFollow(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("tail", `{"partitions":3}`)
	var readers []*events
	for i := range 8 {
		readers = append(readers, []caller{one, two}[i%2].stream("/v1/topics/tail/messages"))
	}
	for range 5 {
		sent := two.publish("tail", "v")
		for i, s := range readers {
			var m message
			if must(t, json.Unmarshal([]byte(s.next("message").data), &m)); m.ID != sent.ID {
				t.Fatalf("reader %d: sent %+v, got %+v", i, sent, m)
			}
		}
	}
	one.call(200, "DELETE", "/v1/topics/tail", "", nil)
	for _, s := range readers {
		if e := s.next("error"); !strings.Contains(e.data, `"topic_not_found"`) {
			t.Errorf("%+v", e)
		}
	}
}
