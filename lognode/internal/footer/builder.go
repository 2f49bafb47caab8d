package footer

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// partBytes is how much journal a part covers at most, about: after a crash that much is read again.
	partBytes = 64 << 20
	// partMemory is where a part ends earlier because its sections have grown, in bytes of memory.
	partMemory = 8 << 20
)

// section is one thing that is derived. add is given every record with the offset of its first message, and must not
// fail on data; what it can't read it must treat so that nobody is misled (say: name every message).
type section interface {
	id() SectionID
	add(e *mq.Entry, first uint64, rec mq.Record)
	// memory is about how many bytes it holds, append its form for the part that ends, reset the begin of another.
	memory() int
	append(b []byte) []byte
	reset()
}

// Builder derives the parts of one segment from its entries. The zero value is of no use.
type Builder struct {
	segment     mq.SegmentID
	from, to    mq.Position
	first, last int64
	bytes       int
	lanes       lanes
	keys        keys
	blocks      blocks
	scheduled   scheduled
	sections    []section
}

// NewBuilder begins a part at a position.
func NewBuilder(id mq.SegmentID, from mq.Position) *Builder {
	b := &Builder{segment: id, from: from, to: from}
	b.scheduled.blocks = &b.blocks
	b.sections = []section{&b.lanes, &b.keys, &b.blocks, named{&b.blocks}, &b.scheduled}
	return b
}

// To is the position of the entry that Add takes next.
func (b *Builder) To() mq.Position { return b.to }

// From is where the part that is being built begins.
func (b *Builder) From() mq.Position { return b.from }

// Add takes the entry at To, which has size bytes. An entry at another place, or one whose records can't be read, is an
// error and the builder is of no more use.
func (b *Builder) Add(e *mq.Entry, size int) error {
	if e.At != b.to || e.Segment != b.segment {
		return fmt.Errorf("footer: entry at %s of segment %d, not %s of %d", e.At, e.Segment, b.to, b.segment)
	}
	if b.from == b.to {
		b.first = e.Stamp
	}
	b.blocks.enter(e, size)
	at := e.At.Offset
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return fmt.Errorf("footer: entry at %s: %w", e.At, err)
		}
		for _, s := range b.sections {
			s.add(e, at, rec)
		}
		n, err := taken(rec)
		if err != nil {
			return fmt.Errorf("footer: entry at %s: %w", e.At, err)
		}
		at += uint64(n)
	}
	b.to, b.last = e.Next(), e.Stamp
	b.bytes += size
	return nil
}

// taken is how many offsets a record takes.
func taken(rec mq.Record) (int, error) {
	if rec.Kind == mq.KindMessages {
		n, _ := mq.BatchShape(rec.Body)
		return n, nil
	}
	b, _, _, ok, err := mq.MessagesOf(rec)
	if !ok {
		return 0, err
	}
	return b.Count, err
}

// Full says that the part should end here.
func (b *Builder) Full() bool {
	if b.bytes >= partBytes {
		return true
	}
	return b.memory() >= partMemory
}

// memory is about how many bytes the part takes while it grows.
func (b *Builder) memory() int {
	n := 0
	for _, s := range b.sections {
		n += s.memory()
	}
	return n
}

// Encode is the part as it is now; nil without entries.
func (b *Builder) Encode() []byte { return b.encode(b.sections) }

func (b *Builder) encode(sections []section) []byte {
	if b.from == b.to {
		return nil
	}
	ids := make([]SectionID, len(sections))
	bodies := make([][]byte, len(sections))
	for i, s := range sections {
		ids[i], bodies[i] = s.id(), s.append(nil)
	}
	return appendPart(nil, &Part{Segment: b.segment, From: b.from, To: b.to, First: b.first, Last: b.last}, ids, bodies)
}

// Next ends the part, which is returned encoded, and begins the next one; nil without entries.
func (b *Builder) Next() []byte { return b.next(b.sections) }

// NextIndex is Next with no more in the part than what Footer.Naming needs.
func (b *Builder) NextIndex() []byte { return b.next([]section{&b.blocks, named{&b.blocks}}) }

func (b *Builder) next(sections []section) []byte {
	out := b.encode(sections)
	b.from, b.bytes = b.to, 0
	for _, s := range b.sections {
		s.reset()
	}
	return out
}
