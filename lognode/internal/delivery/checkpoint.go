package delivery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/splashdam/splashdam/shared/mq"
)

// A checkpoint is the state as one stream, cut into parts that are records of the journal. Its id is the hash of
// the stream, so parts of different checkpoints do not mix and damage shows.
//
// A part: version (1) | id (8) | part | parts | as-of position | partition | bytes of the stream.
// The stream: committed | time of the last decision | lowest kept offset | the range outside of which all are in the normal lane | texts | groups,
// each: id, configuration, generation, tally, by lane: fresh and early spans (gap, length), then the messages that
// are out by offset (gap, state and lane, perhaps the hash of the key, attempt and whether it has times, fence and times as
// distances, reason, consumer); carried messages, each: offset (gap), place (distance), size; and the sections beside.

const (
	checkpointVersion = 8
	// PartBytes is the most that a part may have: what is asked for beyond it is this.
	PartBytes = 256 << 10
	// maxParts bounds what LoadCheckpoint takes: well above MaxCheckpoint, which is an estimate.
	maxParts = 4096
	minPart  = 256
	hasKey   = 1 << 7 // in the first byte of a message
	partHead = 128    // more than the header of a part takes
)

// ErrCheckpoint says that parts are no whole checkpoint of this partition. An older one will do.
var ErrCheckpoint = errors.New("delivery: not a whole checkpoint")

// PartHeader says which part of which checkpoint a body is.
type PartHeader struct {
	ID          uint64
	Part, Parts uint32
	AsOf        mq.Position
	Partition   mq.PartitionID
}

// Checkpoint is the state as bodies of checkpoint records, each at most partBytes. asOf is where replay goes on: every
// record before it must be applied, and records of decisions that are applied already may follow it, since
// replaying those leads to the same state.
//
// beside is the state of other machines over the same journal, as of the same position; see TakeBeside.
func (m *Machine) Checkpoint(asOf mq.Position, partBytes int, beside ...Beside) [][]byte {
	stream := appendBeside(m.appendState(nil), beside)
	room := max(min(partBytes, PartBytes), minPart) - partHead
	parts := max(1, (len(stream)+room-1)/room)
	if parts > maxParts { // only with tiny parts
		room = (len(stream) + maxParts - 1) / maxParts
		parts = (len(stream) + room - 1) / room
	}
	id := xxhash.Sum64(stream)
	out := make([][]byte, parts)
	for i := range out {
		chunk := stream[:min(room, len(stream))]
		stream = stream[len(chunk):]
		b := append(make([]byte, 0, partHead+len(chunk)), checkpointVersion)
		b = binary.BigEndian.AppendUint64(b, id)
		b = binary.AppendUvarint(b, uint64(i))
		b = binary.AppendUvarint(b, uint64(parts))
		b = mq.AppendPosition(b, asOf)
		b = mq.AppendPartition(b, m.partition)
		out[i] = append(b, chunk...)
	}
	return out
}

// ParseCheckpointHeader reads which part a checkpoint record's body is.
func ParseCheckpointHeader(body []byte) (PartHeader, error) {
	h, _, err := parsePart(body)
	return h, err
}

func parsePart(body []byte) (PartHeader, []byte, error) {
	r := mq.NewReader(body)
	version := r.Byte()
	h := PartHeader{ID: r.Fixed64(), Part: r.Uint32(), Parts: r.Uint32(), AsOf: r.Position(), Partition: r.Partition()}
	if r.Err() == nil && (version != checkpointVersion || h.Parts == 0 || h.Parts > maxParts || h.Part >= h.Parts) {
		r.Fail("version %d, part %d of %d", version, h.Part, h.Parts)
	}
	if r.Err() != nil {
		return PartHeader{}, nil, fmt.Errorf("%w: %w", ErrCheckpoint, r.Err())
	}
	return h, r.Rest(), nil
}

