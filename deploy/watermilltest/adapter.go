// Package watermilltest runs the pub/sub tests of Watermill (github.com/ThreeDotsLabs/watermill), which others wrote, over
// an adapter on the Go SDK: a module of its own, so that nobody else needs Watermill. The adapter may serve as an
// example of how to put the SDK under a library of this kind.
package watermilltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// uuidHeader carries a Watermill message's UUID; its metadata are headers of the same name.
const uuidHeader = "watermill-uuid"

var errClosed = errors.New("watermilltest: closed")

// Publisher publishes each message under its UUID as idempotency key.
type Publisher struct {
	client *client.Client
	// Key gives the key of a message; nil for none.
	key func(*message.Message) *string

	mu     sync.Mutex
	closed bool
}

// Publish returns when all messages are committed, in order; with an error some may be.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return errClosed
	}
	if len(messages) == 0 {
		return nil
	}
	out := make([]client.Message, len(messages))
	for i, m := range messages {
		headers := map[string]string{uuidHeader: m.UUID}
		for name, value := range m.Metadata {
			headers[name] = value
		}
		out[i] = client.Message{Value: m.Payload, Headers: headers, Key: p.key(m), IdempotencyKey: m.UUID}
	}
	results, err := p.client.PublishBatch(messages[0].Context(), topic, out)
	for i := range results {
		if err == nil && results[i].Err != nil {
			err = fmt.Errorf("message %s: %w", messages[i].UUID, results[i].Err)
		}
	}
	return err
}

// Close ends the publisher. Nothing is pending: Publish waits for its answer.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

// Subscriber consumes with one group over streams.
type Subscriber struct {
	client      *client.Client
	group       string
	topic       api.TopicInput // settings of a topic that is made
	ordering    string         // of a group that is made
	concurrency int

	mu      sync.Mutex
	closed  bool
	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup
}

// lease is short, so that what a closed subscriber had on its way comes back soon.
const lease = 3 * time.Second

// SubscribeInitialize makes the topic and the group, if they are not there. Messages are tried without end, as
// Watermill expects; a retry comes soon.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.client.CreateTopic(ctx, topic, s.topic); err != nil && !client.IsCode(err, mqerr.AlreadyExists) {
		return err
	}
	soon, forever, factor := api.Duration(10*time.Millisecond), 0, 1.0
	_, err := s.client.CreateGroup(ctx, topic, s.group, api.GroupInput{MaxAttempts: &forever, Ordering: &s.ordering,
		Backoff: &api.BackoffInput{Initial: &soon, Multiplier: &factor}})
	if client.IsCode(err, mqerr.AlreadyExists) {
		return nil
	}
	return err
}

// Subscribe delivers messages until ctx ends or the subscriber is closed; the channel is closed then.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := s.SubscribeInitialize(topic); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	out := make(chan *message.Message)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel)
	d := &delivering{ctx: ctx, out: out}
	consumer := s.client.Consumer(topic, s.group, d.handle, client.ConsumerOptions{Concurrency: s.concurrency, Lease: lease, Drain: time.Second})
	s.running.Go(func() {
		defer close(out)
		defer cancel()
		defer stop()
		_ = consumer.RunStream(ctx) // an error means that the topic is gone, and ends the channel like a close
	})
	return out, nil
}

// delivering is one subscription.
type delivering struct {
	ctx context.Context
	out chan<- *message.Message
}

// handle gives one message to whoever reads the channel and waits for the verdict. What a closed subscription has not
// settled comes to another one at once.
func (d *delivering) handle(_ context.Context, got client.Delivery) error {
	m := message.NewMessage(got.Headers[uuidHeader], got.Value)
	for name, value := range got.Headers {
		if name != uuidHeader {
			m.Metadata.Set(name, value)
		}
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	m.SetContext(ctx)
	select {
	case d.out <- m:
	case <-d.ctx.Done():
		return client.RetryAfter(errClosed, 0)
	}
	select {
	case <-m.Acked():
		return nil
	case <-m.Nacked():
		return errors.New("nacked")
	case <-d.ctx.Done():
		return client.RetryAfter(errClosed, 0)
	}
}

// Close ends all subscriptions and waits for them.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.close()
	s.running.Wait()
	return nil
}
