package archive

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"sort"

	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// maxFooter bounds a footer: an index of more than 100 GB.
	maxFooter = 32 << 20
	// maxBlock bounds a block: the largest entry, and what was there when it came.
	maxBlock = 32 << 20
)

// bytes reads a part of an object.
func (a *Archive) bytes(ctx context.Context, o *Object, at, length int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	r, err := a.bucket.NewRangeReader(ctx, o.Key, at, length, nil)
	if err != nil {
		return nil, unavailable("reading from the archive", err)
	}
	defer r.Close()
	b := make([]byte, length)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, unavailable("reading from the archive", err)
	}
	return b, nil
}

// tail reads the end of an object.
func (a *Archive) tail(ctx context.Context, o *Object) (length int64, footerCRC, bodyCRC uint32, err error) {
	if o.Size < int64(len(magic))+tailSize {
		return 0, 0, 0, damaged(o, "it has %d bytes", o.Size)
	}
	b, err := a.bytes(ctx, o, o.Size-tailSize, tailSize)
	if err != nil {
		return 0, 0, 0, err
	}
	n := binary.BigEndian.Uint64(b)
	if string(b[16:]) != magic || n > maxFooter || int64(n) > o.Size-tailSize-int64(len(magic)) {
		return 0, 0, 0, damaged(o, "it does not end as it should")
	}
	return int64(n), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]), nil
}

// footer reads the footer, which must be of the segment that the name says.
func (a *Archive) footer(ctx context.Context, o *Object) (*footer, error) {
	if f, ok := a.footers.get(place{key: o.Key}); ok {
		return f, nil
	}
	n, crc, _, err := a.tail(ctx, o)
	if err != nil {
		return nil, err
	}
	text, err := a.bytes(ctx, o, o.Size-tailSize-n, n)
	if err != nil {
		return nil, err
	}
	f := &footer{}
	if crc32.Checksum(text, castagnoli) != crc {
		return nil, damaged(o, "the CRC of its footer differs")
	}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, damaged(o, "its footer: %w", err)
	}
	if f.Segment != o.Segment || f.Number != o.Number || f.Base != o.Base || f.End != o.End || f.Cluster != a.cluster || len(f.Blocks) == 0 {
		return nil, damaged(o, "it holds segment %d, %s to %s", f.Segment, f.Base, f.End)
	}
	for _, b := range f.Blocks {
		if b.At < int64(len(magic)) || b.Bytes < 0 || b.Bytes > maxBlock || b.At > o.Size-b.Bytes {
			return nil, damaged(o, "a block of %d bytes at %d", b.Bytes, b.At)
		}
	}
	a.footers.put(place{key: o.Key}, f, int(n))
	return f, nil
}

// verify reads the whole object.
func (a *Archive) verify(ctx context.Context, o *Object) error {
	if _, err := a.footer(ctx, o); err != nil {
		return err
	}
	n, _, want, err := a.tail(ctx, o)
	if err != nil {
		return err
	}
	r, err := a.bucket.NewRangeReader(ctx, o.Key, 0, o.Size-tailSize-n, nil)
	if err != nil {
		return unavailable("reading from the archive", err)
	}
	defer r.Close()
	h := crc32.New(castagnoli)
	if _, err := io.CopyN(h, r, o.Size-tailSize-n); err != nil {
		return unavailable("reading from the archive", err)
	}
	if h.Sum32() != want {
		return damaged(o, "its CRC differs")
	}
	return nil
}

// walk calls f with the entries of a block until it answers false. Each entry's CRC is checked.
func (a *Archive) walk(ctx context.Context, o *Object, b *block, f func(e *mq.Entry, data []byte) bool) error {
	raw, ok := a.blocks.get(place{o.Key, b.At})
	if !ok {
		var err error
		if raw, err = a.bytes(ctx, o, b.At, b.Bytes); err != nil {
			return err
		}
		a.blocks.put(place{o.Key, b.At}, raw, len(raw))
	}
	for len(raw) > 0 {
		if len(raw) < 4 || uint64(len(raw)-4) < uint64(binary.BigEndian.Uint32(raw)) {
			return damaged(o, "an entry is cut short in the block at %d", b.At)
		}
		n := 4 + int(binary.BigEndian.Uint32(raw))
		e, err := mq.ParseEntry(raw[4:n])
		if err != nil {
			return damaged(o, "in the block at %d: %w", b.At, err)
		}
		if e.Segment != o.Segment {
			return damaged(o, "it holds an entry of segment %d", e.Segment)
		}
		if !f(&e, raw[4:n]) {
			return nil
		}
		raw = raw[n:]
	}
	return nil
}

// EntryAt is the encoded entry that holds a message offset. It must not be changed.
func (a *Archive) EntryAt(ctx context.Context, o *Object, offset uint64) ([]byte, error) {
	f, err := a.footer(ctx, o)
	if err != nil {
		return nil, err
	}
	i := sort.Search(len(f.Blocks), func(i int) bool { return f.Blocks[i].Offset > offset })
	if i == 0 {
		return nil, damaged(o, "offset %d is before its first block", offset)
	}
	var out []byte
	err = a.walk(ctx, o, &f.Blocks[i-1], func(e *mq.Entry, data []byte) bool {
		if e.At.Offset <= offset && offset < e.Next().Offset {
			out = data
		}
		return out == nil && e.At.Offset <= offset
	})
	if err == nil && out == nil {
		err = damaged(o, "no entry holds offset %d", offset)
	}
	return out, err
}

// FirstAt is the first offset with a stamp of at least t in the objects, which are in order; false if all are older.
func (a *Archive) FirstAt(ctx context.Context, list []Object, t int64) (offset uint64, found bool, err error) {
	i := sort.Search(len(list), func(i int) bool {
		if err != nil {
			return true
		}
		var f *footer
		if f, err = a.footer(ctx, &list[i]); err != nil {
			return true
		}
		return f.LastStamp >= t
	})
	if err != nil || i == len(list) {
		return 0, false, err
	}
	f, err := a.footer(ctx, &list[i])
	if err != nil {
		return 0, false, err
	}
	b := sort.Search(len(f.Blocks)-1, func(b int) bool { return f.Blocks[b].Stamp >= t })
	err = a.walk(ctx, &list[i], &f.Blocks[b], func(e *mq.Entry, _ []byte) bool {
		if e.Stamp >= t {
			offset, found = e.At.Offset, true
		}
		return !found
	})
	return offset, found, err
}
