package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

// ErrClosed answers calls on a Publisher or PublishStream that was closed.
var ErrClosed = errors.New("client: closed")

// PublisherOptions bound a Publisher; zero fields take the defaults.
type PublisherOptions struct {
	MaxMessages int           // of a batch; default 1,000
	MaxBytes    int           // of a batch's values and keys; default 512 KiB, one message may be longer
	Linger      time.Duration // how long a batch waits for more; default 5 ms
	// BufferMessages and BufferBytes bound what was given to Publish and is not answered yet; at the bound
	// Publish waits. Defaults 10,000 and 32 MiB. A message longer than BufferBytes counts as that.
	BufferMessages int
	BufferBytes    int64
	// InFlight is how many batches are on the way at once; default 1, which keeps the order of the messages
	// of a key. More is faster over a long way and gives that order up.
	InFlight int
}

func (o PublisherOptions) withDefaults() PublisherOptions {
	o.MaxMessages = min(orDefault(o.MaxMessages, 1000), mq.MaxBatchMessages)
	o.MaxBytes = orDefault(o.MaxBytes, 512<<10)
	o.Linger = orDefault(o.Linger, 5*time.Millisecond)
	o.BufferMessages = orDefault(o.BufferMessages, 10_000)
	o.BufferBytes = orDefault(o.BufferBytes, 32<<20)
	o.InFlight = orDefault(o.InFlight, 1)
	return o
}

func orDefault[T int | int64 | time.Duration](v, fallback T) T {
	if v <= 0 {
		return fallback
	}
	return v
}

// Future is the answer to come of one message.
type Future struct {
	done   chan struct{}
	result Result
}

// Done is closed when the answer is there.
func (f *Future) Done() <-chan struct{} { return f.done }

// Get waits for the answer, or until ctx ends; the message is on its way all the same.
func (f *Future) Get(ctx context.Context) (api.Published, error) {
	select {
	case <-f.done:
		return f.result.Published, f.result.Err
	case <-ctx.Done():
		return api.Published{}, context.Cause(ctx)
	}
}

// Publisher gathers single messages of one topic into batches. Make it with Client.Publisher and end it
// with Close. Its methods may be called by any number of goroutines.
type Publisher struct {
	client  *Client
	topic   string
	options PublisherOptions

	// Publish holds mu for reading while it hands over, so that Close never closes in under a sender.
	mu     sync.RWMutex
	closed bool
	in     chan handover

	slots *semaphore.Weighted // messages that are not answered yet
	bytes *semaphore.Weighted // and their bytes

	batches chan *batch
	ctx     context.Context // of the requests; cancelled when Close is out of patience
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// handover is a message, or with flush the wish to have all before it sent.
type handover struct {
	message Message
	size    int64
	future  *Future
	flush   chan<- []*batch
}

type batch struct {
	messages []Message
	futures  []*Future
	bytes    int64
	done     chan struct{}
}

// Publisher starts a publisher for one topic.
func (c *Client) Publisher(topic string, o PublisherOptions) *Publisher {
	o = o.withDefaults()
	p := &Publisher{client: c, topic: topic, options: o, in: make(chan handover),
		slots: semaphore.NewWeighted(int64(o.BufferMessages)), bytes: semaphore.NewWeighted(o.BufferBytes),
		batches: make(chan *batch)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.gather)
	for range o.InFlight {
		p.running.Go(p.sendBatches)
	}
	return p
}

// Publish hands a message over and returns a future of its answer; the message's bytes must not change
// until then. It waits while the buffer is full, and fails when ctx ends before or the publisher is closed.
func (p *Publisher) Publish(ctx context.Context, m Message) (*Future, error) {
	size := min(messageSize(&m), p.options.BufferBytes)
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return nil, ErrClosed
	}
	if err := p.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := p.bytes.Acquire(ctx, size); err != nil {
		p.slots.Release(1)
		return nil, err
	}
	f := &Future{done: make(chan struct{})}
	select {
	case p.in <- handover{message: m, size: size, future: f}:
		return f, nil
	case <-ctx.Done():
		p.slots.Release(1)
		p.bytes.Release(size)
		return nil, context.Cause(ctx)
	}
}

func messageSize(m *Message) int64 {
	n := int64(len(m.Value))
	if m.Key != nil {
		n += int64(len(*m.Key))
	}
	for name, value := range m.Headers {
		n += int64(len(name) + len(value))
	}
	return n
}

// Flush sends what is gathered without waiting for more, and returns when everything that was handed over
// before is answered. The answers, failures too, are in the futures.
func (p *Publisher) Flush(ctx context.Context) error {
	out, err := p.cut(ctx)
	if err != nil {
		return err
	}
	for _, b := range out {
		select {
		case <-b.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// cut ends the batch that is being gathered and gives those that are not answered yet.
func (p *Publisher) cut(ctx context.Context) ([]*batch, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return nil, ErrClosed
	}
	answer := make(chan []*batch, 1)
	select {
	case p.in <- handover{flush: answer}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case out := <-answer:
		return out, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close sends what is gathered, waits for all answers and ends the publisher. When ctx ends first, requests
// that are under way are given up, their futures fail, and Close returns the reason once all have ended.
func (p *Publisher) Close(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.cancel)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		stop()
		p.running.Wait()
		return nil
	}
	p.closed = true
	close(p.in)
	p.mu.Unlock()
	p.running.Wait()
	if stop() {
		p.cancel()
		return nil
	}
	return context.Cause(ctx)
}
