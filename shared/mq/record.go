package mq

import (
	"fmt"
	"iter"
)

// Kind says what a record is. Numbers are part of the stored format and never change.
type Kind uint8

// The kinds. Only KindMessages and KindReleased take offsets. The comment on each names its owner.
const (
	KindMessages     Kind = 1  // a batch, see Batch
	KindScheduled    Kind = 2  // messages with a due time and a schedule number each, see ScheduleBatch
	KindReleased     Kind = 3  // due schedules at their new offsets, see ScheduleBatch
	KindCancelled    Kind = 4  // lognode/internal/schedule: cancelled or re-timed numbers
	KindDelivered    Kind = 5  // lognode/internal/delivery
	KindSettled      Kind = 6  // lognode/internal/delivery
	KindGroup        Kind = 7  // lognode/internal/delivery
	KindCheckpoint   Kind = 8  // lognode/internal/delivery
	KindCarried      Kind = 9  // what outlives its segment: lognode/internal/schedule (1), lognode/internal/delivery (2)
	KindRedriven     Kind = 10 // lognode/internal/delivery
	KindDeadRemoved  Kind = 11 // lognode/internal/delivery
	KindSnapshot     Kind = 12 // lognode/internal/delivery
	KindHandOver     Kind = 13 // reserved
	KindTransaction  Kind = 14 // reserved
	KindDeadExported Kind = 16 // lognode/internal/delivery
	KindKeys         Kind = 15 // idempotency keys of a removed segment that still count: lognode/internal/dedup
)

// Record is one fact in an entry: kind (1), version (1), length (varint), body.
type Record struct {
	Kind    Kind
	Version uint8
	Body    []byte
}

// AppendRecord appends a record of version 1.
func AppendRecord(b []byte, kind Kind, body []byte) []byte {
	b = append(b, byte(kind), 1)
	return AppendBytes(b, body)
}

// Records gives the records of an entry in order. One that can't be read comes with the error, as the last.
func Records(records []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for len(records) > 0 {
			rec, rest, err := NextRecord(records)
			if !yield(rec, err) || err != nil {
				return
			}
			records = rest
		}
	}
}

// NextRecord takes the first record from the records of an entry and returns what is left.
func NextRecord(records []byte) (Record, []byte, error) {
	r := Reader{b: records}
	rec := Record{Kind: Kind(r.Byte()), Version: r.Byte(), Body: r.Bytes()}
	if r.err != nil {
		return Record{}, nil, fmt.Errorf("mq: record: %w", r.err)
	}
	return rec, r.b, nil
}
