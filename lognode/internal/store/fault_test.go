package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/splashdam/splashdam/shared/mq"
)

// Museum 38: Badger logs a failed sync of the value log and acknowledges. Here a logged error fails the append that is
// under way and everything after it.
func TestMuseum38LoggedErrorFailsTheAppend(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCreate(t, s, 1)
	j := newJournal(1)
	mustAppend(t, s, j.next(1, 300))
	s.active.log.Errorf("Error while curlf sync: %v\n", errors.New("input/output error"))
	errs, err := appendAll(s, j.next(1, 300))
	if err != nil || errs[0] == nil {
		t.Fatalf("acknowledged after a failed sync: %v %v", errs, err)
	}
	<-s.Failed()
	if err := s.Append(j.next(1, 1)); err == nil {
		t.Fatal("taken after the failure")
	}
	for what, err := range map[string]error{
		"seal": s.SealSegments([]mq.SegmentID{1}), "create": s.CreateSegments([]mq.Segment{segmentOf(5, mq.Position{})}),
		"probe": s.Probe(t.Context()), "err": s.Err(),
	} {
		if err == nil {
			t.Fatalf("%s after the failure", what)
		}
	}
	// What was acknowledged before is still served.
	if _, err := s.EntryAt(1, 0); err != nil {
		t.Fatal(err)
	}
}

// Museum 37: syncing from several transactions misses a WAL that was just rotated. All entries go through one
// committer with a sync per transaction: enough small entries to rotate the WAL several times are all there
// in a copy taken after the last answer.
func TestMuseum37RotatedWALIsSynced(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	opts := s.active.db.Opts()
	if !opts.SyncWrites || opts.DetectConflicts || opts.ValueLogFileSize != 32<<20 || opts.MemTableSize > 32<<20 {
		t.Fatalf("options: %+v", opts)
	}
	mustCreate(t, s, 1)
	j := newJournal(1)
	const n = 240_000 // about 160 bytes in the WAL each, with their values; MemTableSize is 16 MiB
	for range n / 20_000 {
		appends := make([]Append, 20_000)
		for i := range appends {
			appends[i] = j.next(1, 50)
		}
		mustAppend(t, s, appends...)
	}
	tables := files(t, cfg, "*.sst")
	mems := files(t, cfg, "*.mem")
	if len(tables)+len(mems) < 3 {
		t.Fatalf("the WAL did not rotate: %v %v", tables, mems)
	}
	crashed := mustOpen(t, crashCopy(t, cfg))
	if info, _ := crashed.Segment(1); info.Count != n || info.Damaged {
		t.Fatalf("%d of %d entries: %+v", info.Count, n, info)
	}
}

// Museum 35: a full disk. Publishes stop at the first watermark, everything at the second, and it goes on when there is
// space again; the ballast goes before opening on a full disk and comes back later.
func TestMuseum35FullDiskRefuses(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	var used atomic.Uint64
	used.Store(10)
	cfg.SpaceEvery = -1
	cfg.DiskUsage = func(string) (uint64, uint64, error) { return used.Load() << 30, 100 << 30, nil }
	cfg.BallastBytes = 3 << 20
	s := mustOpen(t, cfg)
	ballast := filepath.Join(cfg.Dir, "ballast")
	if size := dirSize(t, ballast); size < 3<<20 {
		t.Fatalf("the ballast takes %d bytes", size)
	}
	mustCreate(t, s, 1)
	j := newJournal(1)
	mustAppend(t, s, j.next(1, 10))
	used.Store(91)
	if s.PublishAllowed() || s.Space() < 0.9 {
		t.Fatal("publishes are allowed at 91 %")
	}
	mustAppend(t, s, j.next(1, 10))
	used.Store(97)
	late := j.peek()
	if err := s.Append(late); !errors.Is(err, ErrStorageFull) {
		t.Fatalf("append at 97 %%: %v", err)
	}
	// The second check: full when the group's turn comes.
	used.Store(50)
	entered, leave := make(chan struct{}), make(chan struct{})
	go s.inOrder(func() error { close(entered); <-leave; return nil })
	<-entered
	answer := make(chan error, 1)
	late.Done = func(err error) { answer <- err }
	if err := s.Append(late); err != nil {
		t.Fatal(err)
	}
	used.Store(98)
	close(leave)
	if err := <-answer; !errors.Is(err, ErrStorageFull) {
		t.Fatalf("a queued append at 98 %%: %v", err)
	}
	used.Store(50)
	mustAppend(t, s, j.next(1, 10))
	if !s.PublishAllowed() || s.Err() != nil {
		t.Fatal("not taken up again")
	}
	mustClose(t, s)

	s = ballastGoesAndComes(t, cfg, &used, ballast)
	j.mustHold(t, s, 3)
	mustClose(t, s)

	cfg.DiskUsage = func(string) (uint64, uint64, error) { return 100 << 30, 100 << 30, nil }
	if _, err := Open(cfg, quiet, nil); !errors.Is(err, ErrStorageFull) {
		t.Fatalf("opening without any space: %v", err)
	}
}

