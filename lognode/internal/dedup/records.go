package dedup

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

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
	r := mq.NewReader(b)
	list := make([]Entry, r.Count(leastEntry))
	stamp, number := int64(0), uint64(0)
	for i := range list {
		x := &list[i]
		copy(x.Key[:], r.Take(16))
		x.Content = r.Fixed64()
		stamp += r.Varint()
		number += uint64(r.Varint())
		x.Stamp, x.Number, x.Scheduled = stamp, number>>1, number&1 != 0
	}
	if r.Err() == nil && r.Len() > 0 {
		r.Fail("%d bytes over", r.Len())
	}
	if r.Err() != nil {
		return nil, fmt.Errorf("dedup: keys: %w", r.Err())
	}
	return list, nil
}

// Build makes the table of several lists of keys, those of footers: the newest list first, in each the oldest key first. Of
// two with the same key the later one counts. Keys that were carried forward are older than what lies before them in
// the journal; only then the lists need sorting.
func Build(lists [][]Entry) *Table {
	slices.Reverse(lists)
	count, last, ascending := 0, int64(math.MinInt64), true
	for _, list := range lists {
		count += len(list)
		for i := range list {
			ascending = ascending && list[i].Stamp >= last
			last = list[i].Stamp
		}
	}
	if !ascending {
		all := slices.Concat(lists...)
		slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(a.Stamp, b.Stamp) })
		lists = [][]Entry{all}
	}
	t := &Table{}
	t.reserve(min(count, MaxKeys))
	for skip := max(0, count-MaxKeys); len(lists) > 0; lists = lists[1:] {
		n := min(skip, len(lists[0]))
		skip -= n
		for i := n; i < len(lists[0]); i++ {
			t.Add(lists[0][i])
		}
	}
	return t
}
