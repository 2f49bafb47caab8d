package load

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/loadtest/internal/wire"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// e2eBatch is one publish, in a form that can be sent again.
type e2eBatch struct {
	ids  []uint32
	body []byte
	head []byte
}

// publish is one connection that publishes. It sends one batch at a time, so that the messages of its
// keys have an order.
func (r *e2eRun) publish(ctx context.Context, number int, rec *recorder) {
	conn := r.target.conn(ctx, &r.Options, number)
	defer conn.Close()
	pace := newPace(r.Rate/float64(r.Batch), r.Connections, number, r.start)
	var b e2eBatch
	for turn := 0; ; turn++ {
		due := pace.next(ctx)
		if ctx.Err() != nil || !due.Before(r.window.to) || !r.fill(&b, number, turn) {
			return
		}
		r.send(ctx, conn, &b, due, rec)
	}
}

// fill makes the next batch; false at the checker's bound. A connection's keys are those whose number leaves
// its own as the remainder.
func (r *e2eRun) fill(b *e2eBatch, number, turn int) bool {
	b.ids = b.ids[:0]
	b.body = append(b.body[:0], `{"messages":[`...)
	own := r.Keys / r.Connections
	for i := range r.Batch {
		key := checker.NoKey
		if r.Keys > 0 {
			key = number + r.Connections*((turn*r.Batch+i)%own)
		}
		if i > 0 {
			b.body = append(b.body, ',')
		}
		b.body = append(b.body, `{"value":"`...)
		body, id, ok := r.check.Next(b.body, key, r.Size)
		if !ok {
			r.full.Store(true)
			r.forget(b)
			return false
		}
		b.body = append(body, '"')
		if key != checker.NoKey {
			b.body = append(b.body, `,"key":"key-`...)
			b.body = append(strconv.AppendInt(b.body, int64(key), 10), '"')
		}
		b.body = append(b.body, '}')
		b.ids = append(b.ids, id)
	}
	b.body = append(b.body, "]}"...)
	b.head = wire.AppendHead(b.head[:0], r.target.path("/messages/batch?results=runs"), "application/json", len(b.body))
	return true
}

// forget files messages that were made and never sent.
func (r *e2eRun) forget(b *e2eBatch) {
	for _, id := range b.ids {
		r.check.Refused(id)
	}
}

// send sends a batch until it is answered or its outcome is unknown. Only what surely was not stored as a
// whole is sent again, in the same order.
func (r *e2eRun) send(ctx context.Context, conn *wire.Conn, b *e2eBatch, due time.Time, rec *recorder) {
	now := int64(time.Since(r.start))
	for _, id := range b.ids {
		r.sentAt[id].Store(now)
	}
	for ctx.Err() == nil {
		answer, err := conn.Do(b.head, b.body)
		if err == nil && (answer.Status == 200 || answer.Status == 207) {
			r.fileRuns(answer.Body, b, due, rec)
			return
		}
		code := codeOf(answer, err)
		rec.fail(code)
		switch {
		case code == "not_connected": // nothing was sent
		case err == nil && nothingStored(code):
			r.forget(b)
		default:
			r.unknown(b)
			retryPause(ctx, 0)
			return
		}
		var after time.Duration
		if err == nil {
			after = answer.RetryAfter
		}
		retryPause(ctx, after)
	}
	// The run ended while nothing had been stored.
	r.forget(b)
}

func (r *e2eRun) unknown(b *e2eBatch) {
	for _, id := range b.ids {
		r.check.Unknown(id)
	}
}

// nothingStored says which codes promise that: every row of the table but these.
func nothingStored(code string) bool {
	if code == mqerr.OutcomeUnknown.String() || code == mqerr.Internal.String() {
		return false
	}
	for _, c := range mqerr.Codes() {
		if c.String() == code {
			return true
		}
	}
	return false
}

// fileRuns reads {"runs":[{partition, first_offset, count, error}]}, in the order of the batch.
func (r *e2eRun) fileRuns(body []byte, b *e2eBatch, due time.Time, rec *recorder) {
	var answer api.PublishRunsAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		rec.fail("invalid_answer")
		r.unknown(b)
		return
	}
	left, stored := b.ids, 0
	for _, run := range answer.Runs {
		n := min(max(run.Count, 0), len(left))
		for i, id := range left[:n] {
			switch {
			case run.Error == nil && (run.Partition == nil || run.FirstOffset == nil):
				rec.fail("invalid_answer") // nothing of the load is scheduled
				r.check.Unknown(id)
			case run.Error == nil:
				r.check.Stored(id, *run.Partition, *run.FirstOffset+uint64(i))
				stored++
			case nothingStored(run.Error.Code):
				r.check.Refused(id)
			default:
				r.check.Unknown(id)
			}
		}
		if run.Error != nil {
			rec.fail(run.Error.Code)
		}
		left = left[n:]
	}
	if len(left) > 0 {
		rec.fail("too_few_results")
		r.unknown(&e2eBatch{ids: left})
	}
	if stored > 0 {
		rec.done(due, time.Now(), stored)
	}
}
