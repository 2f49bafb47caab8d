package mq

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Codec says how a batch's body block is compressed.
type Codec uint8

// The codecs. Only gateways and clients pack and unpack; leaders forward bytes.
const (
	CodecNone Codec = 0
	CodecS2   Codec = 1
	CodecZstd Codec = 2
)

// Batch is a parsed view of the body of a messages record. It shares memory with what it was parsed
// from. The leader reads the index only; offsets and time come from the entry that holds it.
//
// Form: version (1) | codec (1) | uses (1) | count | producer | gateway | raw body length | index length |
// index | body. Lengths are varints. The index has per message: flags (1) | value length | then, as the flags
// say, key, content type, headers, lane, TTL, idempotency hash and content sum. Uses are all flags together.
type Batch struct {
	Codec    Codec
	Uses     Uses
	Count    int
	Producer string // the API key or client that published, "" if unknown
	Gateway  string // name of the gateway that built the batch
	RawSize  int    // length of the body when not compressed
	index    []byte
	body     []byte
}

const batchVersion = 1

const (
	hasKey = 1 << iota
	hasContentType
	hasHeaders
	hasLane
	hasTTL
	hasIdempotency
)

// idempotencySize is what an idempotency hash and the sum of the content take in an index.
const idempotencySize = 16 + 8

// Uses says what at least one message of a batch has, so that whoever cares for none of it need not look at the
// index. CheckIndex holds it against the index.
type Uses uint8

// The uses that somebody asks for.
const (
	UsesKeys        Uses = hasKey
	UsesHeaders     Uses = hasHeaders
	UsesLanes       Uses = hasLane // other than normal
	UsesTTL         Uses = hasTTL
	UsesIdempotency Uses = hasIdempotency
)

// BatchShape reads how many messages a batch has and what they use, without a look at the rest; for a batch that was
// checked, on paths where ParseBatch would cost. 0 messages for bytes that are no batch.
func BatchShape(b []byte) (count int, uses Uses) {
	if len(b) < 4 || b[0] != batchVersion {
		return 0, 0
	}
	n, size := binary.Uvarint(b[3:])
	if size <= 0 || n > MaxBatchMessages {
		return 0, 0
	}
	return int(n), Uses(b[2])
}

// BatchBuilder packs messages into a batch; its zero value is ready. It may be used again after Reset.
type BatchBuilder struct {
	count int
	uses  Uses
	index []byte
	body  []byte
}

// Reset empties the builder and keeps its memory.
func (b *BatchBuilder) Reset() { b.count, b.uses, b.index, b.body = 0, 0, b.index[:0], b.body[:0] }

// Len is how many messages are in it, Size about how many bytes the batch will have without compression.
func (b *BatchBuilder) Len() int  { return b.count }
func (b *BatchBuilder) Size() int { return len(b.index) + len(b.body) }

// Uses is what its messages have.
func (b *BatchBuilder) Uses() Uses { return b.uses }

// Add appends a message, whose bytes are copied.
func (b *BatchBuilder) Add(m *Message) {
	var flags byte
	if m.HasKey {
		flags |= hasKey
	}
	if m.ContentType != "" {
		flags |= hasContentType
	}
	if len(m.Headers) > 0 {
		flags |= hasHeaders
	}
	if m.Lane != LaneNormal {
		flags |= hasLane
	}
	if m.TTL != 0 {
		flags |= hasTTL
	}
	if m.Idempotency != [16]byte{} {
		flags |= hasIdempotency
	}
	x := append(b.index, flags)
	x = binary.AppendUvarint(x, uint64(len(m.Value)))
	if flags&hasKey != 0 {
		x = AppendBytes(x, m.Key)
	}
	if flags&hasContentType != 0 {
		x = AppendBytes(x, m.ContentType)
	}
	if flags&hasHeaders != 0 {
		x = binary.AppendUvarint(x, uint64(len(m.Headers)))
		for _, h := range m.Headers {
			x = AppendBytes(AppendBytes(x, h.Name), h.Value)
		}
	}
	if flags&hasLane != 0 {
		x = append(x, byte(m.Lane))
	}
	if flags&hasTTL != 0 {
		x = binary.AppendUvarint(x, uint64(m.TTL))
	}
	if flags&hasIdempotency != 0 {
		x = append(x, m.Idempotency[:]...)
		x = binary.BigEndian.AppendUint64(x, m.Content)
	}
	b.uses |= Uses(flags)
	b.index = x
	b.body = append(b.body, m.Value...)
	b.count++
}

// Body is the raw body block, to be compressed by the caller.
func (b *BatchBuilder) Body() []byte { return b.body }

