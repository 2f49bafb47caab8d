package archive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A block is about exactly the numbers that were gathered for it, in whatever order and how often.
func TestNumbersOfABlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]uint64{0, 1, 1 << 40, math.MaxUint64 - 80}).Draw(t, "base")
		near := rapid.SliceOfN(rapid.Uint64Range(0, 70), 1, 60).Draw(t, "numbers")
		in := map[uint64]bool{}
		numbers := make([]uint64, len(near))
		for i, n := range near {
			numbers[i] = base + n
			in[base+n] = true
		}
		b := block{Schedules: appendNumbers(nil, slices.Clone(numbers))}
		for n := range uint64(75) {
			if b.names(base+n) != in[base+n] {
				t.Fatalf("%d: %v", base+n, b.names(base+n))
			}
		}
		if b.names(base/2) != in[base/2] {
			t.Fatalf("%d, far below", base/2)
		}
		s := (&footer{Blocks: []block{{}, b}}).span()
		slices.Sort(numbers)
		if s.first != numbers[0] || s.last != numbers[len(numbers)-1] {
			t.Fatalf("from %d to %d, want %d to %d", s.first, s.last, numbers[0], numbers[len(numbers)-1])
		}
	})
}

// A list that nobody wrote may be about anything, and is never followed far.
func FuzzNumbers(f *testing.F) {
	f.Add(appendNumbers(nil, []uint64{1, 2, 3, 900, math.MaxUint64 - 1}))
	f.Add([]byte{1, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 9})
	f.Fuzz(func(t *testing.T, list []byte) {
		last, runs := uint64(0), 0
		ok := eachRun(list, func(from, to uint64) bool {
			if runs++; from < last || to <= from || runs > len(list) {
				t.Fatalf("run %d is from %d to %d, behind %d", runs, from, to, last)
			}
			last = to
			return true
		})
		if b := (block{Schedules: list}); !ok && !b.names(7) {
			t.Fatal("a list that can't be read excludes a number")
		}
	})
}

// scheduled makes a segment of entries of one record each, which need not differ in size.
func scheduled(id mq.SegmentID, base mq.Position, records ...mq.Record) *testSegment {
	s := &testSegment{Segment: mq.Segment{ID: id, Partition: testPartition, Number: uint64(id), Base: base, Sealed: true}}
	at := base
	for _, r := range records {
		e := mq.Entry{Segment: id, At: at, Prev: at, Stamp: testTime.UnixNano(), Records: mq.AppendRecord(nil, r.Kind, r.Body)}
		if r.Kind == mq.KindReleased || r.Kind == mq.KindMessages {
			e.Count = 1
		}
		s.entries = append(s.entries, e)
		at = e.Next()
	}
	s.End = at
	return s
}

// about is a record with one message of 100 KiB, under a schedule number.
func about(kind mq.Kind, number uint64) mq.Record {
	var b mq.BatchBuilder
	b.Add(&mq.Message{Lane: mq.LaneNormal, Value: make([]byte, 100<<10)})
	batch := b.AppendTo(nil, "", "", mq.CodecNone, nil)
	if kind == mq.KindMessages {
		return mq.Record{Kind: kind, Body: batch}
	}
	return mq.Record{Kind: kind, Body: mq.AppendScheduleBatch(nil, []mq.Schedule{{Number: number, Due: 1}}, batch)}
}

// found are the segments and positions of entries that a search for a schedule meets.
func found(t *testing.T, a *Archive, list []Object, number uint64) (out []string) {
	t.Helper()
	naming, err := a.NamingSchedule(t.Context(), list, number)
	must(t, err)
	for i := range list {
		if !naming[i] {
			continue
		}
		must(t, a.WalkSchedule(t.Context(), &list[i], number, func(e *mq.Entry) error {
			return schedule.Numbers(e, func(n uint64) {
				if n == number {
					out = append(out, fmt.Sprint(e.Segment, " ", e.At))
				}
			})
		}))
	}
	return out
}

// Each entry that is about a schedule is met, in every kind of record, and not everything is read for it.
func TestSchedulesAreFoundInTheArchive(t *testing.T) {
	a := open(t, "file://"+t.TempDir())
	b := schedule.New()
	b.Schedule(mq.Position{}, []int64{5, 5, 5}, 1)
	b.Retime(1, 2, 9)
	one := scheduled(1, mq.Position{}, about(mq.KindScheduled, 1), about(mq.KindScheduled, 2), about(mq.KindMessages, 0), about(mq.KindMessages, 0),
		about(mq.KindMessages, 0), about(mq.KindScheduled, 3), mq.Record{Kind: mq.KindCancelled, Body: cut(t, b.TakeRecords(nil))}, about(mq.KindReleased, 3))
	two := segment(2, one.End, 9, 10) // of records that nobody can read: it may be about any
	three := scheduled(3, two.End, about(mq.KindReleased, 2), about(mq.KindReleased, 1))
	for _, s := range []*testSegment{one, two, three} {
		upload(t, a, s)
	}
	list, err := a.List(t.Context(), testPartition)
	must(t, err)
	at := func(s *testSegment, i int) string { return fmt.Sprint(s.ID, " ", s.entries[i].At) }
	for number, want := range map[uint64][]string{
		1: {at(one, 0), at(three, 1)},
		2: {at(one, 1), at(one, 6), at(three, 0)},
		3: {at(one, 5), at(one, 7)},
		4: nil,
	} {
		list := []Object{list[0], list[2]} // without the one that can't be read
		if got := found(t, a, list, number); !slices.Equal(got, want) {
			t.Errorf("schedule %d is at %v, want %v", number, got, want)
		}
	}
	if naming, err := a.NamingSchedule(t.Context(), list, 99); err != nil || !slices.Equal(naming, []bool{false, true, false}) {
		t.Errorf("schedule 99 may be in %v: %v", naming, err)
	}
	read := 0
	must(t, a.WalkSchedule(t.Context(), &list[0], 3, func(*mq.Entry) error { read++; return nil }))
	if read == 0 || read == len(one.entries) {
		t.Errorf("%d of %d entries were read for a schedule that the first block is not about", read, len(one.entries))
	}
}

// cut is the body of the one record that there is.
func cut(t *testing.T, records []byte) []byte {
	t.Helper()
	r, rest, err := mq.NextRecord(records)
	if must(t, err); len(rest) > 0 {
		t.Fatal("there are two")
	}
	return r.Body
}

// What was read of the footers is remembered, so that the next search goes on where this one stopped; the answer says that it may be sent again.
func TestASearchGoesOn(t *testing.T) {
	a := open(t, "file://"+t.TempDir())
	one := scheduled(1, mq.Position{}, about(mq.KindReleased, 1))
	two := scheduled(2, one.End, about(mq.KindReleased, 2))
	upload(t, a, one)
	upload(t, a, two)
	list, err := a.List(t.Context(), testPartition)
	must(t, err)
	if _, err := a.spanOf(t.Context(), &list[0]); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.NamingSchedule(over, list, 1); !mqerr.Is(err, mqerr.ArchiveUnavailable) {
		t.Errorf("a search without time: %v", err)
	}
	gone := Object{Key: "gone", Size: 100, Segment: 9}
	naming, err := a.NamingSchedule(t.Context(), append(list, gone), 1)
	if err == nil || !slices.Equal(naming, []bool{true, false, false}) {
		t.Errorf("with an object that is gone: %v %v", naming, err)
	}
	if err := a.WalkSchedule(t.Context(), &list[0], 1, func(*mq.Entry) error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an error of the caller ends in %v", err)
	}
}
