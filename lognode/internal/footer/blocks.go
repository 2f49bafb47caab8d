package footer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sort"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// blockBytes and blockEntries are where a block of entries ends: as much as is read to find one record.
	blockBytes   = 128 << 10
	blockEntries = 1024
	// bucketBits: the index is cut by offset into buckets of 4,096, of which a look-up reads one.
	bucketBits = 12
	// wideRange is the length from which a range is kept apart instead of in all its buckets.
	wideRange = 1 << 16
)

// blocks is the index by which a trace finds its entries: which blocks of entries name which messages. Ranges that were
// handed out or settled together take a few bytes, however long; at worst, every message by itself and at random,
// 3 to 4 bytes for each time that a record names it.
//
// Form of the section: number of blocks | per block: offset (from the one before) | seq (from the one before where the
// offset is the same). The ranges are in a section of their own, see named.
type blocks struct {
	list    []mq.Position // where each block begins
	bytes   int           // of the last block
	entries int
	ranges  []span
	namer   delivery.Namer
	block   uint32 // the last one
	note    func(first, count uint64)
}

// span is a range of message offsets that a block names.
type span struct {
	first, count uint64
	block        uint32
}

func (*blocks) id() SectionID { return sectionBlocks }

// enter is told of every entry before its records.
func (x *blocks) enter(e *mq.Entry, size int) {
	if len(x.list) == 0 || x.bytes >= blockBytes || x.entries >= blockEntries {
		x.list = append(x.list, e.At)
		x.bytes, x.entries = 0, 0
	}
	x.bytes += size
	x.entries++
}

func (x *blocks) add(_ *mq.Entry, _ uint64, rec mq.Record) {
	if x.note == nil {
		x.note = x.name
	}
	x.namer.Each(rec, x.note)
}

func (x *blocks) name(first, count uint64) {
	block := uint32(len(x.list) - 1)
	if n := len(x.ranges); n > 0 {
		last := &x.ranges[n-1]
		if last.block == block && first >= last.first && first-last.first <= last.count && count < math.MaxUint32 {
			last.count = max(last.count, first-last.first+count)
			return
		}
	}
	x.ranges = append(x.ranges, span{first, count, block})
}

func (x *blocks) memory() int { return 12*len(x.list) + 24*len(x.ranges) }

func (x *blocks) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(x.list)))
	last := mq.Position{}
	for _, at := range x.list {
		b = binary.AppendUvarint(b, at.Offset-last.Offset)
		if at.Offset != last.Offset {
			last.Seq = 0
		}
		b = binary.AppendUvarint(b, uint64(at.Seq-last.Seq))
		last = at
	}
	return b
}

func (x *blocks) reset() { *x = blocks{} }

// named is the section of ranges.
//
// Form: length of the directory (4) | its CRC-32C (4) | directory | buckets. Directory: number of wide ranges | per wide
// range: first | count | block; number of buckets | per bucket: number (from the one before) | length | CRC-32C (4).
// Bucket: per block that names something in it: block (from the one before) | number of ranges | per range: first
// (from the end of the one before) | count. A look-up reads the directory and one bucket, and checks both.
type named struct{ *blocks }

func (named) id() SectionID                    { return sectionNamed }
func (named) add(*mq.Entry, uint64, mq.Record) {}
func (named) memory() int                      { return 0 }
func (named) reset()                           {}
func (x named) append(b []byte) []byte {
	var pieces []span
	directory := wide(x.ranges, func(s span) { pieces = append(pieces, s) })
	slices.SortFunc(pieces, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first>>bucketBits, b.first>>bucketBits), cmp.Compare(a.block, b.block), cmp.Compare(a.first, b.first))
	})
	var buckets, heads []byte
	n, last := 0, uint64(0)
	for len(pieces) > 0 {
		bucket := pieces[0].first >> bucketBits
		end := sort.Search(len(pieces), func(i int) bool { return pieces[i].first>>bucketBits > bucket })
		start := len(buckets)
		buckets = appendBucket(buckets, bucket<<bucketBits, pieces[:end])
		heads = binary.AppendUvarint(heads, bucket-last)
		heads = binary.AppendUvarint(heads, uint64(len(buckets)-start))
		heads = binary.BigEndian.AppendUint32(heads, crc32.Checksum(buckets[start:], castagnoli))
		last, pieces = bucket, pieces[end:]
		n++
	}
	directory = binary.AppendUvarint(directory, uint64(n))
	directory = append(directory, heads...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(directory)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(directory, castagnoli))
	return append(append(b, directory...), buckets...)
}

// wide appends the ranges that are kept apart, and gives the others to f in pieces that lie in one bucket each.
func wide(ranges []span, f func(span)) []byte {
	var out []byte
	n := 0
	for _, s := range ranges {
		if s.count >= wideRange {
			out = binary.AppendUvarint(out, s.first)
			out = binary.AppendUvarint(out, s.count)
			out = binary.AppendUvarint(out, uint64(s.block))
			n++
			continue
		}
		for s.count > 0 {
			most := min(s.count, 1<<bucketBits-s.first&(1<<bucketBits-1))
			f(span{s.first, most, s.block})
			s.first, s.count = s.first+most, s.count-most
		}
	}
	return append(binary.AppendUvarint(nil, uint64(n)), out...)
}