// AppendTo appends the batch. body is b.Body() packed with codec, or nil for the raw body.
func (b *BatchBuilder) AppendTo(dst []byte, producer, gateway string, codec Codec, body []byte) []byte {
	if body == nil {
		codec, body = CodecNone, b.body
	}
	dst = appendBatchHeader(dst, codec, b.uses, b.count, producer, gateway, len(b.body), len(b.index))
	dst = append(dst, b.index...)
	return append(dst, body...)
}

func appendBatchHeader(dst []byte, codec Codec, uses Uses, count int, producer, gateway string, raw, index int) []byte {
	dst = append(dst, batchVersion, byte(codec), byte(uses))
	dst = binary.AppendUvarint(dst, uint64(count))
	dst = AppendBytes(dst, producer)
	dst = AppendBytes(dst, gateway)
	dst = binary.AppendUvarint(dst, uint64(raw))
	return binary.AppendUvarint(dst, uint64(index))
}

// ParseBatch reads the header; index and body are not looked at (CheckIndex does that).
func ParseBatch(b []byte) (Batch, error) {
	r := Reader{b: b}
	if v := r.Byte(); r.err == nil && v != batchVersion {
		return Batch{}, fmt.Errorf("mq: batch version %d is not known", v)
	}
	out := Batch{Codec: Codec(r.Byte()), Uses: Uses(r.Byte())}
	count := r.Uvarint()
	out.Producer, out.Gateway = r.String(), r.String()
	raw := r.Uvarint()
	out.index = r.Bytes()
	out.body = r.Rest()
	switch {
	case r.err != nil:
		return Batch{}, fmt.Errorf("mq: batch: %w", r.err)
	case out.Codec > CodecZstd:
		return Batch{}, fmt.Errorf("mq: batch codec %d is not known", out.Codec)
	case count == 0 || count > MaxBatchMessages:
		return Batch{}, fmt.Errorf("mq: a batch has 1 to %d messages, not %d", MaxBatchMessages, count)
	case count*2 > uint64(len(out.index)):
		return Batch{}, fmt.Errorf("mq: batch index of %d bytes can't hold %d messages", len(out.index), count)
	case raw > MaxBatchBytes || out.Codec == CodecNone && raw != uint64(len(out.body)):
		return Batch{}, fmt.Errorf("mq: batch body of %d bytes says %d", len(out.body), raw)
	}
	out.Count, out.RawSize = int(count), int(raw)
	return out, nil
}

// Packed is the body block as stored; unpack it by Codec to RawSize bytes before Messages.
func (b *Batch) Packed() []byte { return b.body }

// ErrBatchIndex says that a batch's index does not fit its header.
var ErrBatchIndex = errors.New("mq: batch index is damaged")

// CheckIndex walks the index and reports whether it is well-formed and fits count and raw size. A
// leader calls it on what a gateway sent, before anything is stored.
func (b *Batch) CheckIndex() error {
	var uses Uses
	r := Reader{b: b.index}
	at := uint64(0)
	var m Message
	for i := range b.Count {
		if len(r.b) > 0 {
			uses |= Uses(r.b[0])
		}
		n := readIndexed(&r, &m)
		if r.err != nil || n > uint64(b.RawSize)-at {
			return fmt.Errorf("%w: message %d of %d", ErrBatchIndex, i, b.Count)
		}
		at += n
	}
	switch {
	case len(r.b) != 0 || at != uint64(b.RawSize):
		return fmt.Errorf("%w: %d bytes over", ErrBatchIndex, len(r.b))
	case uses != b.Uses:
		return fmt.Errorf("%w: it uses %#x, the header says %#x", ErrBatchIndex, uses, b.Uses)
	}
	return nil
}

// Each calls f with every message in order until it returns false. body is the unpacked body block;
// with nil the messages have no value. The Message is used again for the next call, and its bytes share
// memory with the batch.
func (b *Batch) Each(body []byte, f func(i int, m *Message) bool) error {
	if body != nil && len(body) != b.RawSize {
		return fmt.Errorf("%w: body has %d bytes, not %d", ErrBatchIndex, len(body), b.RawSize)
	}
	r := Reader{b: b.index}
	at := uint64(0)
	var m Message
	for i := range b.Count {
		n := readIndexed(&r, &m)
		if r.err != nil || n > uint64(b.RawSize)-at {
			return fmt.Errorf("%w: message %d of %d", ErrBatchIndex, i, b.Count)
		}
		if body != nil {
			m.Value = body[at : at+n : at+n]
		}
		at += n
		if !f(i, &m) {
			return nil
		}
	}
	if len(r.b) != 0 || at != uint64(b.RawSize) {
		return fmt.Errorf("%w: %d bytes over", ErrBatchIndex, len(r.b))
	}
	return nil
}

