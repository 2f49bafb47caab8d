package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

var testTime = time.Unix(1_700_000_000, 0).UTC()

var testPartition = mq.PartitionID{Topic: 7, Number: 3}

// testSegment is a segment of entries that hold a few messages each, and what they are encoded.
type testSegment struct {
	mq.Segment
	entries []mq.Entry
}

// segment makes a sealed segment of n entries with size bytes each that begins at base. Entry i holds i%3 messages, its stamp is
// 1000*id+i seconds after testTime.
func segment(id mq.SegmentID, base mq.Position, n, size int) *testSegment {
	s := &testSegment{Segment: mq.Segment{ID: id, Partition: testPartition, Number: uint64(id), Base: base, Sealed: true}}
	at := base
	for i := range n {
		e := mq.Entry{Segment: id, At: at, Prev: at, Count: uint32(i % 3), Stamp: testTime.Add(time.Duration(int(id)*1000+i) * time.Second).UnixNano(), Records: bytes.Repeat([]byte{byte(i)}, size)}
		s.entries = append(s.entries, e)
		at = e.Next()
	}
	s.End = at
	return s
}

func (s *testSegment) walk(_ context.Context, f func(*mq.Entry) error) error {
	for i := range s.entries {
		if err := f(&s.entries[i]); err != nil {
			return err
		}
	}
	return nil
}

func open(t *testing.T, url string) *Archive {
	t.Helper()
	a, err := Open(t.Context(), url, "cluster")
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func upload(t *testing.T, a *Archive, s *testSegment) Object {
	t.Helper()
	o, err := a.Upload(t.Context(), "topic", &s.Segment, s.walk)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// checkReads compares what the archive answers about segments with what was put there.
func checkReads(t *testing.T, a *Archive, segments ...*testSegment) {
	t.Helper()
	list, err := a.List(t.Context(), testPartition)
	if err != nil || len(list) != len(segments) {
		t.Fatalf("%d objects, want %d: %v", len(list), len(segments), err)
	}
	for i, s := range segments {
		if o := list[i]; o.Segment != s.ID || o.Base != s.Base || o.End != s.End {
			t.Fatalf("object %d is %+v", i, o)
		}
		for _, e := range s.entries {
			for offset := e.At.Offset; offset < e.Next().Offset; offset++ {
				if got, err := a.EntryAt(t.Context(), &list[i], offset); err != nil || !bytes.Equal(got, e.AppendTo(nil)) {
					t.Fatalf("offset %d: %d bytes: %v", offset, len(got), err)
				}
			}
			offset, found, err := a.FirstAt(t.Context(), list, e.Stamp)
			if err != nil || !found || offset != e.At.Offset {
				t.Fatalf("the first at the stamp of the entry at %s is %d, %v: %v", e.At, offset, found, err)
			}
		}
	}
	last := segments[len(segments)-1]
	if offset, found, err := a.FirstAt(t.Context(), list, last.entries[len(last.entries)-1].Stamp+1); err != nil || found {
		t.Fatalf("behind the end is offset %d: %v", offset, err)
	}
}

// uploadGivenUp is an upload whose leader stops at an entry.
func uploadGivenUp(t *testing.T, a *Archive, s *testSegment, at int) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := a.Upload(ctx, "topic", &s.Segment, func(_ context.Context, f func(*mq.Entry) error) error {
		for i := range s.entries {
			if i == at {
				cancel()
			}
			if err := f(&s.entries[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// What a directory is given it answers, and an upload that did not become whole leaves nothing.
func TestDirectory(t *testing.T) {
	a := open(t, "file://"+t.TempDir())
	one := segment(4, mq.Position{}, 400, 4000)
	two := segment(9, one.End, 12, 10)
	upload(t, a, one)
	broken := errors.New("the disk is broken")
	_, err := a.Upload(t.Context(), "topic", &two.Segment, func(ctx context.Context, f func(*mq.Entry) error) error {
		for i := range two.entries[:7] {
			if err := f(&two.entries[i]); err != nil {
				return err
			}
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatalf("the upload of what can't be read ended with %v", err)
	}
	for i := range two.entries {
		if err := uploadGivenUp(t, a, two, i); err == nil {
			t.Fatal("an upload that was given up has no error")
		}
	}
	checkReads(t, a, one)
	upload(t, a, two)
	checkReads(t, a, one, two)
}

// An entry that does not follow on the one before, or is of another segment, ends the upload.
func TestUploadOfWhatIsNoSegment(t *testing.T) {
	a := open(t, "file://"+t.TempDir())
	for name, spoil := range map[string]func(s *testSegment){
		"a gap":           func(s *testSegment) { s.entries = append(s.entries[:3], s.entries[4:]...) },
		"the end missing": func(s *testSegment) { s.entries = s.entries[:8] },
		"another segment": func(s *testSegment) { s.entries[5].Segment++ },
		"another base":    func(s *testSegment) { s.entries = s.entries[1:] },
		"nothing":         func(s *testSegment) { s.entries = nil },
	} {
		s := segment(4, mq.Position{Offset: 10, Seq: 3}, 9, 10)
		spoil(s)
		if _, err := a.Upload(t.Context(), "topic", &s.Segment, s.walk); err == nil {
			t.Errorf("%s was uploaded", name)
		}
	}
	if list, err := a.List(t.Context(), testPartition); err != nil || len(list) > 0 {
		t.Errorf("there is %v: %v", list, err)
	}
}

// Of segments that overlap, as they do when one was replaced, the later one counts, and what is no segment is none.
func TestListOfOverlaps(t *testing.T) {
	a := open(t, "file://"+t.TempDir())
	one := segment(4, mq.Position{}, 30, 10)
	other := segment(5, one.entries[20].At, 30, 10)
	upload(t, a, one)
	upload(t, a, other)
	for _, name := range []string{"x", "00-1-0.0-5.5", fmt.Sprintf("%020d-6-9.9-9.9", 6)} {
		if err := a.bucket.WriteAll(t.Context(), a.prefix(testPartition)+name, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	checkReads(t, a, other)
}
