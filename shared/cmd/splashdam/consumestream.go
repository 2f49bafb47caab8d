package main

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// settleFunc is a way to settle: a request, or a frame of a socket.
type settleFunc func(context.Context, api.SettleRequest) ([]error, error)

// stream consumes with the group over a stream or a WebSocket, message by message.
func (c *consumeCmd) stream(s *session, p *printer) error {
	_, leave, err := c.join(s)
	if err != nil {
		return interruptedIsFine(s, err)
	}
	defer leave()
	o := client.SubscribeOptions{Lease: c.Lease, Name: consumerName, MaxInFlight: streamCredit(c.Max), Max: c.Max, Member: c.Member, Partitions: c.Only}
	n := 0
	if !c.WebSocket {
		_, err := c.follow(s, p, s.client.Subscribe(s.ctx, c.Topic, c.Group, o), s.client.Settle, &n)
		return err
	}
	for {
		if c.Max > 0 {
			o.Max = c.Max - n
		}
		again, err := c.socket(s, p, o, &n)
		if !again || s.ctx.Err() != nil {
			return interruptedIsFine(s, err)
		}
		s.notes.trying(err, "connecting again")
		s.wait(time.Second)
	}
}

// mostCredit is how many messages a stream may have on their way here: enough that printing never waits for the network.
const mostCredit = 64

// streamCredit is how many messages a stream may have on their way here when so many are wanted, 0 for no bound.
func streamCredit(wanted int) int {
	if wanted > 0 {
		return min(wanted, mostCredit)
	}
	return mostCredit
}

// socket follows on one WebSocket. again says that another one may do better.
func (c *consumeCmd) socket(s *session, p *printer, o client.SubscribeOptions, n *int) (again bool, err error) {
	socket, err := s.client.Socket(s.ctx)
	if err != nil {
		return passes(err), err
	}
	defer socket.Close()
	settle := func(ctx context.Context, r api.SettleRequest) ([]error, error) {
		if results, err := socket.Settle(ctx, r); err == nil {
			return results, nil
		}
		return s.client.Settle(ctx, r) // settling twice is harmless
	}
	ended, err := c.follow(s, p, socket.Subscribe(s.ctx, c.Topic, c.Group, o), settle, n)
	return ended && passes(err), err
}

// follow prints and acknowledges until there are as many as wanted. ended says that the error is how the messages ended.
func (c *consumeCmd) follow(s *session, p *printer, all iter.Seq2[client.Delivery, error], settle settleFunc, n *int) (ended bool, err error) {
	for d, err := range all {
		if err != nil {
			return true, interruptedIsFine(s, err)
		}
		if err := errors.Join(p.delivery(&d), p.flush()); err != nil {
			return false, err
		}
		if err := c.acknowledge(s, settle, []client.Delivery{d}); err != nil {
			return false, err
		}
		if *n++; *n == c.Max {
			return false, nil
		}
	}
	return false, nil
}
