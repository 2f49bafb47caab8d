// Package footer is what can be derived of a stretch of one segment's entries, so that questions about it need not read
// the entries again: which messages are in which lane, which idempotency keys they bring, which entries name which
// message.
//
// Goal. Every replica derives its own footers, from committed entries alone, and gets the same ones. They are a help and
// never the truth: whoever finds one missing, short or damaged reads the entries instead (Derive is: Builder and a
// walk). They go with their segment.
//
// A footer is a sequence of Parts, each over the entries that follow those of the part before. While a segment is open
// its replicas build the part at its end as entries become durable; a full part is written away. So memory is
// bounded by a part, and after a crash or a failover at most a part's worth of entries is read again. One that is
// sealed is Complete when its parts reach from base to end.
//
// Outline. Builder (builder.go) gives each record to every section; a section is one file here: lanes.go, keys.go,
// blocks.go, scheduled.go. To add one: a number below, a type with the methods of section, a field in sections, and a function
// that reads it from a Footer.
//
// Part: magic (4) | CRC-32C of the rest of the header (4) | version (1) | sections (1) | segment (8) | from (12) | to (12) |
// first stamp (8) | last stamp (8) | per section: id (1), length (4), CRC-32C (4) | the sections. Big endian.
package footer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/splashdam/splashdam/shared/mq"
)

// ErrDamaged says that bytes are no part of a footer, or not what was written.
var ErrDamaged = errors.New("footer: damaged")

// SectionID numbers the sections; numbers are stored.
type SectionID uint8

// The sections. Every part has all of them, empty ones too.
const (
	sectionLanes  SectionID = 1
	sectionKeys   SectionID = 2
	sectionBlocks SectionID = 3
	sectionNamed  SectionID = 4

	sectionScheduled SectionID = 5
)

const (
	partVersion = 2
	headerFixed = 4 + 4 + 1 + 1 + 8 + 2*mq.PositionSize + 8 + 8
	headerEach  = 1 + 4 + 4
	// maxSection bounds a section, so that a forged length does not make a reader allocate more.
	maxSection = 128 << 20
)

var (
	magic      = []byte("SDf1")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Part is one stretch of entries: its header, and where its sections are.
type Part struct {
	Segment mq.SegmentID
	// From is the position of the first entry, To that of the entry after the last.
	From, To mq.Position
	// First and Last are the stamps of its first and last entry.
	First, Last int64

	size     int64
	sections []place
	r        io.ReaderAt
	// kept says that only what Keep took is there: sections of r, and keys, which are nil if it did not take them.
	kept bool
	keys *keyForm
}

// place is where a section is, in r.
type place struct {
	id     SectionID
	at     int64
	length uint32
	sum    uint32
}

// Size is the length of the whole part: the next one begins there.
func (p *Part) Size() int64 { return p.size }

// ParsePart reads the header of a part that begins at an offset of r. Sections are read when they are asked for.
func ParsePart(r io.ReaderAt, at int64) (*Part, error) {
	var fixed [headerFixed]byte
	if _, err := r.ReadAt(fixed[:], at); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrDamaged, err)
	}
	n := int(fixed[9])
	if !bytes.Equal(fixed[:4], magic) || fixed[8] != partVersion {
		return nil, fmt.Errorf("%w: no part of version %d", ErrDamaged, partVersion)
	}
	header := make([]byte, headerFixed+n*headerEach)
	if _, err := r.ReadAt(header, at); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrDamaged, err)
	}
	if crc32.Checksum(header[8:], castagnoli) != binary.BigEndian.Uint32(header[4:]) {
		return nil, fmt.Errorf("%w: CRC of the header", ErrDamaged)
	}
	p := &Part{Segment: mq.SegmentID(binary.BigEndian.Uint64(header[10:])), From: mq.ParsePosition(header[18:]),
		To: mq.ParsePosition(header[30:]), First: int64(binary.BigEndian.Uint64(header[42:])),
		Last: int64(binary.BigEndian.Uint64(header[50:])), r: r}
	body := at + int64(len(header))
	for i := range n {
		h := header[headerFixed+i*headerEach:]
		s := place{id: SectionID(h[0]), at: body, length: binary.BigEndian.Uint32(h[1:]), sum: binary.BigEndian.Uint32(h[5:])}
		if s.length > maxSection {
			return nil, fmt.Errorf("%w: section %d has %d bytes", ErrDamaged, s.id, s.length)
		}
		p.sections = append(p.sections, s)
		body += int64(s.length)
	}
	p.size = body - at
	if !p.From.Before(p.To) {
		return nil, fmt.Errorf("%w: part from %s to %s", ErrDamaged, p.From, p.To)
	}
	return p, nil
}

