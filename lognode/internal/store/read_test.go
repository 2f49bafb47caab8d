package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// spread makes a store whose segments 1 and 2 lie in several volumes, and their journals.
func spread(t *testing.T, cfg Config) (*Store, *journal, *journal) {
	t.Helper()
	cfg.VolumeBytes = 64 << 10
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1, 2)
	rng := rand.New(rand.NewPCG(3, 4))
	a, b := newJournal(1), newJournal(2)
	for range 8 {
		a.fill(t, s, rng, 60, 1000)
		b.fill(t, s, rng, 20, 300)
		mustReclaim(t, s) // opens the next volume, closes old ones
	}
	s.mu.RLock()
	parts := len(s.segments[1].parts)
	s.mu.RUnlock()
	if parts < 3 {
		t.Fatalf("segment 1 is in %d volumes, the test wants more", parts)
	}
	return s, a, b
}

// entryOf is the oracle for EntryAt: a map from message offset to entry.
func entryOf(j *journal) map[uint64]int {
	m := map[uint64]int{}
	for i, e := range j.entries {
		for k := range uint64(e.Count) {
			m[e.At.Offset+k] = i
		}
	}
	return m
}

func TestEntryAtAgainstAMap(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s, a, b := spread(t, cfg)
	check := func() {
		t.Helper()
		for _, j := range []*journal{a, b} {
			oracle := entryOf(j)
			for offset := range j.at.Offset + 3 {
				data, err := s.EntryAt(j.id, offset)
				i, ok := oracle[offset]
				switch {
				case ok && (err != nil || !bytes.Equal(data, j.data[i])):
					t.Fatalf("segment %d offset %d: not entry %d: %v", j.id, offset, i, err)
				case !ok && !errors.Is(err, ErrNotFound):
					t.Fatalf("segment %d offset %d: %v, want ErrNotFound", j.id, offset, err)
				}
			}
		}
	}
	check()
	mustClose(t, s)
	s = mustOpen(t, cfg)
	check()
	if _, err := s.EntryAt(99, 0); !errors.Is(err, ErrUnknownSegment) {
		t.Fatalf("unknown segment: %v", err)
	}
}

func TestScanFromAnywhere(t *testing.T) {
	t.Parallel()
	s, a, b := spread(t, testConfig(t.TempDir()))
	a.mustHold(t, s, len(a.entries))
	b.mustHold(t, s, len(b.entries))
	rng := rand.New(rand.NewPCG(5, 6))
	places := []mq.Position{{}, a.at, {Offset: a.at.Offset + 10}}
	for range 300 {
		places = append(places, mq.Position{Offset: rng.Uint64N(a.at.Offset + 2), Seq: rng.Uint32N(4)})
	}
	for _, from := range places {
		var want, got []mq.Position
		for _, e := range a.entries {
			if !e.At.Before(from) {
				want = append(want, e.At)
			}
		}
		if err := s.Scan(1, from, func(at mq.Position, _ []byte) bool {
			got = append(got, at)
			return len(got) < 7
		}); err != nil {
			t.Fatal(err)
		}
		if want = want[:min(7, len(want))]; !equal(got, want) {
			t.Fatalf("scan from %s: %v, want %v", from, got, want)
		}
		want, got = nil, nil
		for i := len(a.entries) - 1; i >= 0 && len(want) < 7; i-- {
			if a.entries[i].At.Before(from) {
				want = append(want, a.entries[i].At)
			}
		}
		if err := s.ScanBack(1, from, func(at mq.Position, _ []byte) bool {
			got = append(got, at)
			return len(got) < 7
		}); err != nil {
			t.Fatal(err)
		}
		if !equal(got, want) {
			t.Fatalf("scan back from %s: %v, want %v", from, got, want)
		}
	}
}

func equal(a, b []mq.Position) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestFirstStampAtLeast(t *testing.T) {
	t.Parallel()
	s, a, _ := spread(t, testConfig(t.TempDir()))
	last := a.entries[len(a.entries)-1].Stamp
	for stamp := int64(990); stamp < last+5; stamp++ {
		at, found, err := s.FirstStampAtLeast(1, stamp)
		if err != nil {
			t.Fatal(err)
		}
		var want *mq.Entry
		for i := range a.entries {
			if a.entries[i].Stamp >= stamp {
				want = &a.entries[i]
				break
			}
		}
		if found != (want != nil) || found && at != want.At {
			t.Fatalf("stamp %d: %s %v, want %+v", stamp, at, found, want)
		}
	}
	mustCreate(t, s, 3)
	if _, found, err := s.FirstStampAtLeast(3, 0); found || err != nil {
		t.Fatalf("an empty segment: %v %v", found, err)
	}
}

