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
	// keysOf is how many keys each producer has. A group that orders by key has one message of each out at a time.
	keysOf = 32
	// mostOf bounds the messages of a publish.
	mostOf = 6
	// publishWait is longer than a gateway's own deadline, so that its answer is seen.
	publishWait = 15 * time.Second
)

// batch is one publish: messages of one partition, which have all an idempotency key, or none.
type batch struct {
	ids      []uint32
	messages []client.Message
	keyed    bool
	places   []place   // once all are stored
	stored   time.Time // when that was answered
}

// producer publishes to one partition, one request after the other. What has no idempotency key is sent once: what
// was refused is not sent again, so the order of a key is the order of the ids. What has one is sent until it is
// answered before anything else is sent, which keeps that order, too.
type producer struct {
	tr        *traffic
	partition int
	through   int
	random    *rand.Rand
	socketed  bool           // it publishes over WebSockets
	socket    *client.Socket // nil while there is none
	done      []*batch       // batches with idempotency keys, to be sent again
}

// produce publishes until ctx ends.
func (tr *traffic) produce(ctx context.Context, partition int) {
	p := &producer{tr: tr, partition: partition, through: partition % len(tr.one), socketed: tr.streams != nil && partition%2 == 1,
		random: rand.New(rand.NewPCG(tr.seed, uint64(partition)))}
	defer p.hangUp()
	for ctx.Err() == nil {
		b := p.next()
		if len(b.ids) == 0 {
			tr.full.Store(true)
			return
		}
		if b.keyed {
			p.untilStored(ctx, b)
			p.again()
		} else {
			p.once(ctx, b)
		}
		pause(ctx, tr.every)
	}
}

// once sends a batch and files what is answered.
func (p *producer) once(ctx context.Context, b *batch) {
	results, err := p.send(b)
	if err != nil {
		for _, id := range b.ids {
			p.tr.failed(id, err)
		}
		p.back(ctx)
		return
	}
	stored := false
	for i, r := range results {
		if r.Err != nil {
			p.tr.note("publish", r.Err)
			p.tr.failed(b.ids[i], r.Err)
			continue
		}
		stored = true
		p.stored(b, i, r)
	}
	if stored {
		p.tr.gaps.acked(p.partition, time.Now())
	}
}

// send makes the request, through another gateway than the last one if that one failed.
func (p *producer) send(b *batch) ([]client.Result, error) {
	call, cancel := context.WithTimeout(context.Background(), publishWait)
	defer cancel()
	if p.socketed {
		return p.frame(call, b)
	}
	results, err := p.tr.one[p.through].PublishBatch(call, p.tr.topic, b.messages)
	if err != nil {
		p.tr.note("publish", err)
		p.through = (p.through + 1) % len(p.tr.one)
	}
	return results, err
}

// frame publishes over a WebSocket, to whichever gateway can be reached.
func (p *producer) frame(ctx context.Context, b *batch) (results []client.Result, err error) {
	if p.socket == nil {
		p.socket, err = p.tr.roam.Socket(ctx)
	}
	if err == nil {
		results, err = p.socket.Publish(ctx, p.tr.topic, b.messages)
	}
	if err != nil {
		p.tr.note("publish on a socket", err)
		p.hangUp()
	}
	return results, err
}

func (p *producer) hangUp() {
	if p.socket != nil {
		p.socket.Close()
		p.socket = nil
	}
}

func (p *producer) back(ctx context.Context) {
	pause(ctx, time.Duration(20+p.random.IntN(30))*time.Millisecond)
}

func (p *producer) stored(b *batch, i int, r client.Result) {
	p.tr.check.Stored(b.ids[i], r.Partition, r.Offset)
	p.tr.ledger.stored(b.ids[i], r.Partition, r.Offset)
}

// next makes the next messages of the partition: fewer than wanted at the checker's bound. Half of them have keys,
// half of them a lane; a third of the batches has idempotency keys.
func (p *producer) next() *batch {
	b := &batch{keyed: p.random.IntN(3) == 0}
	to := uint32(p.partition)
	for range 1 + p.random.IntN(mostOf) {
		m := client.Message{Partition: &to, Lane: lanes[p.random.IntN(len(lanes))]}
		number := checker.NoKey
		if p.random.IntN(2) == 0 {
			number = p.partition*keysOf + p.random.IntN(keysOf)
			m.Key = client.Key(fmt.Sprintf("key-%d", number))
		}
		var id uint32
		var ok bool
		if m.Value, id, ok = p.tr.check.Next(nil, number, checker.MinSize+p.random.IntN(400)); !ok {
			break
		}
		if b.keyed {
			m.IdempotencyKey = fmt.Sprintf("once-%d", id)
		}
		b.ids, b.messages = append(b.ids, id), append(b.messages, m)
	}
	return b
}

// lanes has the default as often as all others together.
var lanes = []string{"", "", "", "", "critical", "high", "low", "background"}

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
