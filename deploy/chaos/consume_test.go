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

// reader is a group and how what it gets is filed.
type reader struct {
	group     string
	delivered func(consumer int, d *client.Delivery, fence uint64) // before anything is done with it
	settling  func(d *client.Delivery)                             // before an acknowledgement is sent
	acked     func(d *client.Delivery, fence uint64)               // it was answered with success
	// rejectEvery: one in so many deliveries is rejected; 0 for none.
	rejectEvery int
	// rejecting is called before rejections are sent; what it returns is called for each that was answered with success.
	rejecting func([]delivered) func(delivered)
	// through settles in another way than by a request, at the first try; nil: by requests only.
	through settle
}

// settle is a way to settle.
type settle func(context.Context, api.SettleRequest) ([]error, error)

// any is the group that gets everything in any order.
func (tr *traffic) any() reader {
	return reader{group: group, settling: func(*client.Delivery) {},
		delivered: func(consumer int, d *client.Delivery, fence uint64) {
			if _, _, ok := tr.timed.parse(d.Value); ok {
				tr.timed.file(d)
				tr.timed.back(d, fence)
				return
			}
			tr.check.Delivered(checker.Delivery{Consumer: consumer, Partition: d.Partition, Offset: d.Offset, Attempt: d.Attempt, Fence: fence, Value: d.Value})
		},
		acked: func(d *client.Delivery, fence uint64) {
			if _, _, ok := tr.timed.parse(d.Value); ok {
				tr.timed.ack(d, fence)
				return
			}
			tr.check.Acked(d.Partition, d.Offset, fence)
		}}
}

// byOrder is a group that orders by key.
func (tr *traffic) byOrder(o *order) reader {
	return reader{group: o.group, settling: o.settling, acked: o.ack,
		delivered: func(_ int, d *client.Delivery, fence uint64) {
			o.file(d, fence, tr.timed.mayExpire(d.Value))
			tr.fileTimed(d)
		}}
}

// rejecting is the group that rejects at random.
func (tr *traffic) rejecting() reader {
	return reader{group: deadGroup, settling: func(*client.Delivery) {}, acked: tr.rejected.ack, rejectEvery: rejectEvery,
		rejecting: tr.rejected.rejecting,
		delivered: func(_ int, d *client.Delivery, fence uint64) {
			tr.rejected.file(d, fence)
			tr.fileTimed(d)
		}}
}

func (tr *traffic) fileTimed(d *client.Delivery) {
	if _, _, ok := tr.timed.parse(d.Value); ok {
		tr.timed.file(d)
	}
}

// consume receives, files and settles until ctx ends.
func (tr *traffic) consume(ctx context.Context, number int, r reader) {
	through := number % len(tr.one)
	seen := 0
	for ctx.Err() == nil {
		got, err := tr.one[through].Receive(ctx, tr.topic, r.group,
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
		tr.work(ctx, number, r, got, &seen)
	}
}

// delivered is one message with its fence as a number.
type delivered struct {
	*client.Delivery
	fence uint64
}

// work files deliveries before it settles them.
func (tr *traffic) work(ctx context.Context, number int, r reader, got []client.Delivery, seen *int) {
	var request api.SettleRequest
	var acks, rejects []delivered
	for i := range got {
		m := &got[i]
		fence, err := checker.ParseFence(m.Fence)
		if err != nil {
			tr.note("receive", err)
		}
		r.delivered(number, m, fence)
		if *seen++; m.Attempt == 1 && *seen%nackEvery == 0 {
			delay := api.Duration(100 * time.Millisecond)
			request.Nack = append(request.Nack, api.NackItem{Receipt: m.Receipt, Delay: &delay, Reason: "chaos"})
			continue
		}
		if r.rejectEvery > 0 && *seen%r.rejectEvery == 1 {
			request.Reject = append(request.Reject, api.RejectItem{Receipt: m.Receipt, Reason: "chaos"})
			rejects = append(rejects, delivered{m, fence})
			continue
		}
		request.Ack = append(request.Ack, m.Receipt)
		acks = append(acks, delivered{m, fence})
	}
	if len(got) > 0 {
		tr.settle(ctx, number, r, request, acks, rejects)
	}
}

// settle sends until it is answered or the leases are over: settling twice is harmless. Only an ack that was
// answered with success is filed as one.
func (tr *traffic) settle(ctx context.Context, number int, r reader, request api.SettleRequest, acks, rejects []delivered) {
	ctx, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	for _, a := range acks {
		r.settling(a.Delivery)
	}
	var rejected func(delivered)
	if len(rejects) > 0 {
		rejected = r.rejecting(rejects)
	}
	through := r.through
	for try := number; ctx.Err() == nil; try++ {
		if through == nil {
			through = tr.one[try%len(tr.one)].Settle
		}
		results, err := through(ctx, request)
		through = nil
		again := err != nil
		if err != nil && ctx.Err() == nil {
			tr.note("settle", err)
		}
		for i, err := range results {
			if err != nil {
				tr.note("settle", err)
				again = again || retryable(err)
			} else if i < len(acks) {
				r.acked(acks[i].Delivery, acks[i].fence)
			} else if at := i - len(acks) - len(request.Nack); at >= 0 {
				rejected(rejects[at])
			}
		}
		if !again {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}
