// Package client is the Go SDK of Splashdam: publish, consume and manage over the public HTTP API.
//
// A Client is made once with New and shared; all its methods may be called by any number of goroutines.
// Publish and PublishBatch are answered when the messages are committed; a Publisher batches single
// messages on the way, a PublishStream keeps one request open. Receive and Settle are the plain calls of a
// consumer, a Consumer runs a handler around them.
//
// Every error that the server answered, and every request whose fate is not known, is an *Error.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// DefaultServer is the gateway of a cluster on this machine.
const DefaultServer = "http://127.0.0.1:8080"

// Options are what New needs; the zero value talks to DefaultServer.
type Options struct {
	// Servers are the base URLs of gateways ("http://10.0.0.1:8080"). One is used as long as it answers,
	// starting with a random one; a connection that fails, a 503, or silence moves on to the next. A gateway is
	// silent when a call (after 3 s), a long poll or a stream (after 4 s) has brought nothing and GET /livez is
	// not answered within 3 s either.
	Servers []string
	// HTTP replaces the tuned http.Client. Its Timeout must be 0 or longer than the longest long poll.
	HTTP *http.Client
	// Retry bounds what is sent again; see Retry.
	Retry Retry
	// Keys says whose publishes get an idempotency key from the client; default KeysForSingles.
	Keys Keys
	// UserAgent is sent with every request; default "splashdam-go".
	UserAgent string
	// Log gets what a Consumer can tell nobody else as warnings, and as information that a call is tried again ("err" says
	// why) and that after such troubles a server ("server") answers. Default: nothing is logged.
	Log *slog.Logger
}

// Client talks to a cluster. It holds connections but no goroutines of its own: one runs beside a call that takes long, and has
// ended when the call returns.
type Client struct {
	servers   servers
	http      *http.Client
	retry     Retry
	keys      Keys
	userAgent string
	log       *slog.Logger
	trouble   atomic.Uint32 // of the last try that failed, since which none succeeded
}

// New checks the options; it does not connect.
func New(o Options) (*Client, error) {
	if len(o.Servers) == 0 {
		o.Servers = []string{DefaultServer}
	}
	c := &Client{http: o.HTTP, retry: o.Retry.withDefaults(), keys: o.Keys, userAgent: o.UserAgent, log: o.Log}
	c.servers.pulses = make(map[string]*pulse, len(o.Servers))
	for _, s := range o.Servers {
		base, err := baseURL(s)
		if err != nil {
			return nil, err
		}
		c.servers.bases = append(c.servers.bases, base)
		c.servers.pulses[base] = newPulse()
	}
	c.servers.index.Store(rand.Uint32N(uint32(len(o.Servers))))
	if c.http == nil {
		c.http = &http.Client{Transport: NewTransport(), CheckRedirect: noRedirect}
	}
	if c.userAgent == "" {
		c.userAgent = "splashdam-go"
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Close gives idle connections back. Requests that are under way are not touched.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// NewTransport is the transport that New uses: many kept connections per server, since a consumer with
// several long polls needs one each, and no time limit below the longest long poll.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       60 * time.Second, // shorter than the gateway's, so that the client closes first
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 60 * time.Second,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
		DisableCompression:    true,
	}
}

// A redirect would repeat a publish elsewhere; the API never redirects.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func baseURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("client: a server looks like http://host:8080, not %q", text)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("client: server %q must have no query and no fragment", text)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// servers is the list of gateways and the one in use.
type servers struct {
	bases  []string
	pulses map[string]*pulse // of each base; the map does not change
	index  atomic.Uint32
}

func (s *servers) current() string {
	return s.bases[int(s.index.Load())%len(s.bases)]
}

// leave moves on from base, unless another goroutine did so already.
func (s *servers) leave(base string) {
	at := s.index.Load()
	if s.bases[int(at)%len(s.bases)] == base {
		s.index.CompareAndSwap(at, (at+1)%uint32(len(s.bases)))
	}
}

// maxAnswer bounds an answer that is held in memory as a whole: a receive of the largest messages in base64.
const maxAnswer = 128 << 20

// exchange sends a call and decodes its JSON answer into out, unless that is nil or the answer is empty.
func (c *Client) exchange(ctx context.Context, q *call, out any) (http.Header, error) {
	var header http.Header
	err := c.send(ctx, q, func(answer *http.Response) error {
		header = answer.Header
		if out == nil || answer.StatusCode == http.StatusNoContent {
			return nil
		}
		err := json.NewDecoder(&io.LimitedReader{R: answer.Body, N: maxAnswer}).Decode(out)
		if err == nil || errors.Is(err, io.EOF) { // that is no body at all
			return nil
		}
		return fmt.Errorf("client: the answer to %s %s broke off or is no JSON: %w", q.method, q.path, err)
	})
	return header, err
}

// newCall marshals in, unless it is nil, as the call's JSON body.
func newCall(method, path string, in any, repeatable bool) (*call, error) {
	q := &call{method: method, path: path, header: http.Header{}, repeatable: repeatable}
	if in == nil {
		return q, nil
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, &Error{Code: "invalid_request", Detail: err.Error(), cause: err}
	}
	q.body = body
	q.header.Set("Content-Type", "application/json")
	return q, nil
}

// do is newCall and exchange for the calls that need nothing special.
func (c *Client) do(ctx context.Context, method, path string, in, out any, repeatable bool) error {
	q, err := newCall(method, path, in, repeatable)
	if err != nil {
		return err
	}
	_, err = c.exchange(ctx, q, out)
	return err
}

// fetch is do for an answer of type T.
func fetch[T any](ctx context.Context, c *Client, method, path string, in any, repeatable bool) (out T, err error) {
	err = c.do(ctx, method, path, in, &out, repeatable)
	return out, err
}

// pathOf joins segments under /v1, each escaped as one segment.
func pathOf(segments ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

func bytesReader(b []byte) io.Reader {
	if len(b) == 0 {
		return http.NoBody
	}
	return bytes.NewReader(b)
}

// drop reads what little is left so that the connection can be used again, and closes the body.
func drop(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10)
	_ = answer.Body.Close()
}
