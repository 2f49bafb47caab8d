// Package wire is a lean HTTP/1.1 client for a load generator that shares its cores with the servers: one
// kept connection, requests that are written as ready-made bytes, answers that are read into one buffer.
// It knows what the servers under test answer with (lengths and chunks) and nothing more.
package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"
)

// MaxBody bounds an answer; a longer one fails the request.
const MaxBody = 256 << 20

// Error is a request that was not answered.
type Error struct {
	// Sent says that bytes may have reached the server, so that it may have carried the request out.
	Sent bool
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the fault of the connection.
func (e *Error) Unwrap() error { return e.Err }

// Conn is one connection, opened by the first request and again after a fault. One goroutine uses it.
type Conn struct {
	addresses []string
	next      int
	timeout   time.Duration
	ctx       context.Context
	release   func() bool

	mu     sync.Mutex // guards socket against the end of ctx
	socket net.Conn

	reader *bufio.Reader
	out    []byte
	answer Answer
}

// New makes a connection to one of the addresses (host:port), beginning with number first; a fault moves on to the
// next one. A request takes at most timeout. The end of ctx breaks a request that is under way.
func New(ctx context.Context, addresses []string, first int, timeout time.Duration) *Conn {
	c := &Conn{addresses: addresses, next: first % len(addresses), timeout: timeout, ctx: ctx,
		reader: bufio.NewReaderSize(nil, 64<<10)}
	c.release = context.AfterFunc(ctx, c.hangUp)
	return c
}

// Address reads host:port from a base URL, which must be plain http without a path.
func Address(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" || u.Host == "" || u.Path != "" && u.Path != "/" {
		return "", fmt.Errorf("a server looks like http://host:8080, not %q", base)
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "80"), nil
	}
	return u.Host, nil
}

// Close ends the connection.
func (c *Conn) Close() {
	c.release()
	c.hangUp()
}

func (c *Conn) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket != nil {
		_ = c.socket.Close()
	}
}

// open makes sure that there is a socket.
func (c *Conn) open() error {
	if c.socket != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: min(c.timeout, 5*time.Second)}
	socket, err := dialer.DialContext(c.ctx, "tcp", c.addresses[c.next])
	if err != nil {
		c.next = (c.next + 1) % len(c.addresses)
		return &Error{Err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil { // its AfterFunc may have run before there was a socket to close
		_ = socket.Close()
		return &Error{Err: c.ctx.Err()}
	}
	c.socket = socket
	c.reader.Reset(socket)
	return nil
}

// fault drops the socket and moves on to the next server.
func (c *Conn) fault(err error) error {
	c.hangUp()
	c.mu.Lock()
	c.socket = nil
	c.mu.Unlock()
	c.next = (c.next + 1) % len(c.addresses)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &Error{Sent: true, Err: err}
}

// Do sends a request (see Head) and reads its answer, which is valid until the next call. An error is an
// *Error, and the connection is opened anew by the next call.
func (c *Conn) Do(head, body []byte) (*Answer, error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	if err := c.socket.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, c.fault(err)
	}
	c.out = append(append(c.out[:0], head...), body...)
	if _, err := c.socket.Write(c.out); err != nil {
		return nil, c.fault(err)
	}
	if err := c.answer.read(c.reader); err != nil {
		return nil, c.fault(err)
	}
	if c.answer.close {
		c.hangUp()
		c.mu.Lock()
		c.socket = nil
		c.mu.Unlock()
	}
	return &c.answer, nil
}
