package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// keysOf is how many keys each producer has.
	keysOf = 8
	// mostOf bounds the messages of a publish.
	mostOf = 6
	// publishWait is longer than a gateway's own deadline, so that its answer is seen.
	publishWait = 15 * time.Second
)

// produce publishes to one partition, one request after the other, until ctx ends. A message is sent once: what
// was refused is not sent again, so the order of a key is the order of the ids.
func (tr *traffic) produce(ctx context.Context, partition int) {
	random := rand.New(rand.NewPCG(tr.seed, uint64(partition)))
	through := partition % len(tr.one)
	for ctx.Err() == nil {
		n := 1 + random.IntN(mostOf)
		ids, messages := tr.make(partition, n, random)
		if len(ids) == 0 {
			tr.full.Store(true)
			return
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishWait)
		results, err := tr.one[through].PublishBatch(call, tr.topic, messages)
		cancel()
		if err != nil {
			tr.note("publish", err)
			through = (through + 1) % len(tr.one)
			for _, id := range ids {
				tr.failed(id, err)
			}
			pause(ctx, time.Duration(20+random.IntN(30))*time.Millisecond)
			continue
		}
		tr.answered(partition, ids, results)
		pause(ctx, tr.every)
	}
}

// make takes the next messages of a partition; fewer than n at the checker's bound.
func (tr *traffic) make(partition, n int, random *rand.Rand) (ids []uint32, messages []client.Message) {
	to := uint32(partition)
	for range n {
		key := partition*keysOf + random.IntN(keysOf)
		value, id, ok := tr.check.Next(nil, key, checker.MinSize+random.IntN(400))
		if !ok {
			break
		}
		ids = append(ids, id)
		messages = append(messages, client.Message{Key: client.Key(fmt.Sprintf("key-%d", key)), Value: value, Partition: &to})
	}
	return ids, messages
}

// answered files the results of a publish.
func (tr *traffic) answered(partition int, ids []uint32, results []client.Result) {
	stored := false
	for i, r := range results {
		if r.Err != nil {
			tr.note("publish", r.Err)
			tr.failed(ids[i], r.Err)
			continue
		}
		stored = true
		tr.check.Stored(ids[i], r.Partition, r.Offset)
		tr.ledger.stored(ids[i], r.Partition, r.Offset)
	}
	if stored {
		tr.gaps.acked(partition, time.Now())
	}
}

// failed files that a message was not acknowledged.
func (tr *traffic) failed(id uint32, err error) {
	if nothingStored(err) {
		tr.check.Refused(id)
		return
	}
	tr.check.Unknown(id)
	tr.ledger.unknown(id)
}

// nothingStored says whether an error promises that: a request that never left, or a code that says so.
func nothingStored(err error) bool {
	var e *client.Error
	if !errors.As(err, &e) {
		return true // the client makes an Error of everything that was sent
	}
	if e.OutcomeUnknown() || e.Code == mqerr.Internal.String() {
		return false
	}
	for _, c := range mqerr.Codes() {
		if c.String() == e.Code {
			return true
		}
	}
	return false
}
