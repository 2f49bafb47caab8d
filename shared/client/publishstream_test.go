package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
)

// lineServer answers each line when it comes, while the request is still open.
func lineServer(t *testing.T, each func(n int, item api.PublishItem) string) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w)
		if err := flush.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/v1/topics/missing/messages/batch" {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"code":"topic_not_found"}`)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		lines := bufio.NewScanner(r.Body)
		for n := 0; lines.Scan(); n++ {
			var item api.PublishItem
			if err := json.Unmarshal(lines.Bytes(), &item); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, each(n, item)+"\n")
			_ = flush.Flush()
		}
	}))
	t.Cleanup(server.Close)
	c, err := New(Options{Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestPublishStreamAnswersInOrderWhileOpen(t *testing.T) {
	c := lineServer(t, func(n int, item api.PublishItem) string {
		if n == 2 {
			return `{"error":{"code":"message_too_large"}}`
		}
		return fmt.Sprintf(`{"id":%s,"partition":1,"offset":%d}`, item.Value, n)
	})
	s := c.PublishStream(t.Context(), "t", StreamOptions{Window: 2})
	defer s.Close()
	for n := range 5 {
		// With a window of 2, one message a round, each answered before the next, must not block.
		if err := s.Send(t.Context(), Message{Value: fmt.Appendf(nil, "m%d", n)}); err != nil {
			t.Fatal(err)
		}
		r, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if n == 2 {
			if e, ok := r.Err.(*Error); !ok || e.Code != "message_too_large" {
				t.Errorf("line 2: %+v", r)
			}
		} else if r.Err != nil || r.ID != fmt.Sprint("m", n) || r.Offset != uint64(n) {
			t.Errorf("line %d: %+v", n, r)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v, want EOF", err)
	}
}

func TestPublishStreamWindow(t *testing.T) {
	c := lineServer(t, func(int, api.PublishItem) string { return `{}` })
	s := c.PublishStream(t.Context(), "t", StreamOptions{Window: 2})
	defer s.Close()
	if err := s.Send(t.Context(), Message{}, Message{}); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Send(ended, Message{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a third is taken: %v", err)
	}
	if err := s.Send(t.Context(), Message{}, Message{}, Message{}); err == nil {
		t.Error("more than a window in one Send is taken")
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), Message{}); err != nil {
		t.Errorf("after an answer: %v", err)
	}
}

func TestPublishStreamRefusedAtTheStart(t *testing.T) {
	c := lineServer(t, nil)
	s := c.PublishStream(t.Context(), "missing", StreamOptions{})
	defer s.Close()
	var e *Error
	if _, err := s.Recv(); !errors.As(err, &e) || e.Code != "topic_not_found" {
		t.Fatalf("error %v, want topic_not_found", err)
	}
	if err := s.Send(t.Context(), Message{}); !errors.As(err, &e) || e.Code != "topic_not_found" {
		t.Errorf("Send: %v, want topic_not_found", err)
	}
}