// EachSize calls f with the size of every message, as Message.Size has it, in order. The body is not looked at.
func (b *Batch) EachSize(f func(i, size int)) error {
	r := Reader{b: b.index}
	var m Message
	for i := range b.Count {
		n := readIndexed(&r, &m)
		if r.err != nil || n > uint64(b.RawSize) {
			return fmt.Errorf("%w: message %d of %d", ErrBatchIndex, i, b.Count)
		}
		f(i, m.Size()+int(n))
	}
	return nil
}

// EachOrder calls f with what orders each message: its lane and its key. It reads the index and leaves out the rest,
// so that it allocates nothing; keys share memory with the batch. The error is that of CheckIndex, but for sizes.
func (b *Batch) EachOrder(f func(i int, lane Lane, key []byte, hasKey bool)) error {
	r := Reader{b: b.index}
	for i := range b.Count {
		flags := r.Byte()
		r.Uvarint()
		lane := LaneNormal
		var key []byte
		if flags&hasKey != 0 {
			key = r.Bytes()
		}
		if flags&hasContentType != 0 {
			r.Bytes()
		}
		if flags&hasHeaders != 0 {
			for range r.Count(2) {
				r.Bytes()
				r.Bytes()
			}
		}
		if flags&hasLane != 0 {
			lane = Lane(r.Byte())
		}
		if flags&hasTTL != 0 {
			r.Uvarint()
		}
		if flags&hasIdempotency != 0 {
			r.Take(idempotencySize)
		}
		if r.err != nil || lane >= Lanes || flags >= hasIdempotency<<1 {
			return fmt.Errorf("%w: message %d of %d", ErrBatchIndex, i, b.Count)
		}
		f(i, lane, key, flags&hasKey != 0)
	}
	if len(r.b) != 0 {
		return fmt.Errorf("%w: %d bytes over", ErrBatchIndex, len(r.b))
	}
	return nil
}

// readIndexed reads one message of an index into m and returns its value's length.
func readIndexed(r *Reader, m *Message) uint64 {
	flags := r.Byte()
	n := r.Uvarint()
	*m = Message{Lane: LaneNormal, Headers: m.Headers[:0]}
	if flags&hasKey != 0 {
		m.Key, m.HasKey = r.Bytes(), true
	}
	if flags&hasContentType != 0 {
		m.ContentType = r.String()
	}
	if flags&hasHeaders != 0 {
		for range r.Count(2) {
			m.Headers = append(m.Headers, Header{Name: r.String(), Value: r.String()})
		}
	}
	if flags&hasLane != 0 {
		if m.Lane = Lane(r.Byte()); m.Lane >= Lanes {
			r.Fail("lane %d", m.Lane)
		}
	}
	if flags&hasTTL != 0 {
		m.TTL = int64(r.Uvarint())
	}
	if flags&hasIdempotency != 0 {
		copy(m.Idempotency[:], r.Take(16))
		m.Content = r.Fixed64()
		if m.Idempotency == [16]byte{} {
			r.Fail("an idempotency hash of zeros")
		}
	}
	if flags >= hasIdempotency<<1 {
		r.Fail("index flags %#x", flags)
	}
	return n
}

// Slice makes a batch of the messages with the given ordinals (ascending) from a batch whose body is
// not compressed; it returns false for a compressed one, which travels whole.
func (b *Batch) Slice(dst []byte, ordinals []int) ([]byte, bool, error) {
	if b.Codec != CodecNone {
		return dst, false, nil
	}
	var index, body []byte
	var uses Uses
	r := Reader{b: b.index}
	at, next := uint64(0), 0
	var m Message
	for i := 0; i < b.Count && next < len(ordinals); i++ {
		before := r.b
		n := readIndexed(&r, &m)
		if r.err != nil || n > uint64(len(b.body))-at {
			return dst, false, fmt.Errorf("%w: message %d of %d", ErrBatchIndex, i, b.Count)
		}
		if ordinals[next] == i {
			uses |= Uses(before[0])
			index = append(index, before[:len(before)-len(r.b)]...)
			body = append(body, b.body[at:at+n]...)
			next++
		}
		at += n
	}
	if next < len(ordinals) {
		return dst, false, fmt.Errorf("mq: ordinal %d of a batch of %d", ordinals[next], b.Count)
	}
	dst = appendBatchHeader(dst, CodecNone, uses, len(ordinals), b.Producer, b.Gateway, len(body), len(index))
	dst = append(dst, index...)
	return append(dst, body...), true, nil
}
