package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"sort"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// headerIdempotency is the header of a raw publish; items have the field idempotency_key.
const headerIdempotency = "Idempotency-Key"

// setIdempotency notes a message's idempotency key, of which only a hash is kept. Any text of 1 to
// mq.MaxIdempotencyBytes bytes is one.
func setIdempotency(m *mq.Message, key string) {
	sum := sha256.Sum256([]byte(key))
	copy(m.Idempotency[:], sum[:])
}

// idempotencyHeader reads the key of a raw publish.
func idempotencyHeader(h http.Header, m *mq.Message) error {
	v, ok := h[headerIdempotency]
	if !ok {
		return nil
	}
	if len(v) > 1 || len(v[0]) == 0 || len(v[0]) > mq.MaxIdempotencyBytes {
		return invalid("header/"+headerIdempotency, "there is one key of 1 to %d bytes", mq.MaxIdempotencyBytes)
	}
	setIdempotency(m, v[0])
	return nil
}

func hasIdempotency(m *mq.Message) bool { return m.Idempotency != [16]byte{} }

// free says that a message may go to any partition: the leader of one holds the idempotency keys that it saw, so a
// message with such a key always goes to the same.
func free(m *mq.Message) bool { return !m.HasKey && !hasIdempotency(m) }

// anywhere says that a message that was asked to go to partition may go to any one.
func anywhere(m *mq.Message, partition int64) bool { return partition == anyPartition && free(m) }

// home is the partition, of n, of a message that is not free.
func home(m *mq.Message, n uint32) uint32 {
	if m.HasKey {
		return uint32(xxhash.Sum64(m.Key) % uint64(n))
	}
	return uint32(binary.BigEndian.Uint64(m.Idempotency[:]) % uint64(n))
}

// contentSum is a sum over everything that the sender of a message chose but its idempotency key. Headers count in any
// order: whoever sends a message again may have them in a map.
func contentSum(m *mq.Message) uint64 {
	var d xxhash.Digest
	d.Reset()
	var n [8]byte
	number := func(v uint64) {
		binary.BigEndian.PutUint64(n[:], v)
		_, _ = d.Write(n[:])
	}
	text := func(s string) {
		number(uint64(len(s)))
		_, _ = d.WriteString(s)
	}
	number(uint64(len(m.Value)))
	_, _ = d.Write(m.Value)
	if m.HasKey {
		number(1)
	}
	text(string(m.Key))
	text(m.ContentType)
	number(uint64(m.Lane))
	number(uint64(m.TTL))
	headers := uint64(0)
	for _, h := range m.Headers {
		if strings.EqualFold(h.Name, mq.Traceparent) {
			continue // whoever sends again does so in another span, and it is the same message
		}
		headers += headerSum(h)
	}
	number(headers)
	return d.Sum64()
}

func headerSum(h mq.Header) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(h.Name)
	_, _ = d.Write([]byte{0}) // no name has one
	_, _ = d.WriteString(h.Value)
	return d.Sum64()
}

// add copies a message with its time into the batch: all of a batch are scheduled, or none.
func (b *outgoing) add(m *mq.Message, at int64) {
	if b.scheduled {
		b.times = append(b.times, at)
	}
	if hasIdempotency(m) {
		m.Content = contentSum(m)
		b.keyed++
	}
	b.builder.Add(m)
}

// repeatable says that the batch may be sent again without harm: the leader knows each of its messages again.
func (b *outgoing) repeatable() bool { return b.keyed == b.builder.Len() }

// took notes what the leader says of the batch.
func (b *outgoing) took(done *frame.Appended) error {
	b.first, b.stamp, b.repeats = done.First, done.Stamp, done.Repeats
	next := 0
	for _, r := range done.Repeats {
		if int(r.Ordinal) < next || int(r.Ordinal) >= b.builder.Len() {
			return mqerr.New(mqerr.OutcomeUnknown, "the leader speaks of message %d of %d", r.Ordinal, b.builder.Len())
		}
		next = int(r.Ordinal) + 1
	}
	if n := int(done.Count) + len(done.Repeats); n != b.builder.Len() {
		return mqerr.New(mqerr.OutcomeUnknown, "the leader speaks of %d messages, not %d", n, b.builder.Len())
	}
	return nil
}

// placed is where the message with an ordinal is.
type placed struct {
	id        mq.MessageID
	duplicate bool // it was there before
	stamp     int64
	due       int64 // of a scheduled message that is pending
}

// at is where a message of the batch is, or that its idempotency key belongs to another one.
func (b *outgoing) at(ordinal int32) (placed, *mqerr.Error) {
	p := placed{id: mq.MessageID{Partition: mq.PartitionID{Topic: b.topic, Number: b.to}, Scheduled: b.scheduled}, stamp: b.stamp}
	i := 0
	if len(b.repeats) > 0 {
		i = sort.Search(len(b.repeats), func(i int) bool { return b.repeats[i].Ordinal >= uint32(ordinal) })
		if i < len(b.repeats) && b.repeats[i].Ordinal == uint32(ordinal) {
			r := &b.repeats[i]
			p.id.Number, p.id.Scheduled, p.duplicate, p.stamp, p.due = r.Number, r.Scheduled, true, r.Stamp, r.Due
			if r.Conflict {
				return p, mqerr.New(mqerr.IdempotencyConflict, "the idempotency key came with other content as message %s", p.id)
			}
			return p, nil
		}
	}
	stored := int(ordinal) - i
	if p.id.Number = b.first + uint64(stored); b.scheduled {
		p.due = b.times[stored]
	}
	return p, nil
}
