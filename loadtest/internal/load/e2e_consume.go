package load

import (
	"context"
	"encoding/json"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/loadtest/internal/wire"
	"github.com/splashdam/splashdam/shared/api"
)

// consume is one connection that receives, files and acknowledges until ctx ends.
func (r *e2eRun) consume(ctx context.Context, number int, rec *recorder) {
	conn := r.target.conn(ctx, &r.Options, number)
	defer conn.Close()
	request, _ := json.Marshal(api.ReceiveRequest{Max: r.Max, Wait: api.Duration(time.Second), Lease: api.Duration(r.Lease)})
	head := wire.Head(r.target.path("/groups/"+r.Group+"/receive"), "application/json", len(request))
	seen := 0
	for ctx.Err() == nil {
		answer, err := conn.Do(head, request)
		if ctx.Err() != nil {
			return
		}
		if err != nil || answer.Status != 200 {
			rec.fail(codeOf(answer, err))
			var after time.Duration
			if err == nil {
				after = answer.RetryAfter
			}
			retryPause(ctx, after)
			continue
		}
		var got api.ReceiveAnswer
		if err := json.Unmarshal(answer.Body, &got); err != nil {
			rec.fail("invalid_answer")
			continue
		}
		r.work(ctx, conn, number, got.Messages, &seen, rec)
	}
}

// work files one receive and settles it.
func (r *e2eRun) work(ctx context.Context, conn *wire.Conn, number int, messages []api.Delivery, seen *int, rec *recorder) {
	now := time.Now()
	var settle api.SettleRequest
	var acks []checker.Delivery
	for i := range messages {
		m := &messages[i]
		value, err := m.Bytes()
		if err != nil {
			rec.fail("invalid_value")
		}
		fence, err := checker.ParseFence(m.Fence)
		if err != nil {
			rec.fail("invalid_fence")
		}
		d := checker.Delivery{Consumer: number, Partition: m.Partition, Offset: m.Offset, Attempt: m.Attempt, Fence: fence, Value: value}
		r.check.Delivered(d)
		r.latency(value, m.Attempt, now, rec)
		*seen++
		if r.NackEvery > 0 && m.Attempt == 1 && *seen%r.NackEvery == 0 {
			delay := api.Duration(100 * time.Millisecond)
			settle.Nack = append(settle.Nack, api.NackItem{Receipt: m.Receipt, Delay: &delay, Reason: "loadtest"})
			continue
		}
		settle.Ack = append(settle.Ack, m.Receipt)
		acks = append(acks, d)
	}
	if len(messages) > 0 {
		r.settle(ctx, conn, &settle, acks, rec)
	}
}

// latency counts from the send to the first delivery.
func (r *e2eRun) latency(value []byte, attempt uint32, now time.Time, rec *recorder) {
	id := checker.ID(value)
	if attempt != 1 || id == 0 || int(id) >= len(r.sentAt) {
		return
	}
	if sent := r.sentAt[id].Load(); sent != 0 {
		rec.done(r.start.Add(time.Duration(sent)), now, 1)
	}
}

// settle sends until it is answered: settling twice is harmless. Only an ack that was answered with success
// is filed as one. When the run ends first, what is left is redelivered to nobody and stays as not settled.
func (r *e2eRun) settle(ctx context.Context, conn *wire.Conn, request *api.SettleRequest, acks []checker.Delivery, rec *recorder) {
	body, _ := json.Marshal(request)
	head := wire.Head("/v1/settle", "application/json", len(body))
	began := time.Now()
	for ctx.Err() == nil && time.Since(began) < r.Lease {
		answer, err := conn.Do(head, body)
		if err != nil || answer.Status != 200 && answer.Status != 207 {
			rec.fail("settle_" + codeOf(answer, err))
			retryPause(ctx, 0)
			continue
		}
		var got api.SettleAnswer
		if err := json.Unmarshal(answer.Body, &got); err != nil || len(got.Results) != len(request.Ack)+len(request.Nack) {
			rec.fail("invalid_answer")
			return
		}
		again := false
		for i, result := range got.Results {
			switch {
			case result.Error != nil:
				rec.fail("settle_" + result.Error.Code)
				again = again || result.Error.Retryable
			case i < len(acks):
				r.check.Acked(acks[i].Partition, acks[i].Offset, acks[i].Fence)
			}
		}
		if !again {
			return
		}
		retryPause(ctx, 0)
	}
}