// A segment that only settles has all entries at one offset: the search must not walk them.
func TestFirstStampAtOneOffset(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCreate(t, s, 1)
	j := newJournal(1)
	var appends []Append
	for range 500 {
		j.stamp += 2
		appends = append(appends, j.next(0, 10))
	}
	mustAppend(t, s, appends...)
	for _, i := range []int{0, 1, 250, 499} {
		at, found, err := s.FirstStampAtLeast(1, j.entries[i].Stamp-1)
		if err != nil || !found || at != j.entries[i].At {
			t.Fatalf("entry %d: %s %v %v", i, at, found, err)
		}
	}
}

// Entries that are queued but not synced are seen by no read.
func TestReadsSeeOnlyWhatIsSynced(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCreate(t, s, 1)
	j := newJournal(1)
	mustAppend(t, s, j.next(1, 200))
	a := j.next(1, 200)
	seen := make(chan error, 1)
	a.Done = func(error) {
		seen <- j.holds(s, 2) // in Done it is there
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	go s.inOrder(func() error { close(entered); <-leave; return nil })
	<-entered
	if err := s.Append(a); err != nil {
		t.Fatal(err)
	}
	j.mustHold(t, s, 1)
	close(leave)
	if err := <-seen; err != nil {
		t.Fatal(err)
	}
}

// Readers on all kinds of volumes, while the writer rolls and the janitor closes, compacts and removes.
func TestReadersBesideTheJanitor(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	cfg.MaxOpenVolumes = 1
	s, a, _ := spread(t, cfg)
	want := len(a.entries)
	stop := make(chan struct{})
	failed := make(chan error, 4)
	for range 4 {
		go func() {
			for {
				select {
				case <-stop:
					failed <- nil
					return
				default:
				}
				n := 0
				err := s.Scan(1, mq.Position{}, func(at mq.Position, data []byte) bool {
					n++
					return n < want
				})
				if err == nil && n < want {
					err = errors.New("a scan was short")
				}
				if err == nil {
					_, err = s.EntryAt(1, 5)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for id := mq.SegmentID(10); id < 30; id++ {
		mustCreate(t, s, id)
		newJournal(id).fill(t, s, rng, 40, 3000)
		mustReclaim(t, s)
		if id > 10 {
			if err := s.RemoveSegments([]mq.SegmentID{id - 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	for range 4 {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	a.mustHold(t, s, want)
}

// A panic in a function that reads is its own fault: it comes out as it was thrown, and the copy is as good as before.
func TestPanicInACallbackIsTheCallers(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCreate(t, s, 1)
	j := newJournal(1)
	mustAppend(t, s, j.next(2, 100), j.next(1, 100))
	scan := map[string]func(f func(mq.Position, []byte) bool) error{
		"forward":  func(f func(mq.Position, []byte) bool) error { return s.Scan(1, mq.Position{}, f) },
		"backward": func(f func(mq.Position, []byte) bool) error { return s.ScanBack(1, j.at, f) },
	}
	cause := errors.New("a fault of the caller")
	for name, scan := range scan {
		for _, thrown := range []any{cause, "text", nil} {
			func() {
				defer func() {
					r := recover()
					if _, isNil := r.(interface{ RuntimeError() }); thrown == nil && !isNil || thrown != nil && r != thrown {
						t.Errorf("%s: %v was thrown, and %v came out", name, thrown, r)
					}
				}()
				err := scan(func(mq.Position, []byte) bool {
					if thrown == nil {
						return (*journal)(nil).id == 0
					}
					panic(thrown)
				})
				t.Errorf("%s: the panic ended as %v", name, err)
			}()
			if info, _ := s.Segment(1); info.Damaged {
				t.Fatalf("%s: a panic with %v has damaged the copy", name, thrown)
			}
		}
	}
	j.mustHold(t, s, 2)
	mustClose(t, s) // nobody is left reading
}
