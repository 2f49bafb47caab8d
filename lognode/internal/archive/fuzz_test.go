package archive

import (
	"context"
	"encoding/binary"
	"testing"

	"gocloud.dev/blob/memblob"

	"github.com/splashdam/splashdam/shared/mq"
)

// Whatever lies in the bucket under a segment's name: readers answer an entry that is whole and holds what was asked for, or an error.
// They never panic, and read no more than the object has.
func FuzzObject(f *testing.F) {
	s := segment(4, mq.Position{Offset: 10, Seq: 2}, 9, 30)
	whole := encoded(f, s)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(whole[:tailSize+8])
	f.Add([]byte(magic))
	for _, at := range []int{0, 9, 12, 60, len(whole) - tailSize, len(whole) - tailSize - 40, len(whole) - 9} {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x55
		f.Add(b)
	}
	forged := append([]byte(nil), whole...)
	binary.BigEndian.PutUint64(forged[len(forged)-tailSize:], 1<<40)
	f.Add(forged)
	f.Fuzz(func(t *testing.T, data []byte) {
		a := use(memblob.OpenBucket(nil), "cluster")
		defer a.Close()
		o := Object{Key: a.key(&s.Segment), Size: int64(len(data)), Segment: s.ID, Number: s.Number, Base: s.Base, End: s.End}
		must(t, a.bucket.WriteAll(t.Context(), o.Key, data, nil))
		intact := a.verify(t.Context(), &o) == nil
		for offset := s.Base.Offset; offset < s.End.Offset; offset++ {
			b, err := a.EntryAt(t.Context(), &o, offset)
			if err != nil {
				if intact && string(data) == string(whole) {
					t.Fatal(err)
				}
				continue
			}
			if e, err := mq.ParseEntry(b); err != nil || e.Segment != s.ID || offset < e.At.Offset || offset >= e.Next().Offset {
				t.Fatalf("offset %d: an entry at %s of segment %d: %v", offset, e.At, e.Segment, err)
			}
		}
		_, _, _ = a.FirstAt(t.Context(), []Object{o}, s.entries[4].Stamp)
		_, _ = a.Naming(t.Context(), &o, s.Base.Offset)
		_, _ = a.Segment(t.Context(), &o)
		_ = a.Walk(t.Context(), &o, s.Base, s.End, func(e *mq.Entry) error {
			if e.Segment != s.ID || e.At.Before(s.Base) || !e.At.Before(s.End) {
				t.Fatalf("an entry at %s of segment %d", e.At, e.Segment)
			}
			return nil
		})
	})
}

// encoded is a segment as it is archived.
func encoded(f *testing.F, s *testSegment) []byte {
	a := use(memblob.OpenBucket(nil), "cluster")
	defer a.Close()
	o, err := a.Upload(context.Background(), "topic", &s.Segment, s.walk)
	if err != nil {
		f.Fatal(err)
	}
	b, err := a.bucket.ReadAll(context.Background(), o.Key)
	if err != nil {
		f.Fatal(err)
	}
	return b
}
