package mq

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// The kinds that are about schedules have one form for messages: scheduled (a batch that waits), released (due
// ones at their offsets) and carried (pending ones again, ahead of the removal of the segment that holds them).

// MaxDelay is how far ahead a message may be scheduled, in nanoseconds: one year.
const MaxDelay = 366 * 24 * int64(3_600_000_000_000)

// maxScheduleTime bounds due times in records, so that sums never overflow.
const maxScheduleTime = math.MaxInt64 / 4

// Schedule is the schedule of one message. Numbers are dense in a partition, from 0, and never used again; behind what an
// operator gave up they go on further.
type Schedule struct {
	Number uint64
	Due    int64 // Unix nanoseconds
}

// ScheduleBatch is the body of a record with scheduled messages: a schedule for each message of a batch, in its
// order.
//
// Form: per schedule, after their count: number (signed, from the one before + 1) | due (signed, from the one
// before), then the batch.
type ScheduleBatch struct {
	Schedules []Schedule
	// Batch shares memory with what it was read from.
	Batch Batch
	// Raw is the batch as it is stored.
	Raw []byte
}

// AppendScheduleBatch appends the body of a record: batch is an encoded Batch of as many messages.
func AppendScheduleBatch(b []byte, schedules []Schedule, batch []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(schedules)))
	next, due := uint64(0), int64(0)
	for _, s := range schedules {
		b = binary.AppendVarint(b, int64(s.Number-next))
		b = binary.AppendVarint(b, s.Due-due)
		next, due = s.Number+1, s.Due
	}
	return append(b, batch...)
}

// Read reads a record's body and keeps the memory of Schedules. The batch's index is not looked at. After an error
// nothing in it means anything.
func (s *ScheduleBatch) Read(body []byte) error {
	r := Reader{b: body}
	s.Schedules = s.Schedules[:0]
	next, due := uint64(0), int64(0)
	for range r.Count(2) {
		x := Schedule{Number: next + uint64(r.Varint()), Due: due + r.Varint()}
		if x.Number > math.MaxInt64 || x.Due > maxScheduleTime || x.Due < -maxScheduleTime {
			r.Fail("schedule %d due at %d", x.Number, x.Due)
			break
		}
		s.Schedules = append(s.Schedules, x)
		next, due = x.Number+1, x.Due
	}
	s.Raw = r.Rest()
	if r.err != nil {
		return fmt.Errorf("mq: schedules: %w", r.err)
	}
	var err error
	if s.Batch, err = ParseBatch(s.Raw); err != nil {
		return err
	}
	if s.Batch.Count != len(s.Schedules) {
		return fmt.Errorf("mq: %d schedules for %d messages", len(s.Schedules), s.Batch.Count)
	}
	return nil
}

// MessagesOf reads the messages of a record that takes offsets: the batch as stored, and for a released record the
// schedule numbers of its messages, by which they are known. ok is false for records of any other kind.
func MessagesOf(rec Record) (b Batch, raw []byte, schedules []Schedule, ok bool, err error) {
	switch rec.Kind {
	case KindMessages:
		b, err = ParseBatch(rec.Body)
		return b, rec.Body, nil, true, err
	case KindReleased:
		var s ScheduleBatch
		err = s.Read(rec.Body)
		return s.Batch, s.Raw, s.Schedules, true, err
	}
	return Batch{}, nil, nil, false, nil
}

// Placed is a batch of an entry whose messages have offsets.
type Placed struct {
	Batch
	First     uint64     // the offset of its first message
	Raw       []byte     // the batch as stored
	Schedules []Schedule // by which its messages were known before they were released; nil for others
	Record    Record     // that holds it
}

// End is the offset behind the last message.
func (p *Placed) End() uint64 { return p.First + uint64(p.Count) }

// Batches gives the batches of an entry that take offsets, in order; each counts until the next one. One that can't be
// read comes as nil with the error, as the last.
func (e *Entry) Batches() iter.Seq2[*Placed, error] {
	return func(yield func(*Placed, error) bool) {
		p := Placed{First: e.At.Offset}
		for rec, err := range Records(e.Records) {
			ok := false
			if err == nil {
				p.Record = rec
				p.Batch, p.Raw, p.Schedules, ok, err = MessagesOf(rec)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !ok {
				continue
			}
			if !yield(&p, nil) {
				return
			}
			p.First = p.End()
		}
	}
}
