package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// batchServer answers batches, each when gate lets it; with a nil gate at once.
func batchServer(gate <-chan struct{}) *wire {
	return &wire{answer: func(_ int, r *http.Request, body []byte) (*http.Response, error) {
		if gate != nil {
			select {
			case <-gate:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		var in api.PublishBatch
		if err := json.Unmarshal(body, &in); err != nil {
			return reply(400, `{"code":"invalid_json"}`), nil
		}
		var results []string
		for i, item := range in.Messages {
			results = append(results, fmt.Sprintf(`{"id":%s,"offset":%d}`, item.Value, i))
		}
		return reply(200, `{"results":[`+strings.Join(results, ",")+`]}`), nil
	}}
}

// sizes are the lengths of the batches in the order in which they came.
func sizes(t *testing.T, w *wire) []int {
	t.Helper()
	var out []int
	for _, r := range w.requests() {
		var in api.PublishBatch
		if err := json.Unmarshal([]byte(r.body), &in); err != nil {
			t.Fatal(err)
		}
		out = append(out, len(in.Messages))
	}
	return out
}

func hand(t *testing.T, p *Publisher, values ...string) []*Future {
	t.Helper()
	var out []*Future
	for _, v := range values {
		f, err := p.Publish(t.Context(), Message{Value: []byte(v)})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

func TestPublisherCutsBatches(t *testing.T) {
	tests := []struct {
		name    string
		options PublisherOptions
		values  []string
		want    string
	}{
		{"by count", PublisherOptions{MaxMessages: 2}, []string{"a", "b", "c", "d", "e"}, "[2 2 1]"},
		{"by bytes, which a batch never exceeds", PublisherOptions{MaxBytes: 5}, []string{"aa", "bb", "cc", "ddddd", "e"}, "[2 1 1 1]"},
		{"one message may be longer", PublisherOptions{MaxBytes: 2}, []string{"a", "bbbb", "c"}, "[1 1 1]"},
		{"at the end", PublisherOptions{}, []string{"a", "b"}, "[2]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := batchServer(nil)
				p := over(t, w, Options{}).Publisher("t", tt.options)
				futures := hand(t, p, tt.values...)
				if err := p.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(sizes(t, w)); got != tt.want {
					t.Errorf("batches %s, want %s", got, tt.want)
				}
				for i, f := range futures {
					if got, err := f.Get(t.Context()); err != nil || got.ID != tt.values[i] {
						t.Errorf("future %d: %q, %v; want %q", i, got.ID, err, tt.values[i])
					}
				}
			})
		})
	}
}

func TestPublisherLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := batchServer(nil)
		p := over(t, w, Options{}).Publisher("t", PublisherOptions{Linger: time.Second})
		began := time.Now()
		f := hand(t, p, "a")[0]
		time.Sleep(999 * time.Millisecond) // on synctest's clock
		synctest.Wait()
		if len(w.requests()) != 0 {
			t.Error("sent before it had lingered")
		}
		<-f.Done()
		if got := time.Since(began); got != time.Second {
			t.Errorf("sent after %s, want 1s", got)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPublisherBufferIsBounded(t *testing.T) {
	tests := []struct {
		name    string
		options PublisherOptions
	}{
		{"messages", PublisherOptions{BufferMessages: 3, MaxMessages: 1}},
		{"bytes", PublisherOptions{BufferBytes: 3, MaxMessages: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				tt.options.InFlight = 3 // so that the hand-over itself is not what waits
				p := over(t, batchServer(gate), Options{}).Publisher("t", tt.options)
				hand(t, p, "a", "b", "c")
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := p.Publish(short, Message{Value: []byte("d")}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a fourth is taken: %v", err)
				}
				gate <- struct{}{} // one is answered, so one fits again
				last := hand(t, p, "e")[0]
				close(gate)
				if err := p.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got, err := last.Get(t.Context()); err != nil || got.ID != "e" {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

func TestPublisherFlushWaitsForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := over(t, batchServer(gate), Options{}).Publisher("t", PublisherOptions{Linger: time.Hour})
		f := hand(t, p, "a")[0]
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Flush(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush came back before the answer: %v", err)
		}
		close(gate)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-f.Done():
		default:
			t.Error("Flush came back without the answer")
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPublisherCloseGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := over(t, batchServer(make(chan struct{})), Options{}).Publisher("t", PublisherOptions{})
		f := hand(t, p, "a")[0]
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if _, err := f.Get(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("future: %v, want one that is cancelled", err)
		}
		if _, err := p.Publish(t.Context(), Message{}); !errors.Is(err, ErrClosed) {
			t.Errorf("Publish after Close: %v", err)
		}
		if err := p.Flush(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Flush after Close: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}