// ballastGoesAndComes opens on a full disk, then frees space.
func ballastGoesAndComes(t *testing.T, cfg Config, used *atomic.Uint64, ballast string) *Store {
	t.Helper()
	used.Store(98)
	s := mustOpen(t, cfg)
	if _, err := os.Stat(ballast); !os.IsNotExist(err) {
		t.Fatalf("the ballast is there on a full disk: %v", err)
	}
	mustReclaim(t, s)
	used.Store(40)
	mustReclaim(t, s)
	if size := dirSize(t, ballast); size < 3<<20 {
		t.Fatalf("the ballast did not come back: %d bytes", size)
	}
	return s
}

func countOf(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// Museum 9: an empty checkpoint file stops the start. An empty, missing, torn or damaged ledger does not.
func TestMuseum09LedgerNeverStopsTheStart(t *testing.T) {
	t.Parallel()
	for name, break_ := range map[string]func(path string, b []byte) error{
		"empty":   func(path string, b []byte) error { return os.Truncate(path, 0) },
		"missing": func(path string, b []byte) error { return os.Remove(path) },
		"torn":    func(path string, b []byte) error { return os.Truncate(path, int64(len(b)-3)) },
		"noise":   func(path string, b []byte) error { return os.WriteFile(path, []byte("noise, noise"), 0o644) },
		"middle": func(path string, b []byte) error {
			b[frameHeader+1] ^= 1
			return os.WriteFile(path, b, 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := prepare(t, true, 40)
			path := filepath.Join(h.cfg.Dir, "ledger")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// A second frame, so that the first one is in the middle.
			b = appendMarkFrames(b, []mark{{segment: 999, tail: mq.Position{Offset: 1}, count: 1}})
			if err := errors.Join(os.WriteFile(path, b, 0o644), break_(path, b)); err != nil {
				t.Fatal(err)
			}
			reg := prometheus.NewRegistry()
			s, err := Open(h.cfg, quiet, reg)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range h.journals {
				j.mustHold(t, s, len(j.entries))
			}
			// That all marks are gone may show, too, if the facts tell of some.
			if lost := countOf(t, s.metrics.marksLost); name == "middle" && lost == 0 || name == "torn" && lost > 0 {
				t.Fatalf("%v places are reported as damaged", lost)
			}
			mustClose(t, s)
			// The metrics are gone with the store, so it can be opened again.
			s, err = Open(h.cfg, quiet, reg)
			if err != nil {
				t.Fatal(err)
			}
			if lost := countOf(t, s.metrics.marksLost); lost != 0 {
				t.Fatalf("%v places are reported again", lost)
			}
			mustClose(t, s)
		})
	}
}

// Facts that lost something in the middle must not be believed: a seal or an end may be what is missing. A torn
// last line was never answered.
func TestDamagedFacts(t *testing.T) {
	t.Parallel()
	h := prepare(t, false, 40)
	path := filepath.Join(h.cfg.Dir, "facts")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(b, frameMarker...), 0o644); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, h.cfg))
	for name, content := range map[string][]byte{"middle": append([]byte{}, b...), "empty": nil} {
		if len(content) > 0 {
			content[frameHeader+5] ^= 1
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(h.cfg, quiet, nil); !errors.Is(err, ErrFactsDamaged) || !strings.Contains(err.Error(), "Move "+h.cfg.Dir+" away") {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(h.cfg, quiet, nil); !errors.Is(err, ErrFactsDamaged) {
		t.Fatalf("missing facts: %v", err)
	}
	// What can't be read for another reason is not damaged: nobody should move it away for that.
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(h.cfg, quiet, nil); err == nil || errors.Is(err, ErrFactsDamaged) {
		t.Fatalf("facts that can't be opened: %v", err)
	}
}

// Museum 12: the fence flag is lost. The ledger holds a second copy of the flag, for the case that the facts' last
// line can't be read and looks torn.
func TestMuseum12SealFlagSurvivesDamage(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	cfg.LedgerEvery = time.Hour // only the seal writes to the ledger
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1)
	j := newJournal(1)
	j.fill(t, s, rand.New(rand.NewPCG(1, 1)), 20, 400)
	if err := s.SealSegments([]mq.SegmentID{1}); err != nil {
		t.Fatal(err)
	}
	crashed := crashCopy(t, cfg)
	mustClose(t, s)
	cfg = crashed
	path := filepath.Join(cfg.Dir, "facts")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, path, info.Size()-2, 1)
	s = mustOpen(t, cfg)
	if info, ok := s.Segment(1); !ok || !info.SealFlag {
		t.Fatalf("the seal is forgotten: %+v", info)
	}
	errs, err := appendAll(s, j.next(1, 1))
	if err != nil || !errors.Is(errs[0], ErrSealed) {
		t.Fatalf("an entry behind the seal: %v %v", errs, err)
	}
}

