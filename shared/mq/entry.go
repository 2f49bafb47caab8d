package mq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Entry is what one partition contributed to one group commit, with any mix of records: the unit of
// storage, of CRC, of replication and of commit.
//
// Form: version (1) | CRC-32C of all that follows (4) | segment (8) | position (12) | predecessor (12) |
// commit (12) | offsets taken (4) | stamp (8) | leader's boot (8) | records. Fixed fields are big endian.
type Entry struct {
	Segment SegmentID
	// At is this entry's position, Prev that of the entry before it in the chain (equal to At only in
	// the very first entry of a partition), so that a hole shows.
	At, Prev Position
	// Commit is the leader's commit position when the entry was made.
	Commit Position
	// Count is how many message offsets the entry takes, from At.Offset on.
	Count uint32
	// Stamp is the leader's time for every record in it, Unix nanoseconds; never less than the entry before.
	Stamp int64
	// Boot is the leader's boot number.
	Boot uint64
	// Records are (kind, version, length, body), see Records.
	Records []byte
}

const (
	entryVersion = 1
	// EntryHeaderSize is how many bytes an entry adds to its records.
	EntryHeaderSize = 1 + 4 + 8 + 3*PositionSize + 4 + 8 + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt says that bytes which were written whole are not what was written.
var ErrCorrupt = errors.New("mq: entry is damaged")

// Next is the position after the entry.
func (e *Entry) Next() Position { return e.At.Next(e.Count) }

// AppendTo appends the entry's binary form.
func (e *Entry) AppendTo(b []byte) []byte {
	start := len(b)
	var header [EntryHeaderSize]byte
	b = append(append(b, header[:]...), e.Records...)
	e.PutHeader(b[start:])
	return b
}

// PutHeader makes b an encoded entry: b holds EntryHeaderSize bytes of any content and then the records, so
// that a leader can gather records in place without copying them again. e.Records is not looked at.
func (e *Entry) PutHeader(b []byte) {
	h := append(b[:0], entryVersion, 0, 0, 0, 0)
	h = binary.BigEndian.AppendUint64(h, uint64(e.Segment))
	h = e.At.AppendKey(h)
	h = e.Prev.AppendKey(h)
	h = e.Commit.AppendKey(h)
	h = binary.BigEndian.AppendUint32(h, e.Count)
	h = binary.BigEndian.AppendUint64(h, uint64(e.Stamp))
	binary.BigEndian.AppendUint64(h, e.Boot)
	binary.BigEndian.PutUint32(b[1:], crc32.Checksum(b[5:], castagnoli))
}

// ParseEntry checks the CRC and reads an entry; Records shares memory with b.
func ParseEntry(b []byte) (Entry, error) {
	e, err := ParseEntryHeader(b)
	if err != nil {
		return e, err
	}
	if crc32.Checksum(b[5:], castagnoli) != binary.BigEndian.Uint32(b[1:]) {
		return e, fmt.Errorf("%w: CRC differs at %s of segment %d", ErrCorrupt, e.At, e.Segment)
	}
	return e, nil
}

// ParseEntryHeader reads an entry without checking its CRC, for bytes that this process made or has
// checked already.
func ParseEntryHeader(b []byte) (Entry, error) {
	if len(b) < EntryHeaderSize {
		return Entry{}, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	if b[0] != entryVersion {
		return Entry{}, fmt.Errorf("mq: entry version %d is not known", b[0])
	}
	return Entry{
		Segment: SegmentID(binary.BigEndian.Uint64(b[5:])),
		At:      ParsePosition(b[13:]),
		Prev:    ParsePosition(b[25:]),
		Commit:  ParsePosition(b[37:]),
		Count:   binary.BigEndian.Uint32(b[49:]),
		Stamp:   int64(binary.BigEndian.Uint64(b[53:])),
		Boot:    binary.BigEndian.Uint64(b[61:]),
		Records: b[EntryHeaderSize:],
	}, nil
}