// appendBucket appends the pieces of one bucket, which are sorted by block and offset.
func appendBucket(b []byte, base uint64, pieces []span) []byte {
	last := uint32(0)
	for len(pieces) > 0 {
		block := pieces[0].block
		end := sort.Search(len(pieces), func(i int) bool { return pieces[i].block > block })
		merged := pieces[:1]
		for _, s := range pieces[1:end] {
			if m := &merged[len(merged)-1]; s.first <= m.first+m.count {
				m.count = max(m.count, s.first-m.first+s.count)
			} else {
				merged = append(merged, s)
			}
		}
		b = binary.AppendUvarint(b, uint64(block-last))
		b = binary.AppendUvarint(b, uint64(len(merged)))
		at := base
		for _, s := range merged {
			b = binary.AppendUvarint(b, s.first-at)
			b = binary.AppendUvarint(b, s.count)
			at = s.first + s.count
		}
		last, pieces = block, pieces[end:]
	}
	return b
}

// Span is a stretch of entries, from the entry at From to the one before To.
type Span struct{ From, To mq.Position }

// Naming lists the stretches whose records may name a message, in order.
func (f *Footer) Naming(offset uint64) ([]Span, error) {
	var out []Span
	for _, p := range f.Parts {
		named, err := p.naming(offset)
		if err != nil || len(named) == 0 {
			if err != nil {
				return nil, err
			}
			continue
		}
		list, err := p.blockList()
		if err != nil {
			return nil, err
		}
		if out, err = appendSpans(out, list, p.To, named); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Naming is Footer.Naming for the part that is being built. It looks at each range: at most partMemory.
func (b *Builder) Naming(offset uint64) []Span {
	var named []uint32
	for _, s := range b.blocks.ranges {
		if offset >= s.first && offset-s.first < s.count {
			named = append(named, s.block)
		}
	}
	out, _ := appendSpans(nil, b.blocks.list, b.to, named)
	return out
}

// appendSpans appends the blocks with the given numbers; neighbours become one.
func appendSpans(out []Span, list []mq.Position, end mq.Position, named []uint32) ([]Span, error) {
	slices.Sort(named)
	for _, n := range slices.Compact(named) {
		if int(n) >= len(list) {
			return nil, fmt.Errorf("%w: block %d of %d", ErrDamaged, n, len(list))
		}
		s := Span{list[n], end}
		if int(n)+1 < len(list) {
			s.To = list[n+1]
		}
		if k := len(out); k > 0 && out[k-1].To == s.From {
			out[k-1].To = s.To
		} else {
			out = append(out, s)
		}
	}
	return out, nil
}

func (p *Part) blockList() ([]mq.Position, error) {
	form, err := p.section(sectionBlocks)
	if err != nil {
		return nil, err
	}
	r := mq.NewReader(form)
	list := make([]mq.Position, r.Count(2))
	last := mq.Position{}
	for i := range list {
		if d := r.Uvarint(); d > 0 {
			last = mq.Position{Offset: last.Offset + d}
		}
		last.Seq += r.Uint32()
		list[i] = last
	}
	if r.Err() != nil {
		return nil, fmt.Errorf("%w: blocks: %w", ErrDamaged, r.Err())
	}
	return list, nil
}

// naming is the blocks of the part that name an offset.
func (p *Part) naming(offset uint64) ([]uint32, error) {
	s, err := p.find(sectionNamed)
	if err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := p.r.ReadAt(head[:], s.at); err != nil {
		return nil, fmt.Errorf("%w: directory: %w", ErrDamaged, err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > s.length-min(8, s.length) {
		return nil, fmt.Errorf("%w: a directory of %d bytes", ErrDamaged, n)
	}
	directory, err := p.checked(s.at+8, n, binary.BigEndian.Uint32(head[4:]))
	if err != nil {
		return nil, err
	}
	r := mq.NewReader(directory)
	var out []uint32
	for range r.Count(3) {
		first, count, block := r.Uvarint(), r.Uvarint(), r.Uint32()
		if offset >= first && offset-first < count {
			out = append(out, block)
		}
	}
	bucket, at := uint64(0), s.at+8+int64(n)
	for range r.Count(6) {
		bucket += r.Uvarint()
		length, sum := r.Uint32(), r.Take(4)
		if r.Err() != nil || bucket > offset>>bucketBits {
			break
		}
		if bucket == offset>>bucketBits {
			if at+int64(length) > s.at+int64(s.length) {
				return nil, fmt.Errorf("%w: bucket of %d bytes", ErrDamaged, length)
			}
			body, err := p.checked(at, length, binary.BigEndian.Uint32(sum))
			if err != nil {
				return nil, err
			}
			return searchBucket(out, body, bucket<<bucketBits, offset)
		}
		at += int64(length)
	}
	if r.Err() != nil {
		return nil, fmt.Errorf("%w: directory: %w", ErrDamaged, r.Err())
	}
	return out, nil
}

// checked reads bytes that have a CRC of their own.
func (p *Part) checked(at int64, length, sum uint32) ([]byte, error) {
	b := make([]byte, length)
	if _, err := p.r.ReadAt(b, at); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if crc32.Checksum(b, castagnoli) != sum {
		return nil, fmt.Errorf("%w: CRC of the index", ErrDamaged)
	}
	return b, nil
}

// searchBucket appends the blocks of a bucket that name offset.
func searchBucket(out []uint32, body []byte, base, offset uint64) ([]uint32, error) {
	r := mq.NewReader(body)
	block := uint32(0)
	for r.Len() > 0 && r.Err() == nil {
		block += r.Uint32()
		at, hit := base, false
		for range r.Count(2) {
			first := at + r.Uvarint()
			count := r.Uvarint()
			hit = hit || offset >= first && offset-first < count
			at = first + count
		}
		if hit {
			out = append(out, block)
		}
	}
	if r.Err() != nil {
		return nil, fmt.Errorf("%w: bucket: %w", ErrDamaged, r.Err())
	}
	return out, nil
}