// Facts and ledger are written anew when they are mostly history; nothing is forgotten by that.
func TestHistoryIsTidied(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1, 2)
	if err := errors.Join(s.SetClusterID("c"), s.SetEnd(2, mq.Position{Offset: 5})); err != nil {
		t.Fatal(err)
	}
	p := mq.PartitionID{Topic: 1, Number: 1}
	padding := fmt.Sprintf("%0*d", 1<<20, 1)
	for i := range 3 {
		if _, _, err := s.facts.write(fact{Partition: &p, Number: 7, Revision: int64(i)}, fact{Cluster: padding}, fact{Cluster: "c"}); err != nil {
			t.Fatal(err)
		}
	}
	id := s.Identity()
	mustReclaim(t, s)
	if size := s.facts.log.size(); size > factsRewriteBytes {
		t.Fatalf("the facts still take %d bytes", size)
	}
	mustCreate(t, s, 3)
	for range 40_000 {
		if _, err := s.ledger.log.write(appendMarkFrames(nil, []mark{{segment: 77, tail: mq.Position{Offset: 1 << 60}, count: 1 << 60}})); err != nil {
			t.Fatal(err)
		}
	}
	j := newJournal(1)
	mustAppend(t, s, j.next(2, 300))
	if err := errors.Join(s.ledger.record(s.collectMoved), s.ledger.tidy()); err != nil {
		t.Fatal(err)
	}
	// It may have been tidied in between as well, by the store itself.
	if size := s.ledger.log.size(); size > ledgerRewriteBytes {
		t.Fatalf("the ledger still takes %d bytes", size)
	}
	mustClose(t, s)
	s = mustOpen(t, cfg)
	j.mustHold(t, s, 1)
	named := s.Named(p)
	info, ok := s.Segment(2)
	_, third := s.Segment(3)
	if s.ClusterID() != "c" || named != (mq.Named{Number: 7, Revision: 2}) || !ok || *info.End != (mq.Position{Offset: 5}) || !third || s.Identity().Store != id.Store || s.Identity().Boot != id.Boot+1 {
		t.Fatalf("forgotten: %q %+v %+v %v %v", s.ClusterID(), named, info, third, s.Identity())
	}
}
