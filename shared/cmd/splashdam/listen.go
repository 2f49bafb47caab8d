package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// mostReceived bounds the body of a request: a message is no larger.
	mostReceived = 16<<20 + 1
	// listenGrace is how long requests under way may take when a signal comes.
	listenGrace = 2 * time.Second
)

// listenCmd is an endpoint for people who try webhooks out.
type listenCmd struct {
	Port   int           `default:"9000" help:"Port on this machine; 0 takes a free one."`
	Secret []string      `env:"SPLASHDAM_WEBHOOK_SECRET" help:"The webhook's secret, to verify signatures; may be repeated."`
	Status int           `default:"200" help:"Status to answer with."`
	Delay  time.Duration `blank:"" help:"How long to wait before answering."`
	Max    int           `short:"n" placeholder:"N" help:"End after so many requests; 0: never."`
}

// webhookRequest is what listen shows of one request.
type webhookRequest struct {
	At        time.Time         `json:"at"`
	ID        string            `json:"id"`
	Signature string            `json:"signature"` // valid, wrong: why, or unchecked
	Topic     string            `json:"topic,omitempty"`
	Attempt   string            `json:"attempt,omitempty"`
	Headers   map[string]string `json:"headers"`
	Value     string            `json:"value"`
	Encoding  string            `json:"encoding"`
	Status    int               `json:"status"` // that was answered
}

func (l *listenCmd) Run(s *session) error {
	if l.Status < 200 || l.Status > 599 {
		return wrongUsage("--status is 200 to 599, not %d", l.Status)
	}
	if l.Port < 0 || l.Port > 65535 {
		return wrongUsage("--port is 0 to 65535, not %d", l.Port)
	}
	var verifiers []*standardwebhooks.Webhook
	for _, secret := range l.Secret {
		v, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return wrongUsage("--secret is whsec_ and base64")
		}
		verifiers = append(verifiers, v)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port)))
	if err != nil {
		return err
	}
	ctx, enough := context.WithCancel(s.ctx)
	defer enough()
	var mu sync.Mutex
	n := 0
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostReceived))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		got := l.look(r, body, verifiers)
		if l.Delay > 0 {
			rest(r.Context(), l.Delay)
		}
		w.WriteHeader(l.Status)
		mu.Lock()
		defer mu.Unlock()
		if err := s.showReceived(&got); err != nil {
			enough()
		}
		if n++; l.Max > 0 && n >= l.Max {
			enough()
		}
	})}
	fmt.Fprintf(s.err, "listening at http://%s/ and answering %d\n", ln.Addr(), l.Status)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenGrace)
	defer cancel()
	err = server.Shutdown(grace)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return err
}

// rest passes the time, or less if ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// look reads and verifies one request.
func (l *listenCmd) look(r *http.Request, body []byte, verifiers []*standardwebhooks.Webhook) webhookRequest {
	got := webhookRequest{At: time.Now().UTC(), ID: r.Header.Get("Webhook-Id"), Topic: r.Header.Get("Mq-Topic"), Attempt: r.Header.Get("Mq-Attempt"),
		Headers: map[string]string{}, Status: l.Status, Signature: "unchecked"}
	for name := range r.Header {
		got.Headers[name] = r.Header.Get(name)
	}
	got.Value, got.Encoding = textOf(body)
	for _, v := range verifiers {
		if err := v.Verify(body, r.Header); err == nil {
			got.Signature = "valid"
			break
		} else {
			got.Signature = "wrong: " + reason(err)
		}
	}
	return got
}

// reason is what a verifier found, without its words around it.
func reason(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return err.Error()
}

// showReceived prints a line for people, or JSON or YAML.
func (s *session) showReceived(r *webhookRequest) error {
	if s.format == "json" { // one a line, like messages
		b, err := json.Marshal(r)
		if err == nil {
			_, err = fmt.Fprintf(s.out, "%s\n", b)
		}
		return err
	}
	return s.show(r, func() string {
		paint, style := s.painter(), styleWarn
		switch {
		case r.Signature == "valid":
			style = styleGood
		case r.Signature != "unchecked":
			style = styleBad
		}
		line := fmt.Sprintf("%s  %s  %s  try %s  %s  ", r.At.Format("15:04:05.000"), orDash(oneLine(r.ID)), orDash(oneLine(r.Topic)), orDash(oneLine(r.Attempt)),
			paint(style, "signature "+r.Signature))
		return line + oneLine(r.Value) + "\n"
	})
}
