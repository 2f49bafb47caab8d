package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// outgoing is a batch on its way to the leader of one partition. Whoever adds to it owns it until it is
// sent; the results may be read when send returned (or done is closed, where somebody waits on it).
type outgoing struct {
	topic   mq.TopicID
	way            // never changes: who sends other batches of the plan looks at it meanwhile
	to      uint32 // the partition that it is sent to: another one where that of way refused what may go anywhere
	bound   bool   // it has a message that belongs to the partition of way
	builder mq.BatchBuilder
	done    chan struct{} // for streams only
	written int           // of streams: how many of its results are written
	keyed   int           // messages with an idempotency key

	// times are those of scheduled messages; nil for ordinary ones. Once they are sent, when each that was not a repeat is due.
	times []int64

	first   uint64 // offset or schedule number of the first message that was stored
	stamp   int64
	repeats []frame.Repeat // messages that were not, because they are there
	err     *mqerr.Error
}

// slot is where the result of an item will be: an ordinal of a batch, or an error.
type slot struct {
	batch   *outgoing
	ordinal int32
	err     *mqerr.Error
}

// result is where the message is, or why it is not.
func (s slot) result() (placed, *mqerr.Error) {
	switch {
	case s.err != nil:
		return placed{}, s.err
	case s.batch.err != nil:
		return placed{}, s.batch.err
	}
	return s.batch.at(s.ordinal)
}

// plan spreads the messages of one request over batches. A batch of keyless messages stays in one
// partition.
type plan struct {
	g       *Gateway
	topic   meta.Topic
	keyless int64       // the partition of messages without key and partition, -1: none chosen yet
	open    map[way]int // to index of the batch that grows
	batches []*outgoing // in the order in which they were begun
	last    struct {    // the last look-up of open: most requests go to one partition
		way way
		at  int // -1 for none
	}
	slots []slot
	bytes int
}

// way is where a batch goes: to a partition, at once or when it is due.
type way struct {
	partition uint32
	scheduled bool
}

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

func newPlan(g *Gateway, t meta.Topic, size int) *plan {
	p := &plan{g: g, topic: t, keyless: -1, open: map[way]int{}, slots: make([]slot, 0, size)}
	p.last.at = -1
	return p
}

// release gives the batches' memory back; slots must not be read after it.
func (p *plan) release() {
	for _, b := range p.batches {
		b.release()
	}
	p.batches, p.slots = nil, nil
}

func newOutgoing(topic mq.TopicID, w way) *outgoing {
	b := outgoings.Get().(*outgoing)
	b.topic, b.way, b.to = topic, w, w.partition
	return b
}

func (b *outgoing) release() {
	if b.builder.Size() > mostKept {
		return // one very large message should not stay in the pool
	}
	builder := b.builder
	builder.Reset() // the times are not kept: a pooled batch is one of ordinary messages
	*b = outgoing{builder: builder}
	outgoings.Put(b)
}

// adopt gives a plan that was made before its topic was the topic.
func (p *plan) adopt(t meta.Topic) {
	p.topic = t
	for _, b := range p.batches {
		b.topic = t.ID
	}
}

// fail gives the next item an error.
func (p *plan) fail(err *mqerr.Error) { p.slots = append(p.slots, slot{err: err}) }

// add copies a message with its time into the batch of its partition. partition is anyPartition or one that was asked for.
func (p *plan) add(m *mq.Message, partition, at int64) {
	bound := !anywhere(m, partition)
	if !bound {
		if p.keyless < 0 {
			p.keyless = int64(p.g.nextPartition(p.topic))
		}
		partition = p.keyless
	}
	n, err := choose(p.topic, m, partition)
	if err != nil {
		p.fail(err)
		return
	}
	b := p.batch(way{n, at != 0}, m.Size())
	p.slots = append(p.slots, slot{batch: b, ordinal: int32(b.builder.Len())})
	b.add(m, at)
	b.bound = b.bound || bound
	p.bytes += len(m.Value)
}

// choose is the partition of a message that is not free, or was given one.
func choose(t meta.Topic, m *mq.Message, partition int64) (uint32, *mqerr.Error) {
	if partition == anyPartition {
		return home(m, t.Settings.Partitions), nil
	}
	if partition >= int64(t.Settings.Partitions) {
		return 0, mqerr.New(mqerr.PartitionNotFound, "topic %s has the partitions 0 to %d, not %d", t.Name, t.Settings.Partitions-1, partition)
	}
	return uint32(partition), nil
}

// batch is the batch of a way with room for n more bytes: it is cut at 1 MiB or one message.
func (p *plan) batch(w way, n int) *outgoing {
	at := p.last.at
	if at < 0 || p.last.way != w {
		i, ok := p.open[w]
		if !ok {
			i = -1
		}
		at = i
	}
	if at < 0 || !p.batches[at].roomFor(n) {
		at = len(p.batches)
		p.batches = append(p.batches, newOutgoing(p.topic.ID, w))
		p.open[w] = at
	}
	p.last.way, p.last.at = w, at
	return p.batches[at]
}

