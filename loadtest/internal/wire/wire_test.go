package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// serve starts net/http's server, the independent other end.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	address, err := Address(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func TestDoReadsBothForms(t *testing.T) {
	long := strings.Repeat("0123456789", 300_000) // several steps, and chunks of its own
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Body", strconv.Itoa(len(body)))
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = w.Write(body)
		case "/chunks":
			_, _ = io.WriteString(w, "first,")
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(body)
		case "/none":
			w.WriteHeader(204)
		case "/close":
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(503)
		}
	})
	c := New(t.Context(), []string{address}, 0, 10*time.Second)
	defer c.Close()
	tests := []struct {
		path   string
		body   string
		status int
		want   string
	}{
		{"/length", "abc", 200, "abc"},
		{"/length", "", 200, ""},
		{"/chunks", "abc", 200, "first,abc"},
		{"/close", "", 503, ""},
		{"/none", "x", 204, ""},
		{"/chunks", long, 200, "first," + long},
		{"/length", long, 200, long},
		{"/length", "short again", 200, "short again"},
	}
	for _, tt := range tests {
		a, err := c.Do(Head(tt.path, "text/plain", len(tt.body)), []byte(tt.body))
		if err != nil {
			t.Fatalf("%s: %v", tt.path, err)
		}
		if a.Status != tt.status || string(a.Body) != tt.want {
			t.Errorf("%s: %d, %d bytes; want %d, %d bytes", tt.path, a.Status, len(a.Body), tt.status, len(tt.want))
		}
		if tt.path == "/close" && a.RetryAfter != 3*time.Second {
			t.Errorf("Retry-After %s", a.RetryAfter)
		}
	}
}

func TestErrorsSayWhetherAnythingWasSent(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	})
	// Port 1 is not listened on: the first address refuses, the second breaks off.
	c := New(t.Context(), []string{"127.0.0.1:1", address}, 0, 10*time.Second)
	defer c.Close()
	head := Head("/", "text/plain", 0)
	var e *Error
	if _, err := c.Do(head, nil); !errors.As(err, &e) || e.Sent {
		t.Errorf("refused: %v", err)
	}
	if _, err := c.Do(head, nil); !errors.As(err, &e) || !e.Sent {
		t.Errorf("broken off: %v", err)
	}
}

func TestContextBreaksAWaitingRequest(t *testing.T) {
	waiting := make(chan struct{})
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(waiting)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	c := New(ctx, []string{address}, 0, time.Hour)
	defer c.Close()
	go func() {
		<-waiting
		cancel()
	}()
	if _, err := c.Do(Head("/", "text/plain", 0), nil); err == nil {
		t.Error("an answer that was never given")
	}
	var e *Error
	if _, err := c.Do(Head("/", "text/plain", 0), nil); !errors.As(err, &e) || e.Sent {
		t.Errorf("after the end: %v", err)
	}
}

func TestStreamIsOpenBothWays(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			// In two writes, so that a line is spread over chunks.
			_, _ = io.WriteString(w, "got ")
			_ = control.Flush()
			_, _ = io.WriteString(w, lines.Text()+"\n")
			_ = control.Flush()
		}
	})
	s, err := OpenStream(t.Context(), []string{address}, 0, 10*time.Second, "/")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, lines := range [][]string{{"a"}, {"b", "cc", ""}, {"d"}} {
		if err := s.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
			t.Fatal(err)
		}
		for _, want := range lines {
			if got, err := s.Next(); err != nil || string(got) != "got "+want {
				t.Fatalf("got %q, %v; want %q", got, err, want)
			}
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestFieldsAreFound(t *testing.T) {
	body := []byte(`{"messages":[{"receipt":"a","value":"\"receipt\":\"no\""},{"x":1,"receipt":"b"}]}`)
	var got []string
	Fields(body, "receipt", func(v []byte) { got = append(got, string(v)) })
	if strings.Join(got, " ") != "a b" {
		t.Errorf("found %q", got)
	}
	if Field(body, "receipt") != "a" || Field(body, "missing") != "" {
		t.Error("Field is wrong")
	}
}

func TestAddress(t *testing.T) {
	for base, want := range map[string]string{"http://a:1": "a:1", "http://a:1/": "a:1", "http://a": "a:80", "https://a": "", "http://a/b": "", "a:1": ""} {
		got, err := Address(base)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", base, got, err)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 268435456\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Answer
		if err := a.read(bufio.NewReader(strings.NewReader(string(b)))); err == nil && len(a.Body) > len(b) {
			t.Errorf("a body of %d bytes out of %d", len(a.Body), len(b))
		}
	})
}
