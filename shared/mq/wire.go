package mq

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrTruncated says that a binary form ended before its last field.
var ErrTruncated = errors.New("mq: binary form ends early")

// Reader takes fields from the front of a binary form. The first error sticks: read all fields, then
// look at Err once. What Bytes returns shares memory with the input.
type Reader struct {
	b   []byte
	err error
}

// NewReader reads b, which must not change while its fields are in use.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Reset makes r read b, without an error.
func (r *Reader) Reset(b []byte) { r.b, r.err = b, nil }

// Err is the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Len is how many bytes are left.
func (r *Reader) Len() int { return len(r.b) }

// Rest is everything that is left; the reader is empty after it.
func (r *Reader) Rest() []byte {
	b := r.b
	r.b = nil
	return b
}

// Fail records err if it is the first one, for a field whose value is not allowed.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("mq: "+format, args...)
		r.b = nil
	}
}

func (r *Reader) truncated() {
	if r.err == nil {
		r.err = ErrTruncated
	}
	r.b = nil
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) < 1 {
		r.truncated()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.truncated()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Varint reads a signed (zig-zag) varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.truncated()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Uint32 reads a varint that must fit 32 bits.
func (r *Reader) Uint32() uint32 {
	v := r.Uvarint()
	if v > 1<<32-1 {
		r.Fail("%d does not fit 32 bits", v)
		return 0
	}
	return uint32(v)
}

// Fixed64 reads 8 bytes, big endian.
func (r *Reader) Fixed64() uint64 {
	b := r.Take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Take reads n bytes.
func (r *Reader) Take(n int) []byte {
	if n < 0 || len(r.b) < n {
		r.truncated()
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// Bytes reads a length (varint) and that many bytes. A length beyond what is left is an error before
// anything is allocated.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.truncated()
		return nil
	}
	return r.Take(int(n))
}

// String is Bytes as a copy.
func (r *Reader) String() string { return string(r.Bytes()) }

// Count reads a number of elements of which each takes at least least bytes, so that a forged count
// can't make the caller allocate more than the input could hold.
func (r *Reader) Count(least int) int {
	n := r.Uvarint()
	if n > uint64(len(r.b)/max(least, 1)) {
		r.truncated()
		return 0
	}
	return int(n)
}

// Position reads what AppendPosition wrote.
func (r *Reader) Position() Position {
	return Position{Offset: r.Uvarint(), Seq: r.Uint32()}
}

// Partition reads what AppendPartition wrote.
func (r *Reader) Partition() PartitionID {
	return PartitionID{Topic: TopicID(r.Uvarint()), Number: r.Uint32()}
}

// AppendBytes appends a length (varint) and the bytes.
func AppendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// AppendPosition appends a position as two varints (not the sorting form).
func AppendPosition(b []byte, p Position) []byte {
	b = binary.AppendUvarint(b, p.Offset)
	return binary.AppendUvarint(b, uint64(p.Seq))
}

// AppendPartition appends a partition's identity.
func AppendPartition(b []byte, p PartitionID) []byte {
	b = binary.AppendUvarint(b, uint64(p.Topic))
	return binary.AppendUvarint(b, uint64(p.Number))
}
