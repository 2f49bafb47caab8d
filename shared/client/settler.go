package client

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

// maxSettle bounds the receipts of one settle call of a consumer.
const maxSettle = 1000

// settler gathers what handlers returned into few settle calls.
type settler struct {
	client *Client
	ways   *ways
	linger time.Duration
	lease  time.Duration
	going  context.Context // until no more comes
	end    context.CancelFunc
	in     chan settlement // holds one call's worth; at the bound handlers wait
}

type settlement struct {
	receipt string
	err     error
}

func newSettler(c *Client, w *ways, o ConsumerOptions) *settler {
	going, end := context.WithCancel(context.Background())
	return &settler{client: c, going: going, end: end, ways: w, linger: o.SettleLinger, lease: o.Lease, in: make(chan settlement, min(o.Concurrency, maxSettle))}
}

func (s *settler) file(receipt string, err error) { s.in <- settlement{receipt, err} }

// close says that no more comes; run returns once all is settled.
func (s *settler) close() {
	s.end()
	close(s.in)
}

func (s *settler) run() {
	for first := range s.in {
		request := api.SettleRequest{}
		add(&request, first)
		s.more(&request)
		s.send(request)
	}
}

// more takes what comes within the linger, up to the bound.
func (s *settler) more(r *api.SettleRequest) {
	timer := time.NewTimer(s.linger)
	defer timer.Stop()
	for n := 1; n < maxSettle; n++ {
		select {
		case next, open := <-s.in:
			if !open {
				return
			}
			add(r, next)
		case <-timer.C:
			return
		}
	}
}

func add(r *api.SettleRequest, s settlement) {
	if s.err == nil {
		r.Ack = append(r.Ack, s.receipt)
		return
	}
	reason := strings.ToValidUTF8(s.err.Error(), "?")
	if len(reason) > mq.MaxReasonBytes {
		reason = strings.ToValidUTF8(reason[:mq.MaxReasonBytes], "")
	}
	var v *verdict
	switch {
	case errors.As(s.err, &v) && v.reject:
		r.Reject = append(r.Reject, api.RejectItem{Receipt: s.receipt, Reason: reason})
	case v != nil:
		r.Nack = append(r.Nack, api.NackItem{Receipt: s.receipt, Delay: (*api.Duration)(v.delay), Reason: reason})
	default:
		r.Nack = append(r.Nack, api.NackItem{Receipt: s.receipt, Reason: reason})
	}
}

// send settles once, with the client's retries, and while no server answers again for as long as a lease. What fails for
// good comes back when its lease ends, so it is only logged. The context has no end of its own: while stopping, Retry
// bounds the time.
func (s *settler) send(r api.SettleRequest) {
	began := time.Now()
	results, err := s.ways.settle(context.Background(), r)
	for err != nil && passes(err) && time.Since(began) < s.lease && s.going.Err() == nil {
		sleep(s.going, min(s.client.retry.Max, s.lease/8))
		results, err = s.ways.settle(context.Background(), r)
	}
	if err != nil {
		s.client.log.Warn("settle failed; the messages come again when their leases end",
			"acks", len(r.Ack), "nacks", len(r.Nack), "rejects", len(r.Reject), "err", err)
		return
	}
	for _, one := range results {
		if one != nil {
			s.client.log.Warn("a receipt was not settled", "err", one)
		}
	}
}

// ways are how a consumer settles: over its socket while it has one, and by requests of their own.
type ways struct {
	client *Client
	socket atomic.Pointer[Socket]
}

// socketWait is how long the answer of a socket is waited for, before a request asks again.
const socketWait = 10 * time.Second

// settle settles over the socket, and by a request what the socket did not answer: settling twice is harmless. Receipts that
// were refused for now are not asked for again, since those of other partitions wait behind them.
func (w *ways) settle(ctx context.Context, r api.SettleRequest) ([]error, error) {
	if s := w.socket.Load(); s != nil {
		call, cancel := context.WithTimeout(ctx, socketWait)
		results, err := s.Settle(call, r)
		cancel()
		if err == nil {
			return results, nil
		}
	}
	return w.client.settleOnce(ctx, r)
}
