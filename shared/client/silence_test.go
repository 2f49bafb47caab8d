package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A call at a gateway that has frozen goes on at another one, if having it twice does no harm; what waits is given more time
// before the gateway is asked whether it lives.
func TestFrozenGateway(t *testing.T) {
	longPoll := func(ctx context.Context, c *Client) error {
		_, err := c.Receive(ctx, "t", "g", api.ReceiveRequest{Wait: api.Duration(20 * time.Second)})
		return err
	}
	heartbeat := func(ctx context.Context, c *Client) error {
		_, err := c.Heartbeat(ctx, "t", "g", "m", api.HeartbeatInput{Wait: api.Duration(heartbeatWait)})
		return err
	}
	socket := func(ctx context.Context, c *Client) error { // the other one refuses it, which is an answer
		if _, err := c.Socket(ctx); !IsCode(err, mqerr.Forbidden) {
			return err
		}
		return nil
	}
	tests := []struct {
		name  string
		call  func(context.Context, *Client) error
		after time.Duration
		again bool
	}{
		{"read", describe, callSilence, true},
		{"ack", ack, callSilence, true},
		{"publish", publishOne, callSilence, true},
		{"publish without a key", publishBare, callSilence, false},
		{"batch without keys", publishMany, callSilence, false},
		{"batch with keys", batchKeyed, callSilence, true},
		{"receive", receive, callSilence, false},
		{"long poll", longPoll, waitSilence, false},
		{"heartbeat", heartbeat, waitSilence, true},
		{"socket", socket, callSilence, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{frozen: map[string]bool{"frozen:1": true}, answer: func(_ int, r *http.Request, _ []byte) (*http.Response, error) {
					if r.URL.Path == "/v1/stream" {
						return refusal(403, "forbidden", false), nil
					}
					return reply(200, `{"results":[{"id":"x","partition":0,"offset":0}]}`), nil
				}}
				c := over(t, w, Options{Servers: []string{"http://frozen:1", "http://lives:1"}})
				c.servers.index.Store(0)
				began := time.Now()
				err := tt.call(t.Context(), c)
				if tt.again != (err == nil) || !tt.again && (!IsOutcomeUnknown(err) || !errors.Is(err, ErrSilent)) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(began); took < tt.after+pulseWait || took > tt.after+pulseWait+c.retry.Max {
					t.Errorf("after %s, want about %s", took, tt.after+pulseWait)
				}
				if c.servers.current() != "http://lives:1" {
					t.Errorf("the next call goes to %s", c.servers.current())
				}
			})
		})
	}
}

// A gateway that takes long but lives is waited for.
func TestSlowIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(int, *http.Request, []byte) (*http.Response, error) {
			time.Sleep(45 * time.Second)
			return reply(200, `{}`), nil
		}}
		if err := describe(t.Context(), over(t, w, Options{})); err != nil {
			t.Error(err)
		}
		if len(w.requests()) != 1 || w.pulses == 0 {
			t.Errorf("%d requests, asked %d times whether it lives", len(w.requests()), w.pulses)
		}
	})
}

// A gateway that freezes in the middle of its answer is left as well.
func TestFrozenInTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{frozen: map[string]bool{}}
		w.answer = func(n int, r *http.Request, _ []byte) (*http.Response, error) {
			if n > 0 {
				return reply(200, `{"name":"t"}`), nil
			}
			w.mu.Lock()
			w.frozen[r.URL.Host] = true
			w.mu.Unlock()
			a := reply(200, "")
			a.Body = silent{strings.NewReader(`{"name":`), r.Context()}
			return a, nil
		}
		topic, err := over(t, w, Options{Servers: []string{"http://one:1", "http://two:1"}}).Topic(t.Context(), "t")
		if err != nil || topic.Name != "t" {
			t.Errorf("%+v, %v", topic, err)
		}
	})
}

