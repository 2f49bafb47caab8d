package delivery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/splashdam/splashdam/shared/mq"
)

// The first byte of a carried record says what it holds. 1 is for schedules: lognode/internal/schedule.
const carriedMessages = 2

// CarriedBatch is the body of a carried record with messages that keep their offsets: some of those that one record
// brought. It says of them what is lost with their segment.
//
// Form: 2 | stamp (signed) | committed (signed) | leader | quorum | replicas: count, names | kind of record (1) | 0, or for a
// whole batch 1 + its first offset | spans of offsets, each gap from the end of the one before | length | the body of
// such a record.
type CarriedBatch struct {
	Stamp     int64 // of the entry that brought them
	Committed int64 // when they were, as a trace says it; 0 if unknown
	// Leader, Quorum and Replicas are those of their segment.
	Leader   string
	Quorum   uint32
	Replicas []string
	Offsets  []uint64 // ascending
	// Kind and Body are a record of messages or released ones: with the messages at Offsets and no others or, where the
	// batch is compressed, as Whole as it was, with First the offset of its first message.
	Kind  mq.Kind
	Body  []byte
	Whole bool
	First uint64
	// Sizes are about those of the messages in the journal; Measure sets them.
	Sizes []uint32

	spans []span
}

const (
	// maxReplicas bounds the names of replicas in a record.
	maxReplicas = 64
	// carriedMore is about what a carried record has beside its messages, for each of them.
	carriedMore = 64
)

// AppendTo appends the body of the record.
func (c *CarriedBatch) AppendTo(b []byte) []byte {
	b = append(b, carriedMessages)
	b = binary.AppendVarint(b, c.Stamp)
	b = binary.AppendVarint(b, c.Committed)
	b = mq.AppendBytes(b, c.Leader)
	b = binary.AppendUvarint(b, uint64(c.Quorum))
	b = binary.AppendUvarint(b, uint64(len(c.Replicas)))
	for _, name := range c.Replicas {
		b = mq.AppendBytes(b, name)
	}
	b = append(b, byte(c.Kind))
	first := uint64(0)
	if c.Whole {
		first = c.First + 1
	}
	b = binary.AppendUvarint(b, first)
	b = appendSpans(b, asSpans(c.Offsets))
	return append(b, c.Body...)
}

// readHead reads all but the messages; false for a record of another kind, or about something else. The body shares
// memory with it.
func (c *CarriedBatch) readHead(rec mq.Record) (bool, error) {
	if rec.Kind != mq.KindCarried || len(rec.Body) == 0 || rec.Body[0] != carriedMessages {
		return false, nil
	}
	r := mq.NewReader(rec.Body[1:])
	c.Stamp, c.Committed = readTime(r), readTime(r)
	c.Leader, c.Quorum = r.String(), r.Uint32()
	c.Replicas = nil
	n := r.Count(1)
	if n > maxReplicas {
		r.Fail("%d replicas", n)
		n = 0
	}
	for range n {
		c.Replicas = append(c.Replicas, r.String())
	}
	c.Kind = mq.Kind(r.Byte())
	first := r.Uvarint()
	if first > maxSpan {
		r.Fail("first offset %d", first-1)
	}
	c.Whole, c.First = first > 0, max(first, 1)-1
	c.spans = readSpans(r, c.spans[:0], MaxReceive)
	if len(c.spans) == 0 || c.Whole && c.spans[0].from < c.First {
		r.Fail("no offsets, or some below %d", c.First)
	}
	c.Body = r.Rest()
	if r.Err() != nil {
		return true, fmt.Errorf("delivery: carried record: %w", r.Err())
	}
	return true, nil
}

// Read reads a record; false for one that is not about carried messages. The body shares memory with it.
func (c *CarriedBatch) Read(rec mq.Record) (bool, error) {
	ours, err := c.readHead(rec)
	if err != nil || !ours {
		return ours, err
	}
	c.expand()
	return true, c.Measure()
}

func (c *CarriedBatch) expand() {
	c.Offsets = c.Offsets[:0]
	for _, s := range c.spans {
		for off := s.from; off < s.to; off++ {
			c.Offsets = append(c.Offsets, off)
		}
	}
}

// Measure sets the sizes, and tests that the body has a message for each offset.
func (c *CarriedBatch) Measure() error {
	b, _, _, ok, err := mq.MessagesOf(c.Record())
	c.Sizes = c.Sizes[:0]
	switch {
	case err != nil:
		return fmt.Errorf("delivery: carried record: %w", err)
	case !ok:
		return fmt.Errorf("delivery: carried record of kind %d", c.Kind)
	case c.Whole:
		if c.last() > c.First+uint64(b.Count) {
			return fmt.Errorf("delivery: carried record: offset %d in a batch of %d from %d", c.last()-1, b.Count, c.First)
		}
		for range c.Offsets {
			c.Sizes = append(c.Sizes, uint32(len(c.Body)/len(c.Offsets)+carriedMore))
		}
		return nil
	case b.Count != len(c.Offsets) || b.Codec != mq.CodecNone:
		return fmt.Errorf("delivery: carried record: %d messages for %d offsets", b.Count, len(c.Offsets))
	}
	return b.Each(b.Packed(), func(_ int, m *mq.Message) bool {
		c.Sizes = append(c.Sizes, uint32(min(m.Size()+carriedMore, math.MaxUint32)))
		return true
	})
}

