package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

// defaultCredit is what the server takes where SubscribeOptions say nothing.
const defaultCredit = 16

// socketSubscription is a group's messages on a Socket, whose mu guards it.
type socketSubscription struct {
	name   string
	topic  string
	credit int
	queue  []Delivery
	err    error         // why no more comes
	news   chan struct{} // capacity 1: there is more, or err
}

// add queues what came. No more than credit can be out: in a longer queue the leases of the oldest have run out, and
// the messages are with somebody else, or further behind in the queue.
func (sub *socketSubscription) add(all []api.Delivery) {
	for i := range all {
		var d Delivery
		if err := d.fill(sub.topic, &all[i]); err != nil {
			sub.end(fmt.Errorf("client: a message of the socket can't be read: %w", err))
			return
		}
		sub.queue = append(sub.queue, d)
	}
	if over := len(sub.queue) - sub.credit; over > 0 {
		sub.queue = append(sub.queue[:0], sub.queue[over:]...)
	}
	sub.poke()
}

func (sub *socketSubscription) end(err error) {
	if sub.err == nil {
		sub.err = err
		sub.poke()
	}
}

func (sub *socketSubscription) poke() {
	select {
	case sub.news <- struct{}{}:
	default:
	}
}

// Subscribe delivers a group's messages on this connection, as Client.Subscribe does on one of its own; the bounds of
// SubscribeOptions are the same, and a connection has at most 64 subscriptions. The pairs end with ctx, or with an
// error as the last pair: that of the server, or that of the connection, which nothing opens again. What came for a caller that
// wants no more is given back, uncounted.
func (s *Socket) Subscribe(ctx context.Context, topic, group string, o SubscribeOptions) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		sub, err := s.subscribe(ctx, topic, group, &o)
		if err == nil {
			defer s.unsubscribe(ctx, sub)
		}
		for n := 1; err == nil; n++ {
			var d Delivery
			if d, err = s.receive(ctx, sub); err == nil && (!yield(d, nil) || n == o.Max) {
				return
			}
		}
		if ctx.Err() == nil {
			yield(Delivery{}, err)
		}
	}
}

func (s *Socket) subscribe(ctx context.Context, topic, group string, o *SubscribeOptions) (*socketSubscription, error) {
	credit := orDefault(o.MaxInFlight, defaultCredit)
	sub := &socketSubscription{topic: topic, credit: credit, news: make(chan struct{}, 1)}
	s.mu.Lock()
	sub.name = s.next()
	s.subscriptions[sub.name] = sub
	s.mu.Unlock()
	_, _, err := s.ask(ctx, func(id string) any {
		return api.SocketSubscribe{SocketHead: api.SocketHead{Type: api.FrameSubscribe, ID: id}, Subscription: sub.name, Topic: topic, Group: group,
			Credit: &credit, Max: o.Max, Lease: mq.Duration(o.Lease), Consumer: o.Name, Partitions: o.Partitions, Member: o.Member}
	})
	if err != nil {
		s.unsubscribe(ctx, sub) // it may have begun
		return nil, err
	}
	return sub, nil
}

// receive is the next message. It asks first whether somebody wants the end: under a backlog the queue is never empty.
func (s *Socket) receive(ctx context.Context, sub *socketSubscription) (d Delivery, err error) {
	for {
		switch {
		case ctx.Err() != nil:
			return d, context.Cause(ctx)
		case context.Cause(s.ctx) == errClosed:
			return d, errClosed
		}
		s.mu.Lock()
		switch {
		case len(sub.queue) > 0:
			d = sub.queue[0]
			sub.queue[0] = Delivery{}
			sub.queue = sub.queue[1:]
			s.mu.Unlock()
			return d, nil
		case sub.err != nil:
			s.mu.Unlock()
			return d, sub.err
		}
		s.mu.Unlock()
		select {
		case <-sub.news:
		case <-ctx.Done():
			return d, context.Cause(ctx)
		}
	}
}

// unsubscribe ends a subscription and gives back what came for it and was not begun. What still comes until the answer is
// there is given back, too; ctx may have ended.
func (s *Socket) unsubscribe(ctx context.Context, sub *socketSubscription) {
	s.mu.Lock()
	over := sub.err != nil
	s.mu.Unlock()
	if !over {
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackWait)
		_, _, _ = s.ask(wait, func(id string) any { // else it ended with the connection, or by itself
			return api.SocketUnsubscribe{SocketHead: api.SocketHead{Type: api.FrameUnsubscribe, ID: id}, Subscription: sub.name}
		})
		cancel()
	}
	s.mu.Lock()
	delete(s.subscriptions, sub.name)
	left := sub.queue
	sub.queue = nil
	s.mu.Unlock()
	w := &ways{client: s.client}
	if s.ctx.Err() == nil {
		w.socket.Store(s)
	}
	s.client.giveBack(ctx, w.settle, left)
}
