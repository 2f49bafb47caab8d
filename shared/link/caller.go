package link

import (
	"context"
	"sync"

	"github.com/splashdam/splashdam/shared/frame"
)

// Caller matches answers to requests on a stream. Any number of goroutines may Call.
type Caller struct {
	s *Stream

	mu      sync.Mutex
	next    uint64
	pending map[uint64]chan answer
	err     error
	began   chan struct{} // capacity 1
}

type answer struct {
	t    frame.Type
	body []byte
	err  error
}

// NewCaller makes a caller over s; the owner of s runs it with c.Handle and ends it with c.Fail.
func NewCaller(s *Stream) *Caller {
	return &Caller{s: s, pending: map[uint64]chan answer{}, began: make(chan struct{}, 1)}
}

// Handle gives an answer to its caller; frames that nobody waits for are dropped.
func (c *Caller) Handle(t frame.Type, id uint64, body []byte) error {
	c.mu.Lock()
	ch := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if ch != nil {
		ch <- answer{t: t, body: body}
	}
	return nil
}

// Fail ends every call that waits and every later one with err.
func (c *Caller) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	for id, ch := range c.pending {
		delete(c.pending, id)
		ch <- answer{err: err}
	}
}

// Call sends a request and waits for its answer. sent says whether the request may have reached the peer:
// with false and an error nothing was sent, and the call may be made again elsewhere without a doubt.
// An answer of type Error comes back as its error.
func (c *Caller) Call(ctx context.Context, t frame.Type, body Encoder) (answerType frame.Type, answerBody []byte, sent bool, err error) {
	ch := make(chan answer, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return 0, nil, false, c.err
	}
	c.next++
	id := c.next
	c.pending[id] = ch
	first := len(c.pending) == 1
	c.mu.Unlock()
	if first {
		select {
		case c.began <- struct{}{}:
		default: // nobody has looked since
		}
	}
	if err := c.s.Put(t, id, body); err != nil {
		c.forget(id)
		return 0, nil, false, err
	}
	select {
	case a := <-ch:
		if a.err == nil && a.t == frame.TypeError {
			var e frame.Error
			if err := e.Parse(a.body); err != nil {
				return 0, nil, true, err
			}
			return a.t, nil, true, e.Err()
		}
		return a.t, a.body, true, a.err
	case <-ctx.Done():
		c.forget(id)
		return 0, nil, true, ctx.Err()
	}
}

// Waits says whether a call waits for its answer.
func (c *Caller) Waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) > 0
}

// Began receives when a call was made while none waited, so that whoever watches the peer need not look while nothing is asked
// of it. It is for one receiver, may also receive for a call that has been answered, and does not once the caller has failed.
func (c *Caller) Began() <-chan struct{} { return c.began }

// Tell sends a frame that has no answer.
func (c *Caller) Tell(t frame.Type, body Encoder) error { return c.s.Put(t, 0, body) }

func (c *Caller) forget(id uint64) {
	c.mu.Lock()
	delete(c.pending, id)
	c.mu.Unlock()
}
