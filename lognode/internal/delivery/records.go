package delivery

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/splashdam/splashdam/shared/mq"
)

// Run is a range of messages handed out with one attempt number. Counter is the lease counter of the first and
// rises by one per message.
type Run struct {
	First   uint64
	Count   uint32
	Attempt uint32
	Counter uint64
}

// delivered is the record of a hand-over.
//
// Form: group | generation | segment number | now (signed) | lease | first counter | consumer | flags (1: keys) | runs,
// each gap from the end of the run before | count | attempt; with keys, the hash (8) of each message's key. Offsets ascend,
// counters run through.
type delivered struct {
	group      mq.GroupID
	generation uint64
	segment    uint64
	now        int64
	lease      int64 // until = now + lease
	counter    uint64
	consumer   string
	runs       []Run
	keys       []uint64 // of each message, 0 for one without; nil where the group does not order by key
}

// key is the key of the i-th message.
func (d *delivered) key(i int) (uint64, bool) {
	if d.keys == nil {
		return 0, false
	}
	return d.keys[i], true
}

func (d *delivered) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(d.group))
	b = binary.AppendUvarint(b, d.generation)
	b = binary.AppendUvarint(b, d.segment)
	b = binary.AppendVarint(b, d.now)
	b = binary.AppendUvarint(b, uint64(d.lease))
	b = binary.AppendUvarint(b, d.counter)
	b = mq.AppendBytes(b, d.consumer)
	flags := byte(0)
	if d.keys != nil {
		flags = 1
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(len(d.runs)))
	at := uint64(0)
	for _, r := range d.runs {
		b = binary.AppendUvarint(b, r.First-at)
		b = binary.AppendUvarint(b, uint64(r.Count))
		b = binary.AppendUvarint(b, uint64(r.Attempt))
		at = r.First + uint64(r.Count)
	}
	for _, key := range d.keys {
		b = binary.BigEndian.AppendUint64(b, key)
	}
	return b
}

// maxSpan bounds times and leases in records, so that sums of two never overflow.
const maxSpan = math.MaxInt64 / 4

func (d *delivered) read(body []byte) error {
	r := mq.NewReader(body)
	d.group, d.generation, d.segment = mq.GroupID(r.Uvarint()), r.Uvarint(), r.Uvarint()
	d.now, d.lease, d.counter = readTime(r), int64(r.Uvarint()), r.Uvarint()
	d.consumer = r.String()
	flags := r.Byte()
	n := r.Count(3)
	d.runs, d.keys = d.runs[:0], nil
	at, total := uint64(0), uint64(0)
	for range n {
		gap := r.Uvarint()
		x := Run{First: at + gap, Count: r.Uint32(), Attempt: r.Uint32(), Counter: d.counter + total}
		total += uint64(x.Count)
		if x.Count == 0 || total > MaxReceive || x.First < at || x.First > math.MaxInt64 {
			r.Fail("delivered run %d+%d", x.First, x.Count)
			break
		}
		at = x.First + uint64(x.Count)
		d.runs = append(d.runs, x)
	}
	if flags > 1 {
		r.Fail("delivered flags %d", flags)
	}
	if flags == 1 && r.Err() == nil && uint64(r.Len()) == 8*total {
		d.keys = make([]uint64, total)
		for i := range d.keys {
			d.keys[i] = r.Fixed64()
		}
	}
	if d.lease < 0 || d.lease > maxSpan || d.counter > math.MaxInt64 {
		r.Fail("delivered lease %d, counter %d", d.lease, d.counter)
	}
	return end(r, "delivered")
}

// outcome says what a settled record does to its messages. Numbers are stored.
type outcome uint8

const (
	outAcked    outcome = 1 // done
	outNacked   outcome = 2 // failed by its consumer, ready again at due
	outExpired  outcome = 3 // its lease ran out, ready again at due
	outDead     outcome = 4 // failed for good
	outExtended outcome = 5 // leased until header.until
	outReturned outcome = 6 // was not handed out after all, or was and nobody began to work on it
	outDropped  outcome = 7 // removed by retention before it was settled
	// outPostponed is outNacked without having counted: the attempt in its marks is the one before.
	outPostponed outcome = 8
	outLapsed    outcome = 9  // past its TTL before it could be handed out
	outFiltered  outcome = 10 // not wanted by the group's filter
	outcomes     outcome = 11
)

// long says whether the runs carry attempt, fence and due.
func (o outcome) long() bool { return o != outAcked && o != outLapsed && !o.ranges() }

// ranges says whether the marks may be as long as a backlog: what they name need not be out.
func (o outcome) ranges() bool { return o == outDropped || o == outFiltered }

// mark is a range of messages with one outcome. The fence is that of the first, its counter rises by one per
// message, so a receipt without a known lease leaves its fence in the journal.
type mark struct {
	first   uint64
	count   uint64
	attempt uint32
	fence   fence
	due     int64
}

