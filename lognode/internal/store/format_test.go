package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

func TestFramesCutAndResync(t *testing.T) {
	t.Parallel()
	bodies := [][]byte{[]byte("one"), {}, bytes.Repeat([]byte{7}, 500), frameMarker}
	var b []byte
	var ends []int
	for _, body := range bodies {
		b = appendFrame(b, body)
		ends = append(ends, len(b))
	}
	read := func(b []byte) (got [][]byte, end int64, holes int) {
		end, holes, err := readFrames(b, func(body []byte) error {
			got = append(got, bytes.Clone(body))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got, end, holes
	}
	// Cut anywhere: the frames that are whole, and no hole.
	for cut := range len(b) + 1 {
		whole := 0
		for whole < len(ends) && ends[whole] <= cut {
			whole++
		}
		wantEnd := int64(0)
		if whole > 0 {
			wantEnd = int64(ends[whole-1])
		}
		if got, end, holes := read(b[:cut]); len(got) != whole || end != wantEnd || holes != 0 {
			t.Fatalf("cut at %d: %d frames to %d with %d holes, want %d to %d", cut, len(got), end, holes, whole, wantEnd)
		}
	}
	// A bit anywhere: the frame it is in is lost and no other; a hole unless it is the last one.
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 0x10
		in := 0
		for ends[in] <= i {
			in++
		}
		got, _, holes := read(c)
		if len(got) != len(bodies)-1 || (holes > 0) != (in < len(bodies)-1) {
			t.Fatalf("bit in byte %d (frame %d): %d frames, %d holes", i, in, len(got), holes)
		}
	}
}

func TestFramelogSharesSyncsAndRewrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	l, _, _, err := openFramelog(path, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			end, err := l.write(appendFrame(nil, []byte("x")))
			if err == nil {
				err = l.sync(end)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	before, err := l.write(appendFrame(nil, []byte("before")))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.rewrite(func() []byte { return appendFrame(nil, []byte("all")) }); err != nil {
		t.Fatal(err)
	}
	after, err := l.write(appendFrame(nil, []byte("after")))
	if err := errors.Join(err, l.sync(before), l.sync(after), l.close()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.write(nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("write after close: %v", err)
	}
	b, err := os.ReadFile(path)
	if want := appendFrame(appendFrame(nil, []byte("all")), []byte("after")); err != nil || !bytes.Equal(b, want) {
		t.Fatalf("%q, want %q (%v)", b, want, err)
	}
}

func TestMarksAndListsComeBack(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var marks []mark
	l := &volumeList{Volume: 7, Active: true, Replaces: []uint32{3, 4}, Bytes: 1234}
	for i := range 9000 {
		m := mark{segment: mq.SegmentID(rng.Uint64()), gen: uint64(i), tail: mq.Position{Offset: rng.Uint64(), Seq: rng.Uint32()},
			count: rng.Uint64(), sum: rng.Uint64(), seal: i%2 == 0, removed: i%3 == 0}
		marks = append(marks, m)
		l.Parts = append(l.Parts, listPart{Segment: m.segment, Gen: m.gen, First: m.tail, Last: m.tail, Next: m.tail,
			Count: m.count, Bytes: rng.Int64(), Sum: m.sum, FirstStamp: rng.Int64(), LastStamp: -rng.Int64()})
	}
	var got []mark
	b := appendMarkFrames(nil, marks)
	if end, holes, err := readFrames(b, func(body []byte) error {
		part, err := parseMarks(body)
		got = append(got, part...)
		return err
	}); err != nil || holes != 0 || end != int64(len(b)) || !reflect.DeepEqual(got, marks) {
		t.Fatalf("marks: %d of %d, %d holes, %v", len(got), len(marks), holes, err)
	}
	b, err := l.encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeList(b)
	if err != nil || !reflect.DeepEqual(back, l) {
		t.Fatalf("list: %v", err)
	}
	for _, cut := range []int{0, 5, len(b) / 2, len(b) - 1} {
		if _, err := decodeList(b[:cut]); err == nil {
			t.Fatalf("a list cut at %d is taken", cut)
		}
	}
}

func TestKeysSortAsTheJournal(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	pick := func() (mq.SegmentID, mq.Position) {
		return mq.SegmentID(1 + rng.Uint64N(300)), mq.Position{Offset: rng.Uint64N(70_000), Seq: rng.Uint32N(300)}
	}
	for range 10_000 {
		id, at := pick()
		id2, at2 := pick()
		k, k2 := entryKey(id, at), entryKey(id2, at2)
		want := at.Compare(at2)
		if id != id2 {
			want = map[bool]int{true: -1, false: 1}[id < id2]
		}
		if got := bytes.Compare(k, k2); got != want {
			t.Fatalf("%d %s and %d %s: %d, want %d", id, at, id2, at2, got, want)
		}
		if gid, gat, ok := parseKey(k); !ok || gid != id || gat != at {
			t.Fatalf("%d %s comes back as %d %s", id, at, gid, gat)
		}
	}
}

func FuzzReadFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, []byte("a")), []byte("bc")))
	f.Add(appendFrame([]byte("noise"), appendMarks(nil, []mark{{segment: 1, count: 2}})))
	f.Add([]byte{0xF5, 'S', 'D', 0x17, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		end, _, err := readFrames(b, func(body []byte) error {
			total += len(body) + frameHeader
			if marks, err := parseMarks(body); err == nil && len(marks)*markLeast > len(body) {
				t.Fatal("more marks than bytes")
			}
			return nil
		})
		if err != nil || end > int64(len(b)) || total > len(b) {
			t.Fatalf("end %d, %d bytes of frames in %d: %v", end, total, len(b), err)
		}
	})
}

func FuzzParseMarks(f *testing.F) {
	f.Add(appendMarks(nil, []mark{{segment: 5, gen: 1, tail: mq.Position{Offset: 9, Seq: 1}, count: 3, sum: 4, seal: true}}))
	f.Add([]byte{markVersion, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F})
	f.Fuzz(func(t *testing.T, b []byte) {
		marks, err := parseMarks(b)
		if err != nil {
			return
		}
		again, err := parseMarks(appendMarks(nil, marks))
		if err != nil || !reflect.DeepEqual(again, marks) {
			t.Fatalf("%+v comes back as %+v: %v", marks, again, err)
		}
	})
}

func FuzzDecodeList(f *testing.F) {
	b, err := (&volumeList{Volume: 1, Parts: []listPart{{Segment: 1, Count: 1}}}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(appendFrame(nil, []byte(`{"volume":1,"parts":1000000000}`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := decodeList(b); err == nil && len(l.Parts) != l.Count {
			t.Fatal("a list with other than its count of parts")
		}
	})
}
