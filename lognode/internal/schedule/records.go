package schedule

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/splashdam/splashdam/shared/mq"
)

// change is the record of a cancel or a re-timing (mq.KindCancelled).
//
// Form: op (1) | now (signed) | number, and for a re-timing due - now (signed).
type change struct {
	op     op
	now    int64
	number uint64
	due    int64
}

// op says what a change does. Numbers are stored.
type op uint8

const (
	opCancel op = 1
	opRetime op = 2
)

// maxTime bounds times in records, so that sums never overflow.
const maxTime = math.MaxInt64 / 4

func (c change) append(b []byte) []byte {
	b = append(b, byte(c.op))
	b = binary.AppendVarint(b, c.now)
	b = binary.AppendUvarint(b, c.number)
	if c.op == opRetime {
		b = binary.AppendVarint(b, c.due-c.now)
	}
	return b
}

func readChange(body []byte) (change, error) {
	r := mq.NewReader(body)
	c := change{op: op(r.Byte()), now: r.Varint(), number: r.Uvarint()}
	switch c.op {
	case opCancel:
	case opRetime:
		c.due = c.now + r.Varint()
	default:
		r.Fail("schedule change %d", c.op)
	}
	if c.number > math.MaxInt64 || outside(c.now) || outside(c.due) || r.Len() != 0 {
		r.Fail("schedule %d due at %d, %d bytes over", c.number, c.due, r.Len())
	}
	if err := r.Err(); err != nil {
		return c, fmt.Errorf("schedule: change record: %w", err)
	}
	return c, nil
}

func outside(t int64) bool { return t > maxTime || t < -maxTime }

// carriedSchedules says that a carried record holds schedules. It is the first byte of the body.
const carriedSchedules = 1

// AppendCarried appends the body of a carried record: pending schedules again, with their numbers and due times as they
// were scheduled, ahead of the removal of the segment that holds them. scheduled is when they were.
func AppendCarried(b []byte, scheduled int64, schedules []mq.Schedule, batch []byte) []byte {
	b = append(b, carriedSchedules)
	b = binary.AppendVarint(b, scheduled)
	return mq.AppendScheduleBatch(b, schedules, batch)
}

// ReadScheduled reads a record that holds scheduled messages (scheduled, carried) into s. at is when they were scheduled, 0
// for the stamp of the entry. ok is false for records of any other kind.
func ReadScheduled(rec mq.Record, s *mq.ScheduleBatch) (at int64, ok bool, err error) {
	body := rec.Body
	switch rec.Kind {
	case mq.KindScheduled:
	case mq.KindCarried:
		r := mq.NewReader(body)
		if r.Byte() != carriedSchedules {
			return 0, false, r.Err()
		}
		if at = r.Varint(); outside(at) {
			r.Fail("carried schedules of %d", at)
		}
		if err := r.Err(); err != nil {
			return 0, false, fmt.Errorf("schedule: carried record: %w", err)
		}
		body = r.Rest()
	default:
		return 0, false, nil
	}
	return at, true, s.Read(body)
}
