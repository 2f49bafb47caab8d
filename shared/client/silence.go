package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// callSilence is how long a call may be without an answer before its gateway is asked whether it lives. Many calls
	// rightly take longer; what is given up is only what is at a gateway that does not answer that question either.
	callSilence = 3 * time.Second
	// waitSilence is the same for what mostly waits: long polls, streams and sockets. All that wait at one gateway share
	// the question, so that it costs a gateway one small request in this time for each client.
	waitSilence = 4 * time.Second
	// pulseWait is how long the answer is waited for.
	pulseWait = 3 * time.Second
	// pulseFresh is how long an answer holds for all others who would ask.
	pulseFresh = time.Second
)

// ErrSilent is in what a call returns whose gateway took the connection and answered nothing, not even that it lives: it is frozen,
// or was cut off. A call that may have been carried out is an *Error around it, for which IsOutcomeUnknown holds.
var ErrSilent = errors.New("client: the gateway is silent")

// pulse is what is known of one gateway's life.
type pulse struct {
	turn chan struct{} // capacity 1: who holds it asks, or reads and writes the next two fields
	at   time.Time     // of the last answer, or of the lack of one
	ok   bool

	mu   sync.Mutex
	lost chan struct{} // closed when there was no answer
}

func newPulse() *pulse { return &pulse{turn: make(chan struct{}, 1), lost: make(chan struct{})} }

// next is closed when the gateway is found silent from now on.
func (p *pulse) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// tell ends what waits at the gateway.
func (p *pulse) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.lost)
	p.lost = make(chan struct{})
}

// alive asks the gateway whether it lives, unless somebody just did. Any answer is one: that of a proxy, of an older gateway,
// of one that is draining. It says yes when ctx ends first, since then nobody wants to know.
func (c *Client) alive(ctx context.Context, base string) bool {
	p := c.servers.pulses[base]
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return true
	}
	defer func() { <-p.turn }()
	if time.Since(p.at) < pulseFresh {
		return p.ok
	}
	asking, cancel := context.WithTimeout(ctx, pulseWait)
	defer cancel()
	ok := c.ask(asking, base)
	if ctx.Err() != nil {
		return true
	}
	if p.at, p.ok = time.Now(), ok; !ok {
		p.tell()
	}
	return ok
}

// ask sends one question to base. A question that had to wait for a connection of the pool (http.Transport.MaxConnsPerHost) did
// not reach the gateway, and says nothing about it.
func (c *Client) ask(ctx context.Context, base string) bool {
	var tried atomic.Bool // atomic: a dial may go on after Do returned
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { tried.Store(true) }, ConnectStart: func(string, string) { tried.Store(true) }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, base+"/livez", http.NoBody)
	if err != nil {
		return true
	}
	request.Header.Set("User-Agent", c.userAgent)
	answer, err := c.http.Do(request)
	if err != nil {
		return !tried.Load() && ctx.Err() != nil
	}
	drop(answer)
	return true
}

// guard ends what is under way at a gateway when that has fallen silent and does not say that it lives.
type guard struct {
	client *Client
	base   string
	quiet  time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
	began  time.Time
	heard  atomic.Int64 // since began, when something came last
	timer  *time.Timer  // starts watch, so that a call that is answered in time pays for no goroutine; nil for what waits
	once   sync.Once
	ended  chan struct{} // closed when watch has returned
}

// guard starts to watch; what is done under the context ends with the cause ErrSilent. The caller calls stop, which waits for
// the goroutine, if there is one.
func (c *Client) guard(ctx context.Context, base string, quiet time.Duration) (context.Context, *guard) {
	g := &guard{client: c, base: base, quiet: quiet, began: time.Now(), ended: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	if quiet > callSilence {
		go g.watch() // stop waits for it
	} else {
		g.timer = time.AfterFunc(quiet, g.watch)
	}
	return g.ctx, g
}

// watch asks whenever nothing came for quiet. When somebody else has found the gateway silent it does not wait for its own turn,
// unless something came just now: then it asks again.
func (g *guard) watch() {
	defer close(g.ended)
	p := g.client.servers.pulses[g.base]
	lost, quiet := p.next(), g.quiet
	answered := time.Duration(0) // since began, when the gateway last said that it lives
	for {
		silence := time.Since(g.began) - max(answered, time.Duration(g.heard.Load()))
		if silence < quiet {
			timer := time.NewTimer(quiet - silence)
			select {
			case <-timer.C:
			case <-lost:
				lost, quiet = nil, min(quiet, pulseWait)
			case <-g.ctx.Done():
			}
			timer.Stop()
			if g.ctx.Err() != nil {
				return
			}
			continue // something may have come meanwhile
		}
		lost, quiet = p.next(), g.quiet
		if !g.client.alive(g.ctx, g.base) {
			g.cancel(ErrSilent)
			return
		}
		answered = time.Since(g.began)
	}
}

// touch says that something came from the gateway.
func (g *guard) touch() { g.heard.Store(int64(time.Since(g.began))) }

// silent says whether it was the guard that ended the work.
func (g *guard) silent() bool { return context.Cause(g.ctx) == ErrSilent }

// stop ends the watch, and what is still done under its context.
func (g *guard) stop() {
	g.once.Do(func() {
		g.cancel(nil)
		if g.timer == nil || !g.timer.Stop() {
			<-g.ended
		}
	})
}

// explain words what a request says that failed, or was ended by the guard: that a context ended is no help.
func (g *guard) explain(err error) error {
	if err == nil || !g.silent() {
		return faultOf(g.base, time.Since(g.began), err)
	}
	return fmt.Errorf("%w: %s takes connections and does not answer", ErrSilent, g.base)
}

// guarded is the body of an answer. It is watched until it is closed.
type guarded struct {
	io.ReadCloser
	guard *guard
}

func (b *guarded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.guard.touch()
	}
	if err != nil && err != io.EOF {
		err = b.guard.explain(err)
	}
	return n, err
}

func (b *guarded) Close() error {
	err := b.ReadCloser.Close()
	b.guard.stop()
	return err
}
