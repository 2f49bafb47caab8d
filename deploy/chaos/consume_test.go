package chaos

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

const (
	group = "chaos"
	// lease is short, so that what a killed gateway had under way comes back within the run.
	lease = 15 * time.Second
	// nackEvery: one in so many first deliveries is given back, so that there are attempts to remember.
	nackEvery = 50
)

// consume receives, files and settles until ctx ends.
func (tr *traffic) consume(ctx context.Context, number int) {
	through := number % len(tr.one)
	seen := 0
	for ctx.Err() == nil {
		got, err := tr.one[through].Receive(ctx, tr.topic, group,
			api.ReceiveRequest{Max: 100, Wait: api.Duration(time.Second), Lease: api.Duration(lease)})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			tr.note("receive", err)
			through = (through + 1) % len(tr.one)
			pause(ctx, 100*time.Millisecond)
			continue
		}
		tr.work(ctx, number, got, &seen)
	}
}

// work files deliveries before it settles them.
func (tr *traffic) work(ctx context.Context, number int, got []client.Delivery, seen *int) {
	var request api.SettleRequest
	var acks []checker.Delivery
	for i := range got {
		m := &got[i]
		fence, err := checker.ParseFence(m.Fence)
		if err != nil {
			tr.note("receive", err)
		}
		d := checker.Delivery{Consumer: number, Partition: m.Partition, Offset: m.Offset, Attempt: m.Attempt, Fence: fence, Value: m.Value}
		tr.check.Delivered(d)
		if *seen++; m.Attempt == 1 && *seen%nackEvery == 0 {
			delay := api.Duration(100 * time.Millisecond)
			request.Nack = append(request.Nack, api.NackItem{Receipt: m.Receipt, Delay: &delay, Reason: "chaos"})
			continue
		}
		request.Ack = append(request.Ack, m.Receipt)
		acks = append(acks, d)
	}
	if len(got) > 0 {
		tr.settle(ctx, number, request, acks)
	}
}

// settle sends until it is answered or the leases are over: settling twice is harmless. Only an ack that was
// answered with success is filed as one.
func (tr *traffic) settle(ctx context.Context, number int, request api.SettleRequest, acks []checker.Delivery) {
	ctx, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	for try := number; ctx.Err() == nil; try++ {
		results, err := tr.one[try%len(tr.one)].Settle(ctx, request)
		again := err != nil
		if err != nil && ctx.Err() == nil {
			tr.note("settle", err)
		}
		for i, err := range results {
			if err != nil {
				tr.note("settle", err)
				again = again || retryable(err)
			} else if i < len(acks) {
				tr.check.Acked(acks[i].Partition, acks[i].Offset, acks[i].Fence)
			}
		}
		if !again {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}
