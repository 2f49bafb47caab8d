package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/splashdam/splashdam/shared/api"
)

// backlog is a group with five messages on their way, over either kind of stream. With the first ack the signal comes.
type backlog struct {
	signal context.CancelFunc

	mu       sync.Mutex
	released []string
	acked    []string
}

func (b *backlog) settle(r *api.SettleRequest) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked, b.released = append(b.acked, r.Ack...), append(b.released, r.Release...)
	b.signal()
	return `"results":[` + strings.Repeat("{},", len(r.Ack)+len(r.Release)-1) + `{}],"failed":0}`
}

func (b *backlog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	message := func(i int) string {
		return fmt.Sprintf(`{"id":"m%d","receipt":"r%d","value":"v%d","encoding":"utf8"}`, i, i, i)
	}
	switch {
	case r.Method == http.MethodPost:
		var in api.SettleRequest
		_ = json.NewDecoder(r.Body).Decode(&in)
		_, _ = io.WriteString(w, "{"+b.settle(&in))
	case r.Header.Get("Upgrade") == "":
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", message(i))
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		b.socket(r.Context(), conn, message)
	}
}

func (b *backlog) socket(ctx context.Context, conn *websocket.Conn, message func(int) string) {
	write := func(format string, args ...any) {
		_ = conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...))
	}
	for {
		_, text, err := conn.Read(ctx)
		var f struct {
			api.SocketSettle
			Subscription string `json:"subscription"`
		}
		if err != nil || json.Unmarshal(text, &f) != nil {
			return
		}
		switch f.Type {
		case "subscribe":
			write(`{"type":"subscribed","id":"%s"}`, f.ID)
			write(`{"type":"messages","subscription":"%s","messages":[%s,%s,%s,%s,%s]}`, f.Subscription, message(0), message(1), message(2), message(3), message(4))
		case "unsubscribe":
			write(`{"type":"unsubscribed","id":"%s"}`, f.ID)
		case "settle":
			write(`{"type":"settled","id":"%s",%s`, f.ID, b.settle(&f.SettleRequest))
		}
	}
}

// A signal under a backlog ends consume: what was printed is acknowledged, and the rest is given back.
func TestSignalUnderABacklog(t *testing.T) {
	for _, how := range []string{"--stream", "--ws"} {
		ctx, signal := context.WithCancel(t.Context())
		defer signal()
		b := &backlog{signal: signal}
		h := httptest.NewServer(b)
		defer h.Close()
		var out, errOut bytes.Buffer
		status := execute(ctx, []string{"consume", "t", "-g", "g", "--raw", how, "--server", h.URL}, strings.NewReader(""), &out, &errOut)
		b.mu.Lock()
		defer b.mu.Unlock()
		if status != exitOK || out.String() != "v0\n" || !slices.Equal(b.acked, []string{"r0"}) || !slices.Equal(b.released, []string{"r1", "r2", "r3", "r4"}) {
			t.Errorf("%s: %d, printed %q %q, acknowledged %v, released %v", how, status, out.String(), errOut.String(), b.acked, b.released)
		}
	}
}
