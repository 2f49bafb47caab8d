package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Handler works on one message. nil acknowledges it; an error gives it back as a failed attempt, with the
// group's back-off or the delay of RetryAfter; Reject makes it dead at once. The context ends when the
// lease is lost (its cause is ErrLeaseLost) or the consumer is out of patience while stopping.
type Handler func(ctx context.Context, d Delivery) error

// ErrLeaseLost is the cause of a handler's context when the server says that the message is no longer with
// this consumer. What the handler returns then is not sent.
var ErrLeaseLost = errors.New("client: the lease is lost")

// ConsumerOptions bound a Consumer; zero fields take the defaults.
type ConsumerOptions struct {
	// Concurrency is how many handlers run at once, and so how many messages are held. Default 16.
	Concurrency int
	// Max bounds one receive, in messages. Default: what Concurrency leaves free.
	Max int
	// Wait is the long poll, at most 30 s. Default 20 s.
	Wait time.Duration
	// Lease is asked for with every receive and extended at its half while a handler runs. Default 30 s.
	Lease time.Duration
	// Drain is how long Run waits for handlers after its context ended. Default 30 s.
	Drain time.Duration
	// Name is shown in traces. Default: the caller's address.
	Name string
	// Partitions are those to take from (of a Member's: those of them); nil: all; an empty list is refused.
	Partitions []uint32
	// Member makes the consumer a member of an assigned group while it runs. When it stops it leaves first, so that its
	// partitions go on elsewhere at once, and then waits for its handlers, whose messages stay leased to it.
	Member *MemberOptions
	// Idle ends Run, without an error, when nothing was there for so long and no handler runs. 0: it never ends so.
	Idle time.Duration
	// SettleLinger is how long an ack may wait for others to go in the same call. Default 5 ms.
	SettleLinger time.Duration
}

// MemberOptions say how a Consumer joins its group.
type MemberOptions struct {
	// Name is unique in the group; a worker that starts again under its name keeps its partitions. Default: a random one.
	Name string
	// Zone is where the worker runs, see api.JoinInput.
	Zone string
	// TTL is how long after its end the member loses its partitions if it could not leave. Default 10 s.
	TTL time.Duration
	// OnAssignment is told the partitions that the consumer owns whenever they change; it should not block. What it has
	// out of a partition that it owns no more it still handles and settles.
	OnAssignment func(partitions []uint32)
}

func (o ConsumerOptions) withDefaults() ConsumerOptions {
	o.Concurrency = orDefault(o.Concurrency, 16)
	o.Max = min(orDefault(o.Max, o.Concurrency), mq.MaxBatchMessages)
	o.Wait = min(orDefault(o.Wait, 20*time.Second), mq.MaxWait)
	if o.Idle > 0 {
		o.Wait = min(o.Wait, o.Idle)
	}
	o.Lease = orDefault(o.Lease, 30*time.Second)
	o.Drain = orDefault(o.Drain, 30*time.Second)
	o.SettleLinger = orDefault(o.SettleLinger, 5*time.Millisecond)
	return o
}

// Reject makes the error of a handler final: the message is dead for its group, with err as the reason.
func Reject(err error) error { return &verdict{err: err, reject: true} }

// RetryAfter makes the message come back after d instead of the group's back-off.
func RetryAfter(err error, d time.Duration) error { return &verdict{err: err, delay: &d} }

// verdict is a handler's error with what to do about it.
type verdict struct {
	err    error
	reject bool
	delay  *time.Duration
}

func (v *verdict) Error() string {
	if v.err == nil {
		return "no reason given"
	}
	return v.err.Error()
}
func (v *verdict) Unwrap() error { return v.err }

// Consumer runs a handler over what a group is given. Make it with Client.Consumer, run it once with Run.
type Consumer struct {
	client  *Client
	topic   string
	group   string
	handler Handler
	options ConsumerOptions

	member  *Member // while Run runs, with Options.Member
	slots   *semaphore.Weighted
	ways    *ways
	settler *settler
	leases  *leases
}

// Consumer makes a consumer; nothing happens before Run.
func (c *Client) Consumer(topic, group string, h Handler, o ConsumerOptions) *Consumer {
	o = o.withDefaults()
	k := &Consumer{client: c, topic: topic, group: group, handler: h, options: o, slots: semaphore.NewWeighted(int64(o.Concurrency))}
	k.ways = &ways{client: c}
	k.settler = newSettler(c, k.ways, o)
	k.leases = newLeases(c, k.ways, o.Lease)
	return k
}

// Run receives and handles messages until ctx ends, and then stops in order: no more is received, handlers
// that run are waited for (after Drain their contexts end), what they returned is settled. It returns nil
// after such a stop, and the error when the server refuses the receive for good (the topic is gone).
// Faults that pass are waited out.
func (k *Consumer) Run(ctx context.Context) error { return k.run(ctx, k.fetch) }