func (b *outgoing) roomFor(n int) bool {
	have := b.builder.Len()
	return have == 0 || have < mq.MaxBatchMessages && b.builder.Size()+n <= mq.BatchCutBytes
}

// send sends all batches and returns when each has its result: one after the other within a partition, so
// that order within a key holds, and all partitions at once.
func (p *plan) send(ctx context.Context, producer string) {
	if len(p.open) <= 1 {
		for _, b := range p.batches {
			p.g.sendBatch(ctx, p.topic, b, producer)
		}
		return
	}
	var wg sync.WaitGroup
	for w := range p.open {
		wg.Go(func() {
			for _, b := range p.batches {
				if b.way == w {
					p.g.sendBatch(ctx, p.topic, b, producer)
				}
			}
		})
	}
	wg.Wait()
}

var packed = sync.Pool{New: func() any { return new([]byte) }}

// sendBatch packs a batch, sends it to its leader and notes where its messages are.
func (g *Gateway) sendBatch(ctx context.Context, t meta.Topic, b *outgoing, producer string) {
	buf := packed.Get().(*[]byte)
	compression := t.Settings.Compression
	if b.scheduled { // the leader takes it apart, message by message
		compression = "none"
	}
	*buf = g.packer.Append((*buf)[:0], &b.builder, producer, g.cfg.Name, compression)
	err := g.sendAnywhere(ctx, t, b, *buf)
	size := len(*buf)
	if cap(*buf) <= mostKept {
		packed.Put(buf)
	}
	if err != nil {
		b.err = asError(err)
		return
	}
	g.metrics.published.Add(float64(b.builder.Len() - len(b.repeats)))
	g.metrics.publishB.Add(float64(size))
}

func (g *Gateway) appendBatch(ctx context.Context, t meta.Topic, b *outgoing, packed []byte) error {
	p := mq.PartitionID{Topic: t.ID, Number: b.to}
	answer, err := g.sendOnce(ctx, t, func(route uint64) ([]byte, error) {
		return g.sender(b)(ctx, p, frame.TypeAppend, &frame.Append{Partition: p, Route: route, Batch: packed})
	})
	if err != nil {
		return err
	}
	var done frame.Appended
	if err := done.Parse(answer); err != nil {
		return mqerr.New(mqerr.OutcomeUnknown, "the leader's answer can't be read: %w", err)
	}
	return b.took(&done)
}

// sender is how a batch is sent: one that the leader knows again may be sent more than once.
func (g *Gateway) sender(b *outgoing) func(context.Context, mq.PartitionID, frame.Type, link.Encoder) ([]byte, error) {
	if b.repeatable() {
		return g.router.CallKeyed
	}
	return g.router.CallOnce
}

// sendOnce sends a batch with the topic's route, and again where only the route was old.
func (g *Gateway) sendOnce(ctx context.Context, t meta.Topic, send func(route uint64) ([]byte, error)) ([]byte, error) {
	answer, err := send(t.Route)
	if err != nil && mqerr.Is(err, mqerr.StaleRoute) {
		// The topic changed. Where that did not move keys the batch is right as it is.
		now, waitErr := g.newerRoute(ctx, t)
		if waitErr != nil || now.Settings.Partitions != t.Settings.Partitions {
			return nil, err
		}
		return send(now.Route)
	}
	return answer, err
}

// newerRoute reads a topic whose route version is not the known one any more.
func (g *Gateway) newerRoute(ctx context.Context, t meta.Topic) (meta.Topic, error) {
	now, err := g.store.GetTopic(ctx, t.Name)
	if err == nil && now.ID != t.ID {
		err = mqerr.New(mqerr.TopicNotFound, "topic %s was deleted", t.Name)
	}
	return now, err
}

// sticky is the partition (of whatever topic, modulo its number of partitions) that keyless messages go
// to for a short while, so that what arrives at the same time shares entries.
type sticky struct {
	turn  atomic.Uint32
	count atomic.Uint32
	since atomic.Int64
}

const (
	stickyFor   = int64(5 * time.Millisecond)
	stickyCount = 512
)

// nextPartition is the partition for keyless messages now. Those without a leader, and those that took nothing a moment
// ago, are passed over while there are others.
func (g *Gateway) nextPartition(t meta.Topic) uint32 {
	s := &g.sticky
	now := g.elapsed()
	if since := s.since.Load(); now-since > stickyFor || s.count.Add(1) > stickyCount {
		if s.since.CompareAndSwap(since, now) {
			s.count.Store(0)
			s.turn.Add(1)
		}
	}
	n := t.Settings.Partitions
	first := s.turn.Load() % n
	led, found := first, false
	for i := range n {
		p := mq.PartitionID{Topic: t.ID, Number: (first + i) % n}
		if !g.router.Led(p) {
			continue
		}
		if !g.refusals.has(p, now) {
			return p.Number
		}
		if !found {
			led, found = p.Number, true
		}
	}
	return led
}