// LoadCheckpoint makes a machine from all parts of one checkpoint, in order, and says where replay goes on. Whatever
// is wrong with them is an ErrCheckpoint: the caller takes an older one, or replays from the start.
func LoadCheckpoint(p mq.PartitionID, parts [][]byte) (*Machine, mq.Position, error) {
	var first PartHeader
	var stream []byte
	for i, body := range parts {
		h, chunk, err := parsePart(body)
		if err != nil {
			return nil, mq.Position{}, err
		}
		if i == 0 {
			first = h
		}
		want := first
		want.Part = uint32(i)
		if h != want || h.Partition != p || int(h.Parts) != len(parts) {
			return nil, mq.Position{}, fmt.Errorf("%w: part %d of %d at place %d of %d", ErrCheckpoint, h.Part, h.Parts, i, len(parts))
		}
		stream = append(stream, chunk...)
	}
	if len(parts) == 0 || xxhash.Sum64(stream) != first.ID {
		return nil, mq.Position{}, fmt.Errorf("%w: %d parts, %d bytes", ErrCheckpoint, len(parts), len(stream))
	}
	m := New(p)
	r := mq.NewReader(stream)
	m.readState(r)
	if err := m.readBeside(r); err != nil {
		return nil, mq.Position{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	m.next = first.AsOf
	return m, first.AsOf, nil
}

func (m *Machine) appendState(b []byte) []byte {
	b = binary.AppendUvarint(b, m.committed)
	b = binary.AppendVarint(b, m.clock)
	b = binary.AppendUvarint(b, m.lanes.base)
	from, to := m.lanes.special()
	b = binary.AppendUvarint(b, from)
	b = binary.AppendUvarint(b, to)
	b = binary.AppendUvarint(b, uint64(len(m.texts.all)))
	index := make(map[*text]uint64, len(m.texts.all))
	for _, s := range slices.Sorted(maps.Keys(m.texts.all)) {
		index[m.texts.all[s]] = uint64(len(index) + 1)
		b = mq.AppendBytes(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(m.groups)))
	for _, g := range m.sorted() {
		b = binary.AppendUvarint(b, uint64(g.ID))
		b = appendConfig(b, &g.GroupConfig)
		b = binary.AppendUvarint(b, g.generation)
		b = g.tally.append(b)
		for l := range g.fresh {
			b = binary.AppendUvarint(b, g.fresh[l])
			b = binary.AppendUvarint(b, uint64(len(g.early[l].spans)))
			at := g.fresh[l]
			for _, s := range g.early[l].spans {
				b = binary.AppendUvarint(b, s.from-at)
				b = binary.AppendUvarint(b, s.to-s.from)
				at = s.to
			}
		}
		b = g.appendOut(b, index)
		b = g.appendSnapshots(b)
	}
	return m.appendCarried(b)
}

func (t *tally) append(b []byte) []byte {
	b = binary.AppendUvarint(b, t.acked)
	b = binary.AppendUvarint(b, t.dropped)
	b = binary.AppendUvarint(b, t.discarded)
	b = binary.AppendUvarint(b, t.lapsed)
	return binary.AppendUvarint(b, t.filtered)
}

func readTally(r *mq.Reader) tally {
	return tally{acked: r.Uvarint(), dropped: r.Uvarint(), discarded: r.Uvarint(), lapsed: r.Uvarint(), filtered: r.Uvarint()}
}

// exportedFlag beside a state says that the dead letter was exported.
const exportedFlag = 8

func (g *group) appendOut(b []byte, index map[*text]uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(g.out)))
	var before message
	at := uint64(0)
	for _, off := range g.offsets(func(uint64, *message) bool { return true }) {
		x := *g.out[off]
		if x.grant != nil {
			x.until = x.grant.until
		}
		b = binary.AppendUvarint(b, off-at)
		first := byte(x.state) | byte(x.lane)<<4
		if x.exported {
			first |= exportedFlag
		}
		if x.keyKnown {
			first |= hasKey
		}
		b = append(b, first)
		if x.keyKnown {
			b = binary.BigEndian.AppendUint64(b, x.key)
		}
		if x.firstAt != 0 {
			b = binary.AppendUvarint(b, uint64(x.attempt)<<1|1)
			b = binary.AppendVarint(b, x.firstAt-before.firstAt)
			b = binary.AppendVarint(b, x.lastAt-x.firstAt)
		} else {
			b = binary.AppendUvarint(b, uint64(x.attempt)<<1)
			x.firstAt = before.firstAt
		}
		b = binary.AppendVarint(b, int64(x.fence.segment-before.fence.segment))
		b = binary.AppendVarint(b, int64(x.fence.counter-before.fence.counter))
		b = binary.AppendUvarint(b, index[x.reason]) // 0 for none
		b = binary.AppendUvarint(b, index[x.by])
		if x.state == StateLeased {
			b = binary.AppendUvarint(b, index[x.grant.by])
		}
		if x.state != StateReady {
			b = binary.AppendVarint(b, x.until-before.until)
		} else {
			x.until = before.until
		}
		before, at = x, off+1
	}
	return b
}

func (m *Machine) readState(r *mq.Reader) {
	if m.committed = r.Uvarint(); m.committed > math.MaxInt64 {
		r.Fail("committed %d", m.committed)
	}
	if m.clock = r.Varint(); outside(m.clock) {
		r.Fail("the last decision at %d", m.clock)
	}
	kept, from, to := r.Uvarint(), r.Uvarint(), r.Uvarint()
	if r.Err() == nil && (kept > math.MaxInt64 || to > math.MaxInt64 || from > to || from < to && from < kept) {
		r.Fail("lanes from %d to %d, kept from %d", from, to, kept)
	}
	m.lanes.base = kept
	if from < to {
		m.lanes.end, m.unknown = from, to
	}
	all := []*text{nil}
	for range r.Count(1) {
		all = append(all, m.texts.take(r.String()))
	}
	for range r.Count(40) {
		if !m.readGroup(r, all) {
			break
		}
	}
	m.readCarried(r)
	for _, x := range all {
		m.texts.drop(x) // those that nothing uses go
	}
}