// settled is the record of what became of messages.
//
// Form: group | generation | now (signed) | outcome (1) | until - now (signed) | reason | marks, each signed
// distance from the end of the mark before | count, and but for acked, lapsed and ranges: attempt | segment number | counter
// (signed, from the end of the mark before) | due - now (signed).
type settled struct {
	group      mq.GroupID
	generation uint64
	now        int64
	outcome    outcome
	until      int64
	reason     string
	marks      []mark
	messages   uint64
}

func (s *settled) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.group))
	b = binary.AppendUvarint(b, s.generation)
	b = binary.AppendVarint(b, s.now)
	b = append(b, byte(s.outcome))
	b = binary.AppendVarint(b, s.until-s.now)
	b = mq.AppendBytes(b, s.reason)
	b = binary.AppendUvarint(b, uint64(len(s.marks)))
	at, counter := uint64(0), uint64(0)
	for i := range s.marks {
		x := &s.marks[i]
		b = binary.AppendVarint(b, int64(x.first-at))
		b = binary.AppendUvarint(b, x.count)
		at = x.first + x.count
		if s.outcome.long() {
			b = binary.AppendUvarint(b, uint64(x.attempt))
			b = binary.AppendUvarint(b, x.fence.segment)
			b = binary.AppendVarint(b, int64(x.fence.counter-counter))
			b = binary.AppendVarint(b, x.due-s.now)
			counter = x.fence.counter + x.count
		}
	}
	return b
}

func (s *settled) read(body []byte) error {
	r := mq.NewReader(body)
	s.group, s.generation, s.now = mq.GroupID(r.Uvarint()), r.Uvarint(), readTime(r)
	s.outcome = outcome(r.Byte())
	s.until = s.now + readTime(r)
	s.reason = r.String()
	if r.Err() == nil && (s.outcome == 0 || s.outcome >= outcomes) {
		r.Fail("settled outcome %d", s.outcome)
	}
	n := r.Count(2)
	s.marks, s.messages = s.marks[:0], 0
	at, counter := uint64(0), uint64(0)
	for range n {
		x := mark{first: at + uint64(r.Varint()), count: r.Uvarint()}
		if s.outcome.long() {
			x.attempt, x.fence.segment = r.Uint32(), r.Uvarint()
			x.fence.counter = counter + uint64(r.Varint())
			x.due = s.now + readTime(r)
			counter = x.fence.counter + x.count
		}
		s.messages += min(x.count, math.MaxInt32)
		if x.count == 0 || x.first > math.MaxInt64 || x.count > math.MaxInt64 || x.fence.counter > math.MaxInt64 ||
			!s.outcome.ranges() && s.messages > MaxReceive {
			r.Fail("settled mark %d+%d", x.first, x.count)
			break
		}
		at = x.first + x.count
		s.marks = append(s.marks, x)
	}
	return end(r, "settled")
}

// outside says that a time is beyond what records may hold.
func outside(t int64) bool { return t > maxSpan || t < -maxSpan }

func readTime(r *mq.Reader) int64 {
	v := r.Varint()
	if outside(v) {
		r.Fail("time %d", v)
		return 0
	}
	return v
}

func end(r *mq.Reader, what string) error {
	if r.Err() == nil && r.Len() > 0 {
		r.Fail("%d bytes over", r.Len())
	}
	if r.Err() != nil {
		return fmt.Errorf("delivery: %s record: %w", what, r.Err())
	}
	return nil
}

// note adds a message to the settled record that is being built; one that does not fit begins another, so the order
// of decisions is the order of records. The caller has changed the state already.
func (m *Machine) note(g *group, now int64, o outcome, until int64, reason string, x mark) {
	s := &m.open
	m.clock = now
	if len(s.marks) > 0 && (s.group != g.ID || s.outcome != o || s.now != now || s.until != until || s.reason != reason ||
		s.messages >= MaxReceive) {
		m.flush()
	}
	if len(s.marks) == 0 {
		s.group, s.generation, s.now, s.outcome, s.until, s.reason = g.ID, g.generation, now, o, until, reason
	} else if last := &s.marks[len(s.marks)-1]; last.first+last.count == x.first && last.attempt == x.attempt &&
		last.due == x.due && (!o.long() || last.fence.plus(uint32(last.count)) == x.fence) {
		last.count += x.count
		s.messages += x.count
		return
	}
	s.marks = append(s.marks, x)
	s.messages += x.count
}

// flush writes the settled record that is being built.
func (m *Machine) flush() {
	if len(m.open.marks) == 0 {
		return
	}
	m.scratch = m.open.append(m.scratch[:0])
	m.open.marks, m.open.messages = m.open.marks[:0], 0
	m.write(mq.KindSettled, m.scratch, true)
}

func (m *Machine) write(kind mq.Kind, body []byte, urgent bool) {
	m.records = mq.AppendRecord(m.records, kind, body)
	m.urgent = m.urgent || urgent
}