func (k *Consumer) run(ctx context.Context, take func(context.Context, func(Delivery)) error) error {
	if err := k.join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	work, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	var handlers, helpers sync.WaitGroup
	helperCtx, endHelpers := context.WithCancel(work)
	helpers.Go(func() { k.leases.run(helperCtx) })
	helpers.Go(k.settler.run)

	err := take(ctx, func(d Delivery) {
		handlers.Go(func() {
			defer k.slots.Release(1)
			k.handle(work, d)
		})
	})

	k.leave(work)
	patience := time.AfterFunc(k.options.Drain, func() { giveUp(fmt.Errorf("client: the consumer stops: %w", context.Canceled)) })
	handlers.Wait()
	patience.Stop()
	endHelpers()
	k.settler.close()
	helpers.Wait()
	return err
}

// fetch receives as many messages as handlers are free until ctx ends or the error is final.
func (k *Consumer) fetch(ctx context.Context, start func(Delivery)) error {
	pauses := k.client.retry.pauses()
	last := time.Now() // when something was there
	for {
		if k.slots.Acquire(ctx, 1) != nil {
			return nil
		}
		free := 1
		for free < k.options.Max && k.slots.TryAcquire(1) {
			free++
		}
		request := api.ReceiveRequest{Max: free, Wait: api.Duration(k.options.Wait), Lease: api.Duration(k.options.Lease), Consumer: k.options.Name,
			Partitions: k.options.Partitions}
		if k.member != nil {
			request.Member = k.member.Name()
		}
		got, err := k.client.Receive(ctx, k.topic, k.group, request)
		got = got[:min(len(got), free)]
		k.slots.Release(int64(free - len(got)))
		if k.slots.TryAcquire(int64(k.options.Concurrency)) { // nothing came, and no handler runs
			k.slots.Release(int64(k.options.Concurrency))
		} else {
			last = time.Now()
		}
		if ctx.Err() != nil { // it ended while they came
			k.slots.Release(int64(len(got)))
			k.client.giveBack(ctx, k.client.Settle, got)
			got = nil
		}
		for _, d := range got {
			start(d)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pauses.Reset()
			if k.options.Idle > 0 && time.Since(last) >= k.options.Idle {
				return nil
			}
		case k.member != nil && IsNotMember(err):
			k.member.Lost()
			if !sleep(ctx, pauses.NextBackOff()) {
				return nil
			}
		case final4xx(err):
			return err
		default:
			k.client.log.Warn("receive failed, trying again", "topic", k.topic, "group", k.group, "err", err)
			if !sleep(ctx, pauses.NextBackOff()) {
				return nil
			}
		}
	}
}

// join makes the consumer a member, if it is to be one.
func (k *Consumer) join(ctx context.Context) (err error) {
	o := k.options.Member
	if o == nil {
		return nil
	}
	pauses := k.client.retry.pauses()
	for {
		k.member, err = k.client.Member(ctx, k.topic, k.group, api.JoinInput{Name: o.Name, Zone: o.Zone, TTL: api.Duration(o.TTL)}, o.OnAssignment)
		if err == nil || !passes(err) {
			return err
		}
		k.client.log.Warn("joining failed, trying again", "topic", k.topic, "group", k.group, "err", err)
		if !sleep(ctx, pauses.NextBackOff()) {
			return err
		}
	}
}

// leave ends the membership before the handlers are waited for: others go on with the partitions meanwhile.
func (k *Consumer) leave(ctx context.Context) {
	if k.member == nil {
		return
	}
	if err := k.member.Leave(ctx); err != nil {
		k.client.log.Warn("the group was not left; the member expires", "topic", k.topic, "group", k.group, "member", k.member.Name(), "err", err)
	}
}

// final4xx says whether the same receive can never succeed.
func final4xx(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.Retryable && e.Status >= 400 && e.Status < 500
}

// handle runs the handler and files what to do with the message.
func (k *Consumer) handle(ctx context.Context, d Delivery) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k.leases.add(d.Receipt, cancel)
	err := k.guarded(ctx, d)
	k.leases.remove(d.Receipt)
	if errors.Is(context.Cause(ctx), ErrLeaseLost) {
		return
	}
	k.settler.file(d.Receipt, err)
}

// guarded turns a panic into a failed attempt: one bad message must not end the others' handlers.
func (k *Consumer) guarded(ctx context.Context, d Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			k.client.log.Error("handler panicked", "message", d.ID, "panic", p)
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return k.handler(ctx, d)
}

// stale says that the server has given the message to somebody else, or settled it.
func stale(err error) bool {
	return IsCode(err, mqerr.ReceiptStale) || IsCode(err, mqerr.InvalidReceipt)
}
