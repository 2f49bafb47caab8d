package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Retry says how often and how long a request is sent again. Only what is surely safe is repeated: a
// request that nothing was sent of (connection refused), one that the server refused with a code that says
// nothing was stored, and calls that have the same effect twice (reads, settles, settings as a whole).
// A publish whose outcome is unknown is repeated only if its messages have idempotency keys; see Keys.
type Retry struct {
	// Attempts is how often a request is sent at most; 1 turns repeating off. Default: as often as Elapsed allows.
	Attempts int
	// Initial and Max bound the pause, which doubles and is spread by half each way; a longer Retry-After
	// wins. Defaults 50 ms and 5 s.
	Initial, Max time.Duration
	// Elapsed is how long all attempts together may take before no further one is begun; the context may
	// end it earlier. Default 30 s.
	Elapsed time.Duration
}

func (r Retry) withDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = math.MaxInt
	}
	if r.Initial <= 0 {
		r.Initial = 50 * time.Millisecond
	}
	if r.Max <= 0 {
		r.Max = 5 * time.Second
	}
	if r.Elapsed <= 0 {
		r.Elapsed = 30 * time.Second
	}
	return r
}

func (r Retry) pauses() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: r.Initial, MaxInterval: r.Max, Multiplier: 2, RandomizationFactor: 0.5}
}

// call is one request in a form that can be sent more than once.
type call struct {
	method string
	path   string // escaped, with the query
	header http.Header
	body   []byte
	// repeatable: sending it twice has the effect of sending it once, so a lost answer is no reason to stop.
	repeatable bool
	// keyed: the server knows it again when it comes twice (idempotency keys). It is sent again like what is
	// repeatable, but once an answer was lost its outcome is unknown until there is a success.
	keyed bool
	// quiet is how long the server may rightly say nothing; 0: callSilence.
	quiet time.Duration
}

// poll says that the server may wait for so long before it answers.
func (q *call) poll(wait time.Duration) *call {
	if wait > 0 {
		q.quiet = waitSilence
	}
	return q
}

// send sends c until it is answered with a success that take can read, may not be repeated, or the bounds of Retry are
// reached; then the last error is returned.
func (c *Client) send(ctx context.Context, q *call, take func(*http.Response) error) error {
	began := time.Now()
	pauses := c.retry.pauses()
	lost := false
	var before error // what a gateway said last, for a caller whose time ends while another answer is waited for
	for attempt := 1; ; attempt++ {
		base := c.servers.current()
		sent, err := c.attempt(ctx, base, q, take)
		if err == nil {
			return nil
		}
		again, elsewhere := judge(err, sent, q.repeatable || q.keyed)
		if lost = lost || q.keyed && sent && open(err); lost && !refused(err) {
			err = unknown(err)
		}
		// That a caller wants no answer any more says nothing of a gateway; that there was none in a caller's time may.
		if elsewhere && !errors.Is(ctx.Err(), context.Canceled) {
			c.servers.leave(base)
		}
		if ctx.Err() == nil && !refused(err) {
			c.trouble.Store(troubleOf(sent))
		}
		if ctx.Err() != nil && before != nil && open(err) {
			err = fmt.Errorf("%w; before that: %v", err, before)
		}
		if ctx.Err() != nil || !again || attempt >= c.retry.Attempts {
			return final(err, sent, q.repeatable)
		}
		pause := pauses.NextBackOff()
		var e *Error
		if errors.As(err, &e) {
			before, pause = err, max(pause, e.RetryAfter)
		}
		if time.Since(began)+pause > c.retry.Elapsed {
			return final(err, sent, q.repeatable)
		}
		c.log.Info("trying again", "server", base, "err", err)
		if !sleep(ctx, pause) {
			return fmt.Errorf("%w (%w while it waited to be repeated)", err, ended(ctx))
		}
	}
}

// attempt sends c once and takes the answer.
func (c *Client) attempt(ctx context.Context, base string, q *call, take func(*http.Response) error) (sent bool, err error) {
	answer, sent, err := c.once(ctx, base, q)
	if err != nil {
		return sent, err
	}
	defer drop(answer)
	return true, take(answer)
}

// open says whether what was sent may have been carried out.
func open(err error) bool {
	var e *Error
	return !errors.As(err, &e) || e.OutcomeUnknown()
}

// refused says that the server's answer is about the request itself, and not about its own state.
func refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.Retryable
}

// passes says that a fault may be over when the same is asked for again.
func passes(err error) bool { return !refused(err) && !foreignBody(err) }

// judge says whether to send again, and whether another server would be the better choice.
func judge(err error, sent, repeatable bool) (again, elsewhere bool) {
	var e *Error
	if !errors.As(err, &e) {
		return (!sent || repeatable) && !foreignBody(err), true // the connection failed
	}
	if e.OutcomeUnknown() {
		return repeatable, true
	}
	return e.Retryable, e.Status == http.StatusServiceUnavailable
}

// foreignBody says that an answer came and is not what this API says: it will not be next time.
func foreignBody(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind)
}

// final is what the caller sees: a lost connection after sending is an unknown outcome unless the call
// has no effect to wonder about.
func final(err error, sent, repeatable bool) error {
	var e *Error
	if errors.As(err, &e) || !sent || repeatable {
		return err
	}
	return unknown(err)
}

// once sends c to one server. sent says whether any byte may have left: a connection was there. Closing the answer's body ends
// what watches over the server.
func (c *Client) once(ctx context.Context, base string, q *call) (answer *http.Response, sent bool, err error) {
	ctx, g := c.guard(ctx, base, orDefault(q.quiet, callSilence))
	defer func() {
		if err != nil {
			g.stop()
		}
	}()
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		sent = true
		// What waits at a gateway is answered late: that it can be reached again is known now.
		c.well(base, noConnection)
	}}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), q.method, base+q.path, bytesReader(q.body))
	if err != nil {
		return nil, false, &Error{Code: "invalid_request", Detail: err.Error(), cause: err}
	}
	for name, values := range q.header {
		request.Header[name] = values
	}
	request.Header.Set("User-Agent", c.userAgent)
	answer, err = c.http.Do(request)
	if err != nil {
		return nil, sent, g.explain(err)
	}
	answer.Body = &guarded{answer.Body, g}
	g.touch()
	if answer.StatusCode >= 300 {
		defer drop(answer)
		return nil, true, readProblem(answer)
	}
	c.well(base, noAnswer)
	return answer, true, nil
}

// What troubled the last try that failed, in Client.trouble.
const (
	noTrouble    uint32 = iota
	noConnection        // no connection was made
	noAnswer            // there was a connection, and no answer or one that says to try again
)

func troubleOf(sent bool) uint32 {
	if sent {
		return noAnswer
	}
	return noConnection
}

// well ends a trouble up to most, and says so.
func (c *Client) well(base string, most uint32) {
	if was := c.trouble.Load(); was != noTrouble && was <= most && c.trouble.CompareAndSwap(was, noTrouble) {
		c.log.Info("the server answers again", "server", base)
	}
}

// sleep waits for d; false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
