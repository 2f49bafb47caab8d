package push

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// mostAnswer is how much of an answer is read so that its connection can be used again; one that has more loses
	// its connection. shown is how much of one that refuses goes into the log of attempts.
	mostAnswer = 16 << 10
	shown      = 96
	// mostAnswerHeaders bounds the headers of an answer.
	mostAnswerHeaders = 64 << 10
	// bodyPatience is how long a body may take behind a status that says it all.
	bodyPatience = 500 * time.Millisecond
)

// answer is what came of one attempt.
type answer struct {
	status     int // 0: none came
	err        error
	took       time.Duration
	retryAfter time.Duration // what the endpoint asked for, 0 if nothing
	text       string        // the begin of a body that came with a refusal
}

// sender is the connections of one webhook. It is used by many attempts at once.
type sender struct {
	client *http.Client
	now    func() time.Time
}

// newSender makes connections that are nobody else's. allowPrivate is what webhook and gateway both allow; resolver
// may be nil.
func newSender(s *mq.WebhookSettings, allowPrivate bool, resolver *net.Resolver) *sender {
	dialer := &net.Dialer{Timeout: time.Duration(s.Timeout), KeepAlive: 30 * time.Second, Control: guard(allowPrivate), Resolver: resolver}
	t := &http.Transport{
		Proxy:                  nil, // whatever the environment says: a proxy would dial for us, unguarded
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    time.Duration(s.Timeout),
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // an answer is not unpacked: it could be large beyond its size
		MaxIdleConns:           s.MaxInFlight,
		MaxIdleConnsPerHost:    s.MaxInFlight,
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: mostAnswerHeaders,
	}
	return &sender{now: time.Now, client: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a redirect is an answer that is not 2xx
	}}}
}

// close drops connections that rest; those in use end with their attempt.
func (s *sender) close() { s.client.CloseIdleConnections() }

// send makes one attempt. Whatever happens comes back as an answer, within the webhook's timeout.
func (s *sender) send(ctx context.Context, h *Hook, e *event) answer {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.Settings.Timeout))
	defer cancel()
	r, err := newRequest(ctx, h, e, s.now())
	if err != nil {
		return answer{err: err}
	}
	res, err := s.client.Do(r)
	a := answer{took: time.Since(start)}
	if err != nil {
		a.err = plain(err, time.Duration(h.Settings.Timeout))
		return a
	}
	a.status = res.StatusCode
	a.retryAfter = parseRetryAfter(res.Header.Get("Retry-After"), s.now())
	a.text = readAnswer(res, cancel)
	return a
}

// readAnswer reads a bounded part of a body in bounded time, and gives the begin of one that tells why. The status has
// decided already.
func readAnswer(res *http.Response, cancel context.CancelFunc) string {
	stop := time.AfterFunc(bodyPatience, cancel)
	defer stop.Stop()
	defer func() { _ = res.Body.Close() }()
	keep := 0
	if res.StatusCode < 200 || res.StatusCode > 299 {
		keep = shown
	}
	var head [shown]byte
	n, err := io.ReadFull(res.Body, head[:keep])
	if err == nil {
		_, _ = io.CopyN(io.Discard, res.Body, mostAnswer)
	}
	return printable(string(head[:n]))
}

// printable makes one line of text that a terminal can show.
func printable(s string) string {
	s = strings.ToValidUTF8(s, "")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029':
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// plain is an error of a request without the URL, which the reader of a log of attempts knows, and without Go's words.
func plain(err error, timeout time.Duration) error {
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer within " + mq.Duration(timeout).String())
	}
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return errors.New(mqerr.Plain(dns))
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" && op.Err != nil {
		return errors.New("can't connect: " + mqerr.Plain(op.Err))
	}
	if op != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection broke: " + mqerr.Plain(err))
	}
	var u interface{ Unwrap() error }
	if errors.As(err, &u) && u.Unwrap() != nil {
		err = u.Unwrap()
	}
	return errors.New(cutText(printable(mqerr.Plain(err)), 200))
}

func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
