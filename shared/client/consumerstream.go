package client

import (
	"context"
	"iter"

	"github.com/splashdam/splashdam/shared/mq"
)

// RunStream is Run over a stream instead of long polls: messages come without a request for each, as many as Concurrency
// says at once. What is on its way when ctx ends is given back, uncounted.
func (k *Consumer) RunStream(ctx context.Context) error {
	return k.run(ctx, func(ctx context.Context, start func(Delivery)) error {
		return k.subscribe(ctx, func(o SubscribeOptions) error {
			return k.each(ctx, k.client.Subscribe(ctx, k.topic, k.group, o), start)
		})
	})
}

// RunSocket is RunStream over a WebSocket, on which it settles, too. A connection that breaks, or whose gateway drains, is
// made again, at another server if there is one; what could not be settled on it is settled by requests.
func (k *Consumer) RunSocket(ctx context.Context) error {
	return k.run(ctx, func(ctx context.Context, start func(Delivery)) error {
		return k.subscribe(ctx, func(o SubscribeOptions) error { return k.sockets(ctx, o, start) })
	})
}

// subscribe carries out subscriptions, as a member if it is to be one, until ctx ends or the error is final.
func (k *Consumer) subscribe(ctx context.Context, once func(SubscribeOptions) error) error {
	o := SubscribeOptions{MaxInFlight: min(k.options.Concurrency, mq.MaxBatchMessages), Lease: k.options.Lease, Name: k.options.Name,
		Partitions: k.options.Partitions}
	if k.member != nil {
		o.Member = k.member.Name()
	}
	pauses := k.client.retry.pauses()
	for ctx.Err() == nil {
		err := once(o)
		if k.member == nil || !IsNotMember(err) {
			return err
		}
		k.member.Lost()
		sleep(ctx, pauses.NextBackOff())
	}
	return nil
}

// each starts a handler for each message.
func (k *Consumer) each(ctx context.Context, all iter.Seq2[Delivery, error], start func(Delivery)) error {
	for d, err := range all {
		if err != nil {
			return err
		}
		if k.slots.Acquire(ctx, 1) != nil { // a handler is about to end, but ctx came first
			k.client.giveBack(ctx, k.ways.settle, []Delivery{d})
			return nil
		}
		start(d)
	}
	return nil
}

// sockets subscribes on one socket after the other until ctx ends or the error is final.
func (k *Consumer) sockets(ctx context.Context, o SubscribeOptions, start func(Delivery)) error {
	pauses := k.client.retry.pauses()
	for ctx.Err() == nil {
		s, err := k.client.Socket(ctx)
		if err == nil {
			k.ways.socket.Store(s)
			err = k.each(ctx, s.Subscribe(ctx, k.topic, k.group, o), func(d Delivery) {
				pauses.Reset() // it works
				start(d)
			})
			k.ways.socket.Store(nil)
			s.Close() // who settles on it asks again by a request
		}
		switch {
		case ctx.Err() != nil:
		case final4xx(err):
			return err
		default:
			k.client.log.Warn("a socket ended, connecting again", "topic", k.topic, "group", k.group, "err", err)
			sleep(ctx, pauses.NextBackOff())
		}
	}
	return nil
}