// Many that wait at one gateway ask as one whether it lives, and a stream at a frozen one goes on at the other.
func TestOnePulseForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := &wire{frozen: map[string]bool{}}
		w.answer = func(n int, r *http.Request, _ []byte) (*http.Response, error) {
			a := reply(200, "")
			a.Body = silent{strings.NewReader(eventsOf("a")), r.Context()}
			return a, nil
		}
		c := over(t, w, Options{Servers: []string{"http://one:1", "http://two:1"}})
		c.servers.index.Store(0)
		var readers sync.WaitGroup
		for range 100 {
			readers.Go(func() {
				for _, err := range c.Subscribe(ctx, "t", "g", SubscribeOptions{}) {
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		time.Sleep(waitSilence + time.Second) // all asked once
		w.mu.Lock()
		if w.pulses != 1 {
			t.Errorf("asked %d times", w.pulses)
		}
		w.frozen["one:1"] = true
		w.mu.Unlock()
		time.Sleep(waitSilence + pulseWait + time.Second)
		moved := 0
		for _, r := range w.requests() {
			if strings.HasPrefix(r.url, "http://two:1/") {
				moved++
			}
		}
		if moved != 100 {
			t.Errorf("%d streams were opened at the other gateway, want 100", moved)
		}
		stop()
		readers.Wait()
	})
}

// What one call finds out about a gateway ends at once what waits there, however long that would have been patient itself.
func TestSilenceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{frozen: map[string]bool{"frozen:1": true}, answer: func(int, *http.Request, []byte) (*http.Response, error) {
			return reply(200, `{"name":"t"}`), nil
		}}
		c := over(t, w, Options{Servers: []string{"http://frozen:1", "http://lives:1"}})
		c.servers.index.Store(0)
		began := time.Now()
		var poll sync.WaitGroup
		poll.Go(func() {
			_, err := c.Receive(t.Context(), "t", "g", api.ReceiveRequest{Wait: api.Duration(20 * time.Second)})
			if took := time.Since(began); !errors.Is(err, ErrSilent) || took != callSilence+pulseWait {
				t.Errorf("the long poll ended after %s: %v", took, err)
			}
		})
		if _, err := c.Topic(t.Context(), "t"); err != nil {
			t.Error(err)
		}
		poll.Wait()
	})
}

// A member at a gateway that freezes is heard of at another one within its ttl, and stays a member.
func TestMemberOutlivesItsGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{frozen: map[string]bool{}}
		w.answer = func(_ int, r *http.Request, _ []byte) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/heartbeat") {
				select {
				case <-time.After(heartbeatWait):
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}
			return reply(200, `{"member":"m","ttl":"10s","assignment":[1],"generation":1}`), nil
		}
		c := over(t, w, Options{Servers: []string{"http://frozen:1", "http://lives:1"}})
		c.servers.index.Store(0)
		m, err := c.Member(t.Context(), "t", "g", api.JoinInput{Name: "m"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.frozen["frozen:1"] = true
		w.mu.Unlock()
		time.Sleep(10*time.Second - time.Millisecond)
		heard := ""
		for _, r := range w.requests() {
			heard += r.url + " "
		}
		if !strings.Contains(heard, "http://lives:1/v1/topics/t/groups/g/members/m/heartbeat") {
			t.Errorf("asked for %s", heard)
		}
		if err := m.Leave(t.Context()); err != nil { // which gives a heartbeat up, and not its gateway
			t.Error(err)
		}
	})
}

// A PublishStream at a gateway that has frozen ends, and so does a Send that waits for room.
func TestPublishStreamSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := over(t, &wire{frozen: map[string]bool{"one:8080": true}}, Options{})
		s := c.PublishStream(t.Context(), "t", StreamOptions{Window: 1})
		defer s.Close()
		began := time.Now()
		var sender sync.WaitGroup
		sender.Go(func() {
			for s.Send(t.Context(), Message{}) == nil {
			}
		})
		if _, err := s.Recv(); !errors.Is(err, ErrSilent) || time.Since(began) != waitSilence+pulseWait {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		sender.Wait()
	})
}

// The same over TCP, with a listener that takes connections and says nothing, as the kernel does for a stopped process.
func TestStoppedProcess(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // nobody accepts: the kernel does
	base := "http://" + listener.Addr().String()
	c, err := New(Options{Servers: []string{base}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if c.ask(ctx, base) {
		t.Error("it lives")
	}
}

// The client gives a key of its own to what may be lost, the same with each repetition.
func TestKeysOfTheClient(t *testing.T) {
	tests := []struct {
		keys     Keys
		attempts int
		one, all bool // whether a single message and those of a batch have one
	}{{KeysForSingles, 0, true, false}, {KeysForAll, 0, true, true}, {KeysOfCaller, 0, false, false}, {KeysForAll, 1, false, false}}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: func(n int, _ *http.Request, _ []byte) (*http.Response, error) {
				if n == 0 {
					return nil, errRefused
				}
				return reply(200, `{"results":[{"id":"x"},{"id":"y"}]}`), nil
			}}
			c := over(t, w, Options{Keys: tt.keys, Retry: Retry{Attempts: tt.attempts}})
			_ = publishOne(t.Context(), c)
			_ = publishOne(t.Context(), c)
			if _, err := c.PublishBatch(t.Context(), "t", make([]Message, 2)); err != nil {
				t.Fatal(err)
			}
			all := w.requests()
			first, last, batch := all[0].header.Get("Idempotency-Key"), all[len(all)-2].header.Get("Idempotency-Key"), all[len(all)-1].body
			if tt.one != (first != "") || tt.one != (last != "") || tt.one && first == last {
				t.Errorf("%+v: keys %q and %q", tt, first, last)
			}
			if tt.attempts == 0 && all[1].header.Get("Idempotency-Key") != first {
				t.Errorf("%+v: the repetition has another key", tt)
			}
			if n := strings.Count(batch, "idempotency_key"); tt.all != (n == 2) || n == 1 {
				t.Errorf("%+v: %s", tt, batch)
			}
		})
	}
}
