package frame

import (
	"encoding/binary"

	"github.com/splashdam/splashdam/shared/mq"
)

// Appended says that a batch is committed: its messages have the offsets from First on, but for those in Repeats, which
// have none of their own and are not counted.
type Appended struct {
	First uint64
	Count uint32
	Stamp int64 // Unix nanoseconds
	// Repeats are in the order of the batch.
	Repeats []Repeat
}

// Repeat is a message that was not stored because its idempotency key is known: where the one is that came first, or that
// it came with another content.
type Repeat struct {
	Ordinal uint32 // in the batch that was sent
	// Conflict says that the key came with another message; the other fields are about that one.
	Conflict bool
	// Scheduled says that Number is a schedule number, and not an offset.
	Scheduled bool
	Number    uint64
	Stamp     int64 // when the first one was stored
	Due       int64 // of one that is scheduled and pending still, else 0
}

const (
	repeatConflict  = 1
	repeatScheduled = 2
	// leastRepeat is how many bytes a repeat takes at least.
	leastRepeat = 5
)

// AppendTo appends the frame's body.
func (a *Appended) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, a.First)
	b = binary.AppendUvarint(b, uint64(a.Count))
	b = binary.AppendVarint(b, a.Stamp)
	return AppendRepeats(b, a.Repeats)
}

// Parse reads the frame's body.
func (a *Appended) Parse(b []byte) error {
	r := mq.NewReader(b)
	*a = Appended{First: r.Uvarint(), Count: r.Uint32(), Stamp: r.Varint()}
	a.Repeats = ReadRepeats(r)
	return r.Err()
}

// AppendRepeats appends a list of repeats, for every answer to a publish.
func AppendRepeats(b []byte, list []Repeat) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, x := range list {
		var flags byte
		if x.Conflict {
			flags |= repeatConflict
		}
		if x.Scheduled {
			flags |= repeatScheduled
		}
		b = binary.AppendUvarint(b, uint64(x.Ordinal))
		b = append(b, flags)
		b = binary.AppendUvarint(b, x.Number)
		b = binary.AppendVarint(b, x.Stamp)
		b = binary.AppendVarint(b, x.Due)
	}
	return b
}

// ReadRepeats reads what AppendRepeats wrote, nil for none.
func ReadRepeats(r *mq.Reader) []Repeat {
	n := r.Count(leastRepeat)
	if n == 0 {
		return nil
	}
	list := make([]Repeat, n)
	for i := range list {
		list[i].Ordinal = r.Uint32()
		flags := r.Byte()
		list[i].Conflict, list[i].Scheduled = flags&repeatConflict != 0, flags&repeatScheduled != 0
		list[i].Number, list[i].Stamp, list[i].Due = r.Uvarint(), r.Varint(), r.Varint()
	}
	return list
}
