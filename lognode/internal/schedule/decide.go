package schedule

import (
	"github.com/splashdam/splashdam/shared/mq"
)

// Code says what became of a cancel or a re-timing.
type Code uint8

// The codes.
const (
	OK       Code = iota
	Unknown       // no such schedule, or it was cancelled
	Released      // it has fired
	TooMany       // as many as there may be have been re-timed
)

// skipped is more numbers than can have been given since the last checkpoint, as mq.HoleJump is for offsets.
const skipped = mq.HoleJump

// Skip passes over numbers that were given, perhaps, and are lost with a part of the journal that an operator gave up: who was told
// one must not find another message under it. It is for a new leader that has replayed the rest; a checkpoint of its, or the records of
// what it schedules, tell the next one. Such a number counts as finished.
func (b *Book) Skip() { b.next += skipped }

// Schedule gives numbers to messages with these due times, whose scheduled record is in the entry at and has that many
// bytes. The result is valid until the next call.
func (b *Book) Schedule(at mq.Position, dues []int64, bytes int) []mq.Schedule {
	b.saw(len(dues), bytes)
	b.scratch = b.scratch[:0]
	for _, due := range dues {
		s := mq.Schedule{Number: b.next, Due: due}
		b.scratch = append(b.scratch, s)
		b.add(s, at)
	}
	return b.scratch
}

// Release says that a pending schedule is a message at offset from here on; the caller writes the record.
func (b *Book) Release(number, offset uint64) {
	_, w := b.Look(number)
	if b.finish(number) {
		b.released.put(number, Place{offset, w.At})
	}
}

// Cancel decides that a schedule is not released at all. Cancelling twice is fine.
func (b *Book) Cancel(now int64, number uint64) Code {
	switch state, _ := b.Look(number); state {
	case StateCancelled:
		return OK
	case StateUnknown:
		return Unknown
	case StateReleased:
		return Released
	}
	b.cancel(number)
	b.write(change{op: opCancel, now: now, number: number})
	return OK
}

func (b *Book) cancel(number uint64) {
	if b.finish(number) {
		b.cancelled.put(number, struct{}{})
	}
}

// Retime decides that a schedule is due at another time.
func (b *Book) Retime(now int64, number uint64, due int64) Code {
	state, w := b.Look(number)
	switch {
	case state == StateReleased:
		return Released
	case state != StatePending:
		return Unknown
	case w.Due == due:
		return OK
	}
	if _, again := b.retimed[number]; !again && len(b.retimed) >= MaxRetimed {
		return TooMany
	}
	b.move(number, due)
	b.write(change{op: opRetime, now: now, number: number, due: due})
	return OK
}

func (b *Book) write(c change) {
	b.records = mq.AppendRecord(b.records, mq.KindCancelled, c.append(nil))
}

// TakeRecords appends the records of the decisions since the last call and forgets them. They belong into the partition's
// next entry, before anything that is scheduled or released in it.
func (b *Book) TakeRecords(dst []byte) []byte {
	dst = append(dst, b.records...)
	b.records = b.records[:0]
	return dst
}

// Unwritten is how many bytes of records wait to be taken.
func (b *Book) Unwritten() int { return len(b.records) }
