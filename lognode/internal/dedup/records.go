package dedup

import (
	"encoding/binary"
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// EachKey calls f with the keys that a record brings. e is the entry that holds it, first the offset of the record's
// first message. A record that can't be read brings none.
func EachKey(e *mq.Entry, first uint64, rec mq.Record, f func(Entry)) {
	switch rec.Kind {
	case mq.KindMessages:
		EachOfBatch(rec.Body, e.Stamp, func(i int, x Entry) {
			x.Number = first + uint64(i)
			f(x)
		})
	case mq.KindScheduled:
		var s mq.ScheduleBatch
		if s.Read(rec.Body) != nil {
			return
		}
		EachOfBatch(s.Raw, e.Stamp, func(i int, x Entry) {
			x.Number, x.Scheduled = s.Schedules[i].Number, true
			f(x)
		})
	case mq.KindKeys:
		list, err := Parse(rec.Body)
		if err != nil {
			return
		}
		for _, x := range list {
			f(x)
		}
	}
}

// EachOfBatch calls f with the ordinals of a batch's messages that have a key, and the key. A batch without keys costs
// nothing.
func EachOfBatch(body []byte, stamp int64, f func(i int, x Entry)) {
	if _, uses := mq.BatchShape(body); uses&mq.UsesIdempotency == 0 {
		return
	}
	b, err := mq.ParseBatch(body)
	if err != nil {
		return
	}
	_ = b.Each(nil, func(i int, m *mq.Message) bool {
		if m.Idempotency != (Key{}) {
			f(i, Entry{Key: m.Idempotency, Content: m.Content, Stamp: stamp})
		}
		return true
	})
}

// leastEntry is how many bytes an entry takes at least in the form of Append.
const leastEntry = 16 + 8 + 1 + 1

// Append appends a list of keys: of a part of a footer, or the keys of a segment that is removed while they count.
//
// Form: number of keys | per key: key (16) | content (8) | stamp (signed, from the one before) | number (signed, from
// the one before, shifted left by one with the lowest bit for a schedule). About 28 bytes a key.
func Append(b []byte, list []Entry) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	stamp, number := int64(0), uint64(0)
	for i := range list {
		x := &list[i]
		b = append(b, x.Key[:]...)
		b = binary.BigEndian.AppendUint64(b, x.Content)
		b = binary.AppendVarint(b, x.Stamp-stamp)
		coded := x.Number << 1
		if x.Scheduled {
			coded |= 1
		}
		b = binary.AppendVarint(b, int64(coded-number))
		stamp, number = x.Stamp, coded
	}
	return b
}

// Parse reads what Append wrote.
func Parse(b []byte) ([]Entry, error) {
	c, err := begin(b)
	if err != nil {
		return nil, err
	}
	list := c.appendTo(make([]Entry, 0, c.left))
	return list, c.end()
}

// cursor reads a form of Append, key by key.
type cursor struct {
	b      []byte
	left   int // keys that are still to be read
	stamp  int64
	number uint64 // shifted left by one, with the lowest bit for a schedule
	broken bool
}

// begin reads the number of keys, which is checked against the bytes that there are.
func begin(b []byte) (cursor, error) {
	r := mq.NewReader(b)
	n := r.Count(leastEntry)
	if r.Err() != nil {
		return cursor{}, fmt.Errorf("dedup: keys: %w", r.Err())
	}
	return cursor{b: r.Rest(), left: n}, nil
}

// fixed is the length of key and content.
const fixed = 16 + 8

// next reads a key: its stamp and number are the cursor's then, key and content are in what it returns. Nil at the end, and
// where the form is broken.
func (c *cursor) next() []byte {
	if c.left == 0 || c.broken {
		return nil
	}
	b := c.b
	if len(b) < leastEntry {
		c.broken = true
		return nil
	}
	stamp, number, n := uint64(b[fixed]), uint64(b[fixed+1]), 2
	if stamp|number >= 0x80 { // not one byte each, as nearly all are
		var k, m int
		if stamp, k = binary.Uvarint(b[fixed:]); k > 0 {
			number, m = binary.Uvarint(b[fixed+k:])
		}
		if n = k + m; k <= 0 || m <= 0 {
			c.broken = true
			return nil
		}
	}
	c.stamp += unzigzag(stamp)
	c.number += uint64(unzigzag(number))
	c.b = b[fixed+n:]
	c.left--
	return b[:fixed]
}

// unzigzag is the signed number of a varint.
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// entry is the key that next returned.
func (c *cursor) entry(at []byte) Entry {
	return Entry{Key: Key(at), Content: binary.BigEndian.Uint64(at[16:]), Stamp: c.stamp, Number: c.number >> 1, Scheduled: c.number&1 != 0}
}

// appendTo appends all keys that are left.
func (c *cursor) appendTo(list []Entry) []Entry {
	for at := c.next(); at != nil; at = c.next() {
		list = append(list, c.entry(at))
	}
	return list
}

// end says whether all of the form was read, and there is no more.
func (c *cursor) end() error {
	if c.broken || c.left > 0 {
		return fmt.Errorf("dedup: keys: %w", mq.ErrTruncated)
	}
	if len(c.b) > 0 {
		return fmt.Errorf("dedup: keys: %d bytes over", len(c.b))
	}
	return nil
}
