package gateway

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// refusals are the partitions that took no publishes a moment ago. Messages that may go to any partition pass them over; what
// belongs to one of them is sent there as ever. The zero value is ready.
type refusals struct {
	some  atomic.Bool // false: there is none, and a publish pays for nothing else
	mu    sync.Mutex
	until map[mq.PartitionID]int64 // as Gateway.elapsed
	over  int64                    // when all of them are over
}

const (
	// refusedFor is how long a partition is passed over after it refused: then one request looks again.
	refusedFor = int64(3 * time.Second)
	// maxRefused bounds the partitions that are remembered. What comes beyond that is not passed over.
	maxRefused = 4096
	// maxElsewhere bounds the partitions that one batch is offered to.
	maxElsewhere = 8
)

// elapsed are nanoseconds since the gateway began. They count on whatever is done to the clock on the wall, for what is remembered
// for a moment: by a clock that is set back an hour the moment would last that long.
func (g *Gateway) elapsed() int64 { return int64(time.Since(g.began)) }

// note remembers a partition that refused.
func (r *refusals) note(p mq.PartitionID, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[mq.PartitionID]int64{}
	}
	if len(r.until) >= maxRefused {
		maps.DeleteFunc(r.until, func(_ mq.PartitionID, until int64) bool { return until <= now })
	}
	if len(r.until) < maxRefused {
		r.until[p], r.over = now+refusedFor, max(r.over, now+refusedFor)
		r.some.Store(true)
	}
}

// has says whether a partition refused a moment ago.
func (r *refusals) has(p mq.PartitionID, now int64) bool {
	if !r.some.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over <= now {
		clear(r.until)
		r.some.Store(false)
	}
	return r.until[p] > now
}

// takesNone says that a partition takes no publishes for now, which another one may.
func takesNone(err error) bool {
	switch mqerr.Of(err).Code {
	case mqerr.NoLeader, mqerr.NoQuorum, mqerr.NotEnoughReplicas, mqerr.PartitionDamaged, mqerr.StorageFull:
		return true
	}
	return false
}

// sendAnywhere sends a batch of messages that may go to any partition: where one refuses them for sure they go to another.
// A batch whose messages belong to its partition is sent there once.
func (g *Gateway) sendAnywhere(ctx context.Context, t meta.Topic, b *outgoing, packed []byte) error {
	send := g.appendBatch
	if b.scheduled {
		send = g.sendSchedules
	}
	if !b.bound && g.refusals.some.Load() && g.refusals.has(mq.PartitionID{Topic: t.ID, Number: b.to}, g.elapsed()) {
		b.to = g.nextPartition(t)
	}
	for tries := 1; ; tries++ {
		err := send(ctx, t, b, packed)
		if err == nil || b.bound || !takesNone(err) {
			return err
		}
		now := g.elapsed()
		g.refusals.note(mq.PartitionID{Topic: t.ID, Number: b.to}, now)
		next := g.nextPartition(t)
		if tries == maxElsewhere || g.refusals.has(mq.PartitionID{Topic: t.ID, Number: next}, now) {
			return err
		}
		b.to = next
	}
}
