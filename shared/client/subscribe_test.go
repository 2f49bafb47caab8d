package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/mqerr"
)

const oneEvent = "event: message\ndata: {\"id\":\"%\",\"value\":\"v\",\"encoding\":\"utf8\",\"receipt\":\"r%\",\"attempt\":1}\n\n"

func eventsOf(ids string) string {
	var b strings.Builder
	b.WriteString("retry: 1000\n\n")
	for _, id := range ids {
		b.WriteString(strings.ReplaceAll(oneEvent, "%", string(id)))
	}
	return b.String()
}

// silent is a body that says something and nothing more.
type silent struct {
	io.Reader
	ctx context.Context
}

func (s silent) Read(b []byte) (int, error) {
	if n, err := s.Reader.Read(b); err == nil {
		return n, nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}
func (silent) Close() error { return nil }

func TestSubscribeOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(n int, r *http.Request, _ []byte) (*http.Response, error) {
			switch n {
			case 0:
				return nil, errRefused
			case 1:
				return reply(200, eventsOf("ab")), nil // breaks off
			case 2:
				return reply(200, eventsOf("c")+"event: reconnect\ndata: {\"reason\":\"draining\",\"after\":\"1s\"}\n\n"), nil
			case 3:
				a := reply(200, "")
				a.Body = silent{strings.NewReader(eventsOf("d")), r.Context()}
				return a, nil
			case 4:
				return refusal(503, "no_leader", true), nil
			}
			return reply(200, eventsOf("e")+"event: error\ndata: {\"error\":{\"code\":\"group_not_found\",\"retryable\":false}}\n\n"), nil
		}}
		c := over(t, w, Options{Servers: []string{"http://one:8080", "http://two:8080"}})
		got := ""
		var last error
		began := time.Now()
		for d, err := range c.Subscribe(t.Context(), "t", "g", SubscribeOptions{MaxInFlight: 5, Lease: time.Minute, Name: "n", Partitions: []uint32{0, 2}}) {
			got += d.ID
			last = err
		}
		if got != "abcde" || !IsCode(last, mqerr.GroupNotFound) {
			t.Errorf("got %q, %v", got, last)
		}
		if d := time.Since(began); d < streamSilence || d > streamSilence+20*time.Second {
			t.Errorf("it took %s, with one silence of %s", d, streamSilence)
		}
		seen := w.requests()
		if want := "/v1/topics/t/groups/g/stream?consumer=n&lease=1m0s&max_in_flight=5&partitions=0%2C2"; len(seen) != 6 || !strings.HasSuffix(seen[0].url, want) {
			t.Errorf("%d requests, %s", len(seen), seen[0].url)
		}
		for i := 1; i < len(seen); i++ {
			if seen[i].url[:12] == seen[i-1].url[:12] {
				t.Errorf("request %d goes where %d failed: %s", i, i-1, seen[i].url)
			}
		}
	})
}

// Max counts over the streams that are opened: the next one is asked for what is still wanted, and nothing after it.
func TestSubscribeMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(n int, r *http.Request, _ []byte) (*http.Response, error) {
			if n == 2 {
				return reply(200, `{"results":[{}],"failed":0}`), nil
			}
			return reply(200, eventsOf([]string{"ab", "cd"}[n])), nil // the first breaks off, and the second has too many
		}}
		got := ""
		for d, err := range over(t, w, Options{}).Subscribe(t.Context(), "t", "g", SubscribeOptions{Max: 3}) {
			if err != nil {
				t.Error(err)
			}
			got += d.ID
		}
		seen := w.requests()
		if got != "abc" || len(seen) != 3 || seen[2].body != `{"release":["rd"]}` || !strings.HasSuffix(seen[0].url, "?max=3") || !strings.HasSuffix(seen[1].url, "?max=1") {
			t.Errorf("got %q of %d requests: %+v", got, len(seen), seen)
		}
	})
}

func TestConsumerOverAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var settled, handled atomic.Int32
		w := &wire{answer: func(n int, r *http.Request, body []byte) (*http.Response, error) {
			if r.Method == http.MethodPost {
				count := strings.Count(string(body), `"r`) - strings.Count(string(body), `"reason`)
				if settled.Add(int32(count)) == 4 {
					stop()
				}
				return reply(200, `{"results":[`+strings.Repeat("{},", count-1)+`{}],"failed":0}`), nil
			}
			a := reply(200, "")
			a.Body = silent{strings.NewReader(eventsOf("abcd")), r.Context()}
			return a, nil
		}}
		k := over(t, w, Options{}).Consumer("t", "g", func(context.Context, Delivery) error {
			handled.Add(1)
			return nil
		}, ConsumerOptions{Concurrency: 2})
		if err := k.RunStream(ctx); err != nil || handled.Load() != 4 || settled.Load() != 4 {
			t.Errorf("%v, handled %d, settled %d", err, handled.Load(), settled.Load())
		}
	})
}

// A stream ends with its context or its caller however much is on its way, and gives that back once it is closed.
func TestStreamGivesBackWhatIsOnItsWay(t *testing.T) {
	for name, breaks := range map[string]bool{"the context ends": false, "the caller breaks off": true} {
		synctest.Test(t, func(t *testing.T) {
			var closed context.Context
			w := &wire{answer: func(n int, r *http.Request, _ []byte) (*http.Response, error) {
				if n > 0 {
					if closed.Err() == nil {
						t.Errorf("%s: given back while the stream is open", name)
					}
					return reply(200, `{"results":[{},{},{}],"failed":0}`), nil
				}
				a := reply(200, "")
				closed = r.Context()
				a.Body = silent{strings.NewReader(eventsOf("abcd")), closed}
				return a, nil
			}}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			n := 0
			began := time.Now()
			for _, err := range over(t, w, Options{}).Subscribe(ctx, "t", "g", SubscribeOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; breaks {
					break
				}
				stop()
				<-time.After(time.Second) // the caller takes its time
			}
			seen := w.requests()
			if n != 1 || len(seen) != 2 || seen[1].body != `{"release":["rb","rc","rd"]}` || time.Since(began) > 2*time.Second {
				t.Errorf("%s: %d messages came in %s, then %+v", name, n, time.Since(began), seen)
			}
		})
	}
}

// late comes a while after it is asked for.
type late struct{ io.Reader }

func (l late) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	if n > 0 {
		time.Sleep(120 * time.Millisecond) // on synctest's clock
	}
	return n, err
}

// What was on its way comes late from a gateway or a network that has much to do.
func TestStreamGivesBackWhatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(n int, r *http.Request, _ []byte) (*http.Response, error) {
			if n > 0 {
				return reply(200, `{"results":[{},{}],"failed":0}`), nil
			}
			a := reply(200, "")
			a.Body = silent{io.MultiReader(strings.NewReader(eventsOf("a")), late{strings.NewReader(eventsOf("b"))}, late{strings.NewReader(eventsOf("c"))}), r.Context()}
			return a, nil
		}}
		for range over(t, w, Options{}).Subscribe(t.Context(), "t", "g", SubscribeOptions{}) {
			break
		}
		if seen := w.requests(); len(seen) != 2 || seen[1].body != `{"release":["rb","rc"]}` {
			t.Errorf("%+v", seen)
		}
	})
}

// A stream whose context ends while nothing is there ends at once.
func TestIdleStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, r *http.Request, _ []byte) (*http.Response, error) {
			a := reply(200, "")
			a.Body = silent{strings.NewReader("retry: 1000\n\n"), r.Context()}
			return a, nil
		}}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute/4)
		defer stop()
		for range over(t, w, Options{}).Subscribe(ctx, "t", "g", SubscribeOptions{}) {
			t.Error("something came")
		}
		if seen := w.requests(); len(seen) != 1 {
			t.Errorf("%+v", seen)
		}
	})
}

// A consumer whose context ends while a receive is answered gives back what it brought.
func TestConsumerGivesBackTheLastReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w := &wire{answer: func(n int, r *http.Request, _ []byte) (*http.Response, error) {
			if n > 0 {
				return reply(200, `{"results":[{}],"failed":0}`), nil
			}
			stop()
			return reply(200, `{"messages":[{"id":"a","value":"v","encoding":"utf8","receipt":"ra","attempt":1}]}`), nil
		}}
		k := over(t, w, Options{}).Consumer("t", "g", func(context.Context, Delivery) error {
			t.Error("handled")
			return nil
		}, ConsumerOptions{})
		if err := k.Run(ctx); err != nil {
			t.Error(err)
		}
		if seen := w.requests(); len(seen) == 2 && seen[1].body != `{"release":["ra"]}` || len(seen) > 2 {
			t.Errorf("%+v", seen)
		}
	})
}