func (m *Machine) readGroup(r *mq.Reader, all []*text) bool {
	id := mq.GroupID(r.Uvarint())
	config := readConfig(r)
	config.ID = id
	generation, tally := r.Uvarint(), readTally(r)
	if r.Err() == nil && (m.groups[id] != nil || config.Start > m.committed) {
		r.Fail("group %d, start %d", id, config.Start)
	}
	if r.Err() != nil {
		return false
	}
	g := m.newGroup(config)
	g.generation, g.tally = generation, tally
	for l := range g.fresh {
		if !m.readFresh(r, g, l) {
			return false
		}
	}
	if !m.readOut(r, g, all) {
		return false
	}
	if g.readSnapshots(r); r.Err() != nil {
		return false
	}
	g.recount()
	return true
}

func (m *Machine) readFresh(r *mq.Reader, g *group, l int) bool {
	at := r.Uvarint()
	if r.Err() == nil && (at < g.Start || at > m.committed) {
		r.Fail("group %d is fresh from %d", g.ID, at)
	}
	g.fresh[l] = at
	for i := range r.Count(2) {
		from := at + r.Uvarint()
		to := from + r.Uvarint()
		if from <= at || to <= from || to > m.committed {
			r.Fail("early span %d of group %d", i, g.ID)
			return false
		}
		g.early[l].spans = append(g.early[l].spans, span{from, to})
		m.spans++
		at = to
	}
	return r.Err() == nil
}

func (m *Machine) readOut(r *mq.Reader, g *group, all []*text) bool {
	var before message
	at := uint64(0)
	pick := func() *text {
		i := r.Uvarint()
		if i >= uint64(len(all)) {
			r.Fail("text %d of %d", i, len(all))
			return nil
		}
		return all[i]
	}
	n := r.Count(7)
	g.out = make(map[uint64]*message, n)
	for range n {
		off := at + r.Uvarint()
		first := r.Byte()
		x := message{state: State(first & 7), exported: first&exportedFlag != 0, lane: mq.Lane(first &^ hasKey >> 4), keyKnown: first&hasKey != 0}
		if x.keyKnown {
			x.key = r.Fixed64()
		}
		times := x.readAttempt(r, before.firstAt)
		x.fence.segment = before.fence.segment + uint64(r.Varint())
		x.fence.counter = before.fence.counter + uint64(r.Varint())
		x.reason, x.by = pick(), pick()
		x.until = before.until
		var lessee *text
		if x.state == StateLeased {
			lessee = pick()
		}
		if x.state != StateReady {
			x.until += r.Varint()
		}
		if r.Err() == nil && (off < at || off < g.Start || x.state > StateDead || x.exported && x.state != StateDead || x.lane >= mq.Lanes || g.isFresh(x.lane, off) ||
			outside(x.firstAt) || outside(x.lastAt) || x.until > maxSpan*2 || x.until < -maxSpan*2 || x.fence.counter > math.MaxInt64) {
			r.Fail("message %d of group %d", off, g.ID)
		}
		if r.Err() != nil {
			return false
		}
		m.restore(g, off, x, lessee)
		if !times {
			x.firstAt = before.firstAt
		}
		before, at = x, off+1
	}
	return true
}

// readAttempt reads the attempt and, if there are some, the times.
func (x *message) readAttempt(r *mq.Reader, before int64) (times bool) {
	v := r.Uvarint()
	if v>>1 > math.MaxUint32 {
		r.Fail("attempt %d", v>>1)
	}
	if x.attempt, times = uint32(v>>1), v&1 != 0; times {
		x.firstAt = before + r.Varint()
		x.lastAt = x.firstAt + r.Varint()
	}
	return times
}

// restore puts a message of a checkpoint into its state.
func (m *Machine) restore(g *group, off uint64, from message, lessee *text) {
	x := m.newMessage()
	*x = message{state: StateReady, lane: from.lane, key: from.key, keyKnown: from.keyKnown, attempt: from.attempt, fence: from.fence,
		firstAt: from.firstAt, lastAt: from.lastAt, reason: from.reason.hold(), by: from.by.hold()}
	g.out[off] = x
	m.messages++
	switch from.state {
	case StateLeased:
		g.leaseChanged(off, x, x.attempt, x.fence, from.until, lessee.hold(), 0, 0)
	case StateReady:
		g.makeReady(off, x)
	case StateWaiting:
		x.until = from.until
		g.enter(x, StateWaiting)
		m.deadline(deadline{due: x.until, id: uint64(g.ID), off: off})
	case StateDead:
		x.until, x.exported = from.until, from.exported
		if x.exported {
			g.exported++
		}
		g.enter(x, StateDead)
	}
}