// find is the place of a section.
func (p *Part) find(id SectionID) (place, error) {
	for _, s := range p.sections {
		if s.id == id {
			return s, nil
		}
	}
	if p.kept {
		return place{}, ErrNotKept
	}
	return place{}, fmt.Errorf("%w: section %d is missing", ErrDamaged, id)
}

// section reads a section whole and checks it.
func (p *Part) section(id SectionID) ([]byte, error) {
	s, err := p.find(id)
	if err != nil || s.length == 0 {
		return nil, err
	}
	b := make([]byte, s.length)
	if _, err := p.r.ReadAt(b, s.at); err != nil {
		return nil, fmt.Errorf("%w: section %d: %w", ErrDamaged, id, err)
	}
	if crc32.Checksum(b, castagnoli) != s.sum {
		return nil, fmt.Errorf("%w: CRC of section %d", ErrDamaged, id)
	}
	return b, nil
}

// appendPart appends a part; bodies are its sections in order of ids.
func appendPart(dst []byte, p *Part, ids []SectionID, bodies [][]byte) []byte {
	start := len(dst)
	dst = append(append(dst, magic...), 0, 0, 0, 0, partVersion, byte(len(ids)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Segment))
	dst = p.From.AppendKey(dst)
	dst = p.To.AppendKey(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.First))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Last))
	for i, id := range ids {
		dst = append(dst, byte(id))
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(bodies[i])))
		dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(bodies[i], castagnoli))
	}
	binary.BigEndian.PutUint32(dst[start+4:], crc32.Checksum(dst[start+8:], castagnoli))
	for _, b := range bodies {
		dst = append(dst, b...)
	}
	return dst
}

// Footer is the parts of one segment, in order and without gaps, from its base on.
type Footer struct {
	Segment mq.SegmentID
	// End is where the segment ends; nothing beyond it is taken. Nil while that is not decided.
	End *mq.Position
	// To is the position behind what the parts cover; the segment's base when there is none.
	To    mq.Position
	Parts []*Part
}

// New is a footer without parts, of a segment that begins at base.
func New(id mq.SegmentID, base mq.Position, end *mq.Position) *Footer {
	return &Footer{Segment: id, To: base, End: end}
}

// Take adds a part if it follows what is there; false for one that does not, or goes beyond the end.
func (f *Footer) Take(p *Part) bool {
	if p.Segment != f.Segment || p.From != f.To || f.End != nil && f.End.Before(p.To) {
		return false
	}
	f.Parts = append(f.Parts, p)
	f.To = p.To
	return true
}

// TakeBytes is Take for an encoded part in memory.
func (f *Footer) TakeBytes(b []byte) bool {
	p, err := ParsePart(bytes.NewReader(b), 0)
	return err == nil && f.Take(p)
}

// Read takes the parts from the front of a file of size bytes for as long as they are whole and can be taken. It returns
// the length of what it took.
func (f *Footer) Read(r io.ReaderAt, size int64) int64 {
	at := int64(0)
	for at < size {
		p, err := ParsePart(r, at)
		if err != nil || at+p.Size() > size || !f.Take(p) {
			break
		}
		at += p.Size()
	}
	return at
}
