package store

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

func TestAppendReadReopen(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	first := s.Identity()
	if len(first.Store) != 32 || first.Boot != 1 {
		t.Fatalf("identity of a new store is %v", first)
	}
	mustCreate(t, s, 1, 2, 3)
	rng := rand.New(rand.NewPCG(1, 2))
	a, b := newJournal(1), newJournal(2)
	for range 5 {
		a.fill(t, s, rng, 40, 3000)
		b.fill(t, s, rng, 10, 100)
	}
	a.mustHold(t, s, 200)
	b.mustHold(t, s, 50)
	newJournal(3).mustHold(t, s, 0)
	mustClose(t, s)

	s = mustOpen(t, cfg)
	if again := s.Identity(); again.Store != first.Store || again.Boot != 2 {
		t.Fatalf("identity after a restart is %v, was %v", again, first)
	}
	a.mustHold(t, s, 200)
	b.mustHold(t, s, 50)
	a.fill(t, s, rng, 10, 100)
	a.mustHold(t, s, 210)
	for _, id := range []mq.SegmentID{1, 2, 3} {
		if err := s.Verify(id); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAppendRefusesWhatDoesNotFollow(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCreate(t, s, 1)
	j := newJournal(1)
	first, second, third := j.next(2, 10), j.next(0, 10), j.next(1, 10)
	errs, err := appendAll(s, first, third, second, third)
	if err != nil {
		t.Fatal(err)
	}
	if errs[0] != nil || !errors.Is(errs[1], ErrOutOfOrder) || errs[2] != nil || errs[3] != nil {
		t.Fatalf("errors %v: only the entry ahead of its place is refused", errs)
	}
	j.mustHold(t, s, 3)
	errs, err = appendAll(s, second)
	if err != nil || !errors.Is(errs[0], ErrOutOfOrder) {
		t.Fatalf("an entry again: %v %v", errs, err)
	}
	other := newJournal(9)
	errs, err = appendAll(s, other.next(1, 1))
	if err != nil || !errors.Is(errs[0], ErrUnknownSegment) {
		t.Fatalf("an unknown segment: %v %v", errs, err)
	}
	wrongPrev := mq.Entry{Segment: 1, At: j.at, Prev: mq.Position{}, Count: 1}
	errs, err = appendAll(s, Append{Segment: 1, At: wrongPrev.At, Next: wrongPrev.Next(), Data: wrongPrev.AppendTo(nil)})
	if err != nil || !errors.Is(errs[0], ErrOutOfOrder) {
		t.Fatalf("a wrong predecessor: %v %v", errs, err)
	}
	lying := j.next(1, 10)
	lying.Next.Offset++
	if _, err := appendAll(s, lying); err == nil {
		t.Fatal("an append that is not its entry was taken")
	}
	if _, err := appendAll(s, Append{Segment: 1, Data: []byte{1}}); err == nil {
		t.Fatal("a stump was taken")
	}
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	cfg.QueueBytes = 10_000
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1)
	// A step that does not return keeps the committer from draining the queue.
	entered, leave := make(chan struct{}), make(chan struct{})
	go s.inOrder(func() error { close(entered); <-leave; return nil })
	<-entered
	j := newJournal(1)
	var answered []mq.Position
	done := make(chan struct{})
	var taken int
	for {
		a := j.next(1, 1000)
		a.Done = func(err error) {
			answered = append(answered, a.At)
			if len(answered) == taken {
				close(done)
			}
		}
		if err := s.Append(a); err != nil {
			if !errors.Is(err, ErrBusy) {
				t.Fatal(err)
			}
			break
		}
		taken++
	}
	// 1000 bytes of records, the entry's header, entryOverhead: 8 of them fit 10,000 bytes.
	if want := 10_000 / (1000 + mq.EntryHeaderSize + entryOverhead); taken != want {
		t.Fatalf("%d appends were queued, want %d", taken, want)
	}
	close(leave)
	<-done
	if !slices.IsSortedFunc(answered, mq.Position.Compare) {
		t.Fatalf("answers are out of order: %v", answered)
	}
	j.mustHold(t, s, taken)
}

func TestClosedStoreAnswers(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCreate(t, s, 1)
	j := newJournal(1)
	mustAppend(t, s, j.next(1, 500))
	mustClose(t, s)
	mustClose(t, s)
	if err := s.Append(j.next(1, 1)); !errors.Is(err, ErrClosed) {
		t.Fatalf("append: %v", err)
	}
	if _, err := s.EntryAt(1, 0); !errors.Is(err, ErrClosed) {
		t.Fatalf("read: %v", err)
	}
	if err := s.SealSegments([]mq.SegmentID{1}); !errors.Is(err, ErrClosed) {
		t.Fatalf("seal: %v", err)
	}
	if err := s.Probe(t.Context()); !errors.Is(err, ErrClosed) {
		t.Fatalf("probe: %v", err)
	}
	<-s.Failed()
}

// Museum 44: a process id file on a volume kept a container from ever starting again.
func TestMuseum44LockIsTheKernels(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	if _, err := Open(cfg, quiet, nil); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second open: %v", err)
	}
	mustClose(t, s)
	// A lock file that a dead process left, whatever is in it, stops nobody.
	if err := os.WriteFile(filepath.Join(cfg.Dir, "LOCK"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, cfg))
}

func TestProbe(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testConfig(t.TempDir()))
	for range 3 {
		if err := s.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConfigReportsEverything(t *testing.T) {
	t.Parallel()
	err := Config{LedgerEvery: -1, PublishShare: 2}.Validate()
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 6 {
		t.Fatalf("problems: %v", err)
	}
	if err := DefaultConfig("x").Validate(); err != nil {
		t.Fatal(err)
	}
}
