package schedule

import (
	"math"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Limits bound what an Ahead reads, holds and releases. Times are nanoseconds.
type Limits struct {
	// Before is how long before it is due a message is read, so that a release waits for no disk.
	Before int64
	// Bytes bounds the messages that are held; those that are due later are read later. Read is how many are read at a time.
	Bytes, Read int
	// Record and RecordBytes bound one released record.
	Record, RecordBytes int
	// Late is how many are due and wait for their message, or for the next record, at most.
	Late int
	// Hold is when releases that may not happen now are tried again.
	Hold int64
}

// Ahead is what a leader holds of schedules beside the book: the messages that are due soon. It decides what is read, when it is looked at
// again, and what is released; its owner, one goroutine, does the reading and has the timer.
type Ahead struct {
	limits   Limits
	messages map[uint64]mq.Message // by number; read and near
	bytes    int
	wanted   []Wanted // near, not read yet; read once all are committed
	reading  bool
	// late are due and wait for their message, or for what fits the next record, in order of their due times.
	late    []mq.Schedule
	look    bool
	timer   int64 // when it is set for, 0 for not at all
	held    bool  // releases may not happen now: they are tried again with the timer
	builder mq.BatchBuilder
}

// NewAhead holds nothing.
func NewAhead(l Limits) *Ahead { return &Ahead{limits: l, messages: map[uint64]mq.Message{}} }

// Looks says that something may be due: the next entry takes it along (Release).
func (a *Ahead) Looks() bool { return a.look }

// Look says that something may be due.
func (a *Ahead) Look() { a.look = true }

// Fired is the timer's word.
func (a *Ahead) Fired() { a.timer, a.look, a.held = 0, true, false }

// Has says whether the message of a schedule is held.
func (a *Ahead) Has(number uint64) bool {
	_, ok := a.messages[number]
	return ok
}

// Bytes is how large the messages are that are held.
func (a *Ahead) Bytes() int { return a.bytes }

// Forget drops the message of a schedule that is not near any more.
func (a *Ahead) Forget(number uint64) {
	if m, ok := a.messages[number]; ok {
		a.bytes -= m.Size()
		delete(a.messages, number)
	}
}

// Next is what is to be read now, about room bytes of it, nothing while a reading is under way. What is read is told to Read.
func (a *Ahead) Next(b *Book, now int64, commit mq.Position) (wanted []Wanted, room int) {
	if a.reading || a.bytes >= a.limits.Bytes {
		return nil, 0
	}
	if len(a.wanted) == 0 && b.NextDue() <= now+a.limits.Before {
		a.wanted = b.Take(now+a.limits.Before, a.limits.Read, a.wanted)
	}
	if len(a.wanted) == 0 || !Committed(a.wanted, commit) {
		return nil, 0
	}
	wanted, a.wanted, a.reading = a.wanted, nil, true
	return wanted, a.limits.Bytes - a.bytes
}

// Committed says whether all of a list lie before a position.
func Committed(list []Wanted, commit mq.Position) bool {
	return !slices.ContainsFunc(list, func(w Wanted) bool { return !w.At.Before(commit) })
}

// Read takes what was read of what was wanted: dealt are those that it was tried for, got their messages. What there was no room
// for is still wanted. missing could not be read: its owner has the book untake it later.
func (a *Ahead) Read(b *Book, wanted, dealt []Wanted, got map[uint64]mq.Message) (missing []Wanted) {
	a.reading, a.look = false, true
	if len(dealt) < len(wanted) {
		done := make(map[uint64]bool, len(dealt))
		for _, w := range dealt {
			done[w.Number] = true
		}
		a.wanted = slices.DeleteFunc(wanted, func(w Wanted) bool { return done[w.Number] })
	}
	for _, w := range dealt {
		m, ok := got[w.Number]
		switch {
		case !b.Holds(w.Schedule): // cancelled or re-timed meanwhile
		case ok:
			a.messages[w.Number] = m
			a.bytes += m.Size()
		default:
			missing = append(missing, w)
		}
	}
	return missing
}

// Timer says when there is something to do next, if the timer is to be set anew for that.
func (a *Ahead) Timer(b *Book, now int64) (due int64, set bool) {
	if a.held {
		if a.timer != 0 {
			return 0, false
		}
		a.timer = now + a.limits.Hold
		return a.timer, true
	}
	next := int64(math.MaxInt64)
	// What is due already waits for the next entry, which looks; where too many are late, for the reading of those.
	if len(a.late) < a.limits.Late && !a.look {
		next = b.NearDue()
	}
	if len(a.wanted) == 0 && !a.reading && a.bytes < a.limits.Bytes {
		next = min(next, b.NextDue()-a.limits.Before)
	}
	if next == a.timer || next >= math.MaxInt64-a.limits.Before {
		return 0, false
	}
	a.timer = next
	return next, true
}

// Release is what is due now and has been read, as the batch of a record, nil for nothing. The book says at once that they are
// released, from the offset first on: the entry that is being placed takes them. may is asked whether releases may happen.
func (a *Ahead) Release(b *Book, may func() bool, first uint64, now int64) (due []mq.Schedule, raw []byte) {
	if !a.look {
		return nil, nil
	}
	if a.look = false; !may() {
		a.held = true
		return nil, nil
	}
	// A clock that was ahead has been set right since they were taken: no message comes before its time.
	a.late = slices.DeleteFunc(a.late, func(s mq.Schedule) bool {
		if s.Due > now {
			b.Undue(s)
		}
		return s.Due > now
	})
	for len(a.late) < a.limits.Late {
		s, ok := b.Due(now)
		if !ok {
			break
		}
		a.late = append(a.late, s)
	}
	kept := a.late[:0]
	a.builder.Reset()
	for _, s := range a.late {
		m, ok := a.messages[s.Number]
		switch {
		case !b.Holds(s): // whoever changed it has seen to its message
		case !ok:
			kept = append(kept, s)
		case len(due) == a.limits.Record || len(due) > 0 && a.builder.Size()+m.Size() > a.limits.RecordBytes:
			kept = append(kept, s)
			a.look = true
		default:
			a.builder.Add(&m)
			b.Release(s.Number, first+uint64(len(due)))
			a.Forget(s.Number)
			due = append(due, s)
		}
	}
	if a.late = kept; len(due) == 0 {
		return nil, nil
	}
	a.look = true // there may be more
	return due, a.builder.AppendTo(nil, "", "", mq.CodecNone, nil)
}