// Record is the record as the messages had it.
func (c *CarriedBatch) Record() mq.Record { return mq.Record{Kind: c.Kind, Version: 1, Body: c.Body} }

// last is the end of what is named.
func (c *CarriedBatch) last() uint64 { return c.Offsets[len(c.Offsets)-1] + 1 }

// errNotCarried says that an entry does not hold what was carried to it.
var errNotCarried = errors.New("delivery: the entry does not hold the carried message")

// FindCarried is the record of an entry that has a carried message, and those of the ascending offsets that it has: at
// least the first. Its sizes are not set.
func FindCarried(e *mq.Entry, offsets []uint64) (*CarriedBatch, []uint64, error) {
	c := &CarriedBatch{}
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return nil, nil, err
		}
		ours, err := c.readHead(rec)
		if err != nil {
			return nil, nil, err
		}
		n := 0
		for ours && n < len(offsets) && within(c.spans, offsets[n]) {
			n++
		}
		if n > 0 {
			c.expand()
			return c, offsets[:n], nil
		}
	}
	return nil, nil, errNotCarried
}

// Part is a batch with fewer messages: those at some of the offsets.
func (c *CarriedBatch) Part(offsets []uint64) (*CarriedBatch, error) {
	out := *c
	out.Offsets, out.Sizes, out.spans = slices.Clone(offsets), nil, nil
	if c.Whole || len(offsets) == len(c.Offsets) {
		return &out, nil
	}
	ordinals := make([]int, len(offsets))
	for i, off := range offsets {
		ordinals[i] = sort.Search(len(c.Offsets), func(i int) bool { return c.Offsets[i] >= off })
	}
	err := out.take(ordinals)
	return &out, err
}

// take makes the body one of the messages with these ordinals; a compressed one stays whole.
func (c *CarriedBatch) take(ordinals []int) error {
	b, raw, schedules, ok, err := mq.MessagesOf(c.Record())
	if err != nil || !ok {
		return errors.Join(errNotCarried, err)
	}
	if raw, ok, err = b.Slice(nil, ordinals); err != nil {
		return err
	} else if c.Whole = !ok; c.Whole {
		return nil
	}
	if c.Body = raw; schedules != nil {
		some := make([]mq.Schedule, len(ordinals))
		for i, o := range ordinals {
			some[i] = schedules[o]
		}
		c.Body = mq.AppendScheduleBatch(nil, some, raw)
	}
	return nil
}

// ToCarry is the batch that carries some messages of an entry: those of the ascending offsets that are in the record
// which has the first one. It says which those are.
func ToCarry(e *mq.Entry, offsets []uint64) (*CarriedBatch, []uint64, error) {
	for b, err := range e.Batches() {
		if err != nil {
			return nil, nil, err
		}
		if offsets[0] >= b.End() {
			continue
		}
		var ordinals []int
		for _, off := range offsets {
			if off >= b.End() || len(ordinals) == MaxReceive {
				break
			}
			ordinals = append(ordinals, int(off-b.First))
		}
		some := offsets[:len(ordinals)]
		c := &CarriedBatch{Stamp: e.Stamp, Offsets: slices.Clone(some), Kind: b.Record.Kind, Body: b.Record.Body, First: b.First}
		return c, some, c.take(ordinals)
	}
	return nil, nil, errNotCarried
}

// Entry is an entry as it brought a carried message, alone or with its whole batch, but for its place and seq.
func (c *CarriedBatch) Entry(offset uint64) (*mq.Entry, error) {
	one, err := c.Part([]uint64{offset})
	if err != nil {
		return nil, err
	}
	e := &mq.Entry{At: mq.Position{Offset: offset}, Count: 1, Stamp: c.Stamp, Records: mq.AppendRecord(nil, one.Kind, one.Body)}
	if one.Whole {
		b, _, _, _, err := mq.MessagesOf(one.Record())
		if err != nil {
			return nil, err
		}
		e.At.Offset, e.Count = one.First, uint32(b.Count)
	}
	return e, nil
}

// CarriedRelease is the offset of a message in a carried record of an entry that was released under a schedule number.
func CarriedRelease(e *mq.Entry, number uint64) (offset uint64, found bool, err error) {
	var c CarriedBatch
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return 0, false, err
		}
		if ours, err := c.readHead(rec); err != nil || !ours || c.Kind != mq.KindReleased {
			continue
		}
		_, _, schedules, _, err := mq.MessagesOf(c.Record())
		if err != nil {
			return 0, false, err
		}
		c.expand()
		for i, s := range schedules {
			switch {
			case s.Number != number:
			case c.Whole:
				return c.First + uint64(i), true, nil
			case i < len(c.Offsets):
				return c.Offsets[i], true, nil
			}
		}
	}
	return 0, false, nil
}
