package delivery

import (
	"encoding/binary"
	"math"

	"github.com/splashdam/splashdam/shared/mq"
)

// deadSet is which messages a record about dead letters names: spans that ascend, together at most MaxReceive.
//
// Form: group | generation | now (signed) | spans, each gap from the end of the one before | length.
type deadSet struct {
	group      mq.GroupID
	generation uint64
	now        int64
	spans      []span
}

func (d *deadSet) messages() (n int) {
	for _, s := range d.spans {
		n += int(s.to - s.from)
	}
	return n
}

// last is the end of what is named.
func (d *deadSet) last() uint64 {
	if len(d.spans) == 0 {
		return 0
	}
	return d.spans[len(d.spans)-1].to
}

// each calls f with what is named.
func (d *deadSet) each(f func(first, count uint64)) {
	for _, s := range d.spans {
		f(s.from, s.to-s.from)
	}
}

func (d *deadSet) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(d.group))
	b = binary.AppendUvarint(b, d.generation)
	b = binary.AppendVarint(b, d.now)
	return appendSpans(b, d.spans)
}

func (d *deadSet) read(r *mq.Reader) {
	d.group, d.generation, d.now = mq.GroupID(r.Uvarint()), r.Uvarint(), readTime(r)
	d.spans = readSpans(r, d.spans[:0], MaxReceive)
}

// appendSpans appends spans that ascend.
func appendSpans(b []byte, spans []span) []byte {
	b = binary.AppendUvarint(b, uint64(len(spans)))
	at := uint64(0)
	for _, s := range spans {
		b = binary.AppendUvarint(b, s.from-at)
		b = binary.AppendUvarint(b, s.to-s.from)
		at = s.to
	}
	return b
}

// readSpans reads spans that ascend and hold at most this many offsets together.
func readSpans(r *mq.Reader, into []span, most uint64) []span {
	at, total := uint64(0), uint64(0)
	for range r.Count(2) {
		from := at + r.Uvarint()
		n := r.Uvarint()
		if r.Err() != nil {
			break
		}
		if from < at || n == 0 || n > most-total || from > math.MaxInt64 {
			r.Fail("span %d+%d", from, n)
			break
		}
		total += n
		at = from + n
		into = append(into, span{from, at})
	}
	return into
}

// redriven is the record of a redrive. The i-th message that it names is ready at now + delay + i*interval.
//
// Form: deadSet | delay | interval.
type redriven struct {
	deadSet
	delay, interval int64
}

func (d *redriven) append(b []byte) []byte {
	b = d.deadSet.append(b)
	b = binary.AppendUvarint(b, uint64(d.delay))
	return binary.AppendUvarint(b, uint64(d.interval))
}

func (d *redriven) read(body []byte) error {
	r := mq.NewReader(body)
	d.deadSet.read(r)
	delay, interval := r.Uvarint(), r.Uvarint()
	if delay > uint64(MaxRedrive) || interval > uint64(MaxRedrive/MaxReceive) {
		r.Fail("redriven delay %d, interval %d", delay, interval)
	}
	d.delay, d.interval = int64(delay), int64(interval)
	return end(r, "redriven")
}

// deadCause says why dead letters were removed. Numbers are stored.
type deadCause uint8

const (
	deadDeleted deadCause = 1 // somebody asked for it
	deadTooMany deadCause = 2 // dead.max_count of the group
	deadTooOld  deadCause = 3 // dead.max_age of the group
	// dead.max_bytes of the group
	deadTooLarge deadCause = 4
	deadCauses   deadCause = 5
)

var deadReasons = [deadCauses]string{deadDeleted: "deleted", deadTooMany: "more dead letters than dead.max_count",
	deadTooOld: "dead for longer than dead.max_age", deadTooLarge: "more bytes of dead letters than dead.max_bytes"}

// deadRemoved is the record of dead letters that are settled for good.
//
// Form: deadSet | cause (1).
type deadRemoved struct {
	deadSet
	cause deadCause
}

func (d *deadRemoved) append(b []byte) []byte {
	return append(d.deadSet.append(b), byte(d.cause))
}

func (d *deadRemoved) read(body []byte) error {
	r := mq.NewReader(body)
	d.deadSet.read(r)
	d.cause = deadCause(r.Byte())
	if r.Err() == nil && (d.cause == 0 || d.cause >= deadCauses) {
		r.Fail("cause %d", d.cause)
	}
	return end(r, "dead removed")
}

func (d *deadSet) trace(offset uint64, ev Event, f func(Event)) {
	for _, s := range d.spans {
		if offset >= s.from && offset < s.to {
			ev.At, ev.Group = d.now, d.group
			f(ev)
		}
	}
}

func (d *redriven) trace(offset uint64, f func(Event)) {
	i := int64(0)
	for _, s := range d.spans {
		if offset >= s.from && offset < s.to {
			at := d.now + d.delay + (i+int64(offset-s.from))*d.interval
			ev := Event{Type: EventRedriven}
			if at > d.now {
				ev.RetryAt = at
			}
			d.deadSet.trace(offset, ev, f)
			return
		}
		i += int64(s.to - s.from)
	}
}

func (d *deadRemoved) trace(offset uint64, f func(Event)) {
	d.deadSet.trace(offset, Event{Type: EventDeadRemoved, Reason: deadReasons[d.cause]}, f)
}
