package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// Delivery is a message that is leased to the caller until LeaseExpiresAt, by the server's clock.
type Delivery struct {
	ID             string
	Topic          string
	Partition      uint32
	Offset         uint64
	Key            []byte // nil for none
	Value          []byte
	ContentType    string
	Headers        map[string]string
	Lane           string
	Timestamp      time.Time // when it was published
	Receipt        string    // names this delivery when it is settled
	Fence          string    // grows from delivery to delivery, compares as text
	Attempt        uint32    // 1 for the first
	LeaseExpiresAt time.Time
}

// Receive leases messages for a group, waiting up to r.Wait for the first. An empty result is no error.
// A lost answer is not asked for again: what it held comes back when the lease ends, or sooner.
func (c *Client) Receive(ctx context.Context, topic, group string, r api.ReceiveRequest) ([]Delivery, error) {
	var answer api.ReceiveAnswer
	q, err := newCall(http.MethodPost, pathOf("topics", topic, "groups", group, "receive"), r, false)
	if err == nil {
		_, err = c.exchange(ctx, q.poll(time.Duration(r.Wait)), &answer)
	}
	if err != nil {
		return nil, err
	}
	out := make([]Delivery, len(answer.Messages))
	for i := range answer.Messages {
		if err := out[i].fill(topic, &answer.Messages[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *Delivery) fill(topic string, m *api.Delivery) error {
	value, err := m.Bytes()
	if err != nil {
		return fmt.Errorf("client: value of message %s: %w", m.ID, err)
	}
	key, err := m.KeyBytes()
	if err != nil {
		return fmt.Errorf("client: key of message %s: %w", m.ID, err)
	}
	*d = Delivery{ID: m.ID, Topic: topic, Partition: m.Partition, Offset: m.Offset, Key: key, Value: value,
		ContentType: m.ContentType, Headers: m.Headers, Lane: m.Lane, Timestamp: m.Timestamp,
		Receipt: m.Receipt, Fence: m.Fence, Attempt: m.Attempt, LeaseExpiresAt: m.LeaseExpiresAt}
	return nil
}

// Settle carries out all acts of r in one call and returns an error (nil or *Error) for each receipt, all
// of Ack first, then Nack, Reject, Extend, Release. Acts are committed when it returns. Settling twice is harmless,
// so a lost answer is asked for again within the bounds of Retry, and so are the acts that were refused for now; after a
// first time that was carried out, a repeated nack or reject may answer receipt_stale.
func (c *Client) Settle(ctx context.Context, r api.SettleRequest) ([]error, error) {
	pauses, began := c.retry.pauses(), time.Now()
	results, err := c.settleOnce(ctx, r)
	out := results
	place := make([]int, len(results)) // of each act of r in out
	for i := range place {
		place[i] = i
	}
	for attempt := 1; err == nil; attempt++ {
		again := func(i int) bool {
			var e *Error
			return errors.As(results[i], &e) && e.Retryable
		}
		var left []int
		for i, at := range place {
			if out[at] = results[i]; again(i) {
				left = append(left, at)
			}
		}
		if len(left) == 0 || attempt >= c.retry.Attempts || time.Since(began) > c.retry.Elapsed {
			break
		}
		r, place = actsOf(&r, again), left
		c.log.Info("trying again", "err", out[left[0]])
		if !sleep(ctx, pauses.NextBackOff()) {
			break
		}
		// Where this fails, what the acts before it were answered holds for those that were not repeated.
		results, err = c.settleOnce(ctx, r)
	}
	for _, at := range place {
		if err != nil {
			out[at] = err
		}
	}
	if len(out) == 0 {
		return nil, err
	}
	return out, nil
}

// settleOnce settles what is answered as a whole.
func (c *Client) settleOnce(ctx context.Context, r api.SettleRequest) ([]error, error) {
	n := receipts(&r)
	if n == 0 {
		return nil, nil
	}
	var answer api.SettleAnswer
	if err := c.do(ctx, http.MethodPost, pathOf("settle"), r, &answer, true); err != nil {
		return nil, err
	}
	return settled(answer.Results, n)
}

// actsOf keeps those acts whose number, in the order of the answer, is wanted.
func actsOf(r *api.SettleRequest, wanted func(int) bool) (out api.SettleRequest) {
	n := 0
	out.Ack = pick(r.Ack, &n, wanted)
	out.Nack = pick(r.Nack, &n, wanted)
	out.Reject = pick(r.Reject, &n, wanted)
	out.Extend = pick(r.Extend, &n, wanted)
	out.Release = pick(r.Release, &n, wanted)
	return out
}

// pick is actsOf for one kind; n counts over all.
func pick[T any](all []T, n *int, wanted func(int) bool) (out []T) {
	for _, one := range all {
		if wanted(*n) {
			out = append(out, one)
		}
		*n++
	}
	return out
}

// receipts is how many acts a request has.
func receipts(r *api.SettleRequest) int {
	return len(r.Ack) + len(r.Nack) + len(r.Reject) + len(r.Extend) + len(r.Release)
}

// settled makes an error of each result that is one.
func settled(results []api.SettleResult, n int) ([]error, error) {
	if len(results) != n {
		return nil, &Error{Code: codeOutcomeUnknown, Retryable: true, Detail: "the answer has not one result for each receipt"}
	}
	out := make([]error, n)
	for i, one := range results {
		if one.Error != nil {
			out[i] = itemError(one.Error)
		}
	}
	return out, nil
}

// Ack settles a message as done. Acknowledging twice is fine.
func (c *Client) Ack(ctx context.Context, receipt string) error {
	return c.act(ctx, "ack", api.ActRequest{Receipt: receipt})
}

// Nack gives a message back as a failed attempt. With a nil delay the group's back-off says when it comes again.
func (c *Client) Nack(ctx context.Context, receipt string, delay *time.Duration, reason string) error {
	return c.act(ctx, "nack", api.ActRequest{Receipt: receipt, Delay: (*api.Duration)(delay), Reason: reason})
}

// Reject makes a message dead for its group at once.
func (c *Client) Reject(ctx context.Context, receipt, reason string) error {
	return c.act(ctx, "reject", api.ActRequest{Receipt: receipt, Reason: reason})
}

// Extend gives a lease a new end, counted from now; 0 takes the group's lease.
func (c *Client) Extend(ctx context.Context, receipt string, lease time.Duration) error {
	return c.act(ctx, "extend", api.ActRequest{Receipt: receipt, Lease: api.Duration(lease)})
}

// Release gives back a message that nobody has begun to work on: it is ready again at once, in front of its key where the
// group orders by key, and the attempt does not count. Consumers and subscriptions do that by themselves when they stop.
func (c *Client) Release(ctx context.Context, receipt string) error {
	return c.act(ctx, "release", api.ActRequest{Receipt: receipt})
}

func (c *Client) act(ctx context.Context, name string, r api.ActRequest) error {
	return c.do(ctx, http.MethodPost, pathOf(name), r, nil, true)
}
