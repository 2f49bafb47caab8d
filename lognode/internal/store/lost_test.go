package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ruin makes a volume one that can't be opened, nor mended: where a table was is a directory.
func ruin(t *testing.T, volume string) {
	t.Helper()
	table := filepath.Join(volume, "000001.sst")
	must(t, errors.Join(os.Remove(filepath.Join(volume, "MANIFEST")), os.RemoveAll(table), os.Mkdir(table, 0o755)))
}

// spoilEnd flips the last byte of a file: its last frame is taken for torn.
func spoilEnd(t *testing.T, name string) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, name, info.Size()-1, 1)
}

// A node that was started and did nothing has its boot number in the last frame of its facts. Damage there looks like a torn write; two
// runs never have the same number for it.
func TestBootNumberIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	mustClose(t, mustOpen(t, cfg)) // its first frame names the store
	var last mq.Incarnation
	for range 4 {
		s := mustOpen(t, cfg)
		if now := s.Identity(); now.Boot <= last.Boot {
			t.Fatalf("%v after %v", now, last)
		}
		last = s.Identity()
		mustClose(t, s)
		spoilEnd(t, filepath.Join(cfg.Dir, "facts"))
	}
}

// An older version of the facts is put back. The ledger says how many records there were, so that the node does not take its last boot
// number again, nor forget an end or what was named; however often it is tried.
func TestOlderFactsShow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *Store) error{
		"a start": func(*Store) error { return nil },
		"an end":  func(s *Store) error { return s.SetEnd(1, mq.Position{}) },
		"a naming": func(s *Store) error {
			return s.SetNamed(mq.PartitionID{Topic: 1, Number: 1}, mq.Named{Number: 9, Revision: 9})
		},
		"both, and a byte is torn": func(s *Store) error {
			return errors.Join(s.SetNamed(mq.PartitionID{Topic: 1, Number: 1}, mq.Named{Number: 9, Revision: 9}), s.SetEnd(1, mq.Position{}))
		},
	} {
		for _, crash := range []bool{false, true} {
			cfg := testConfig(t.TempDir())
			s := mustOpen(t, cfg)
			mustCreate(t, s, 1)
			mustClose(t, s)
			facts := filepath.Join(cfg.Dir, "facts")
			old, err := os.ReadFile(facts)
			must(t, err)
			if strings.HasSuffix(name, "torn") {
				old = append(old, frameMarker[0])
			}
			s = mustOpen(t, cfg)
			must(t, change(s))
			if crash {
				must(t, s.ledger.record(s.collectMoved))
				cfg = crashCopy(t, cfg)
				facts = filepath.Join(cfg.Dir, "facts")
			}
			mustClose(t, s)
			whole, err := os.ReadFile(facts)
			must(t, err)
			must(t, os.WriteFile(facts, old, 0o644))
			for range 4 {
				if s, err := Open(cfg, quiet, nil); !errors.Is(err, ErrFactsDamaged) {
					t.Fatalf("%s, crash %v: %v, %v", name, crash, s, err)
				}
			}
			must(t, os.WriteFile(facts, whole, 0o644))
			mustClose(t, mustOpen(t, cfg))
		}
	}
}

// The ledger lost its end, and the last transaction in the WAL is broken, which looks torn without the marks. The facts tell how many
// records the ledger had: the copy does not answer that it ends before what it acknowledged. With one of the two damages nothing is lost
// that does not show.
func TestLedgerAndWALLoseTheirEnds(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1)
	j := newJournal(1)
	mustAppend(t, s, j.next(1, 300))
	must(t, s.ledger.record(s.collectMoved))
	early, err := os.ReadFile(filepath.Join(cfg.Dir, "ledger"))
	must(t, err)
	for range 3 {
		mustAppend(t, s, j.next(1, 300))
	}
	must(t, s.ledger.record(s.collectMoved))
	must(t, s.SetNamed(mq.PartitionID{Topic: 1, Number: 1}, mq.Named{Number: 9, Revision: 9}))
	made := crashCopy(t, cfg)
	mustClose(t, s)
	for _, ledger := range [][]byte{nil, early, early[:len(early)-1]} {
		for _, broken := range []bool{true, false} {
			cfg := made
			cfg.Dir = filepath.Join(t.TempDir(), "copy")
			must(t, os.Mkdir(cfg.Dir, 0o755))
			copyDir(t, made.Dir, cfg.Dir)
			must(t, os.WriteFile(filepath.Join(cfg.Dir, "ledger"), ledger, 0o644))
			if !broken {
				for range 2 {
					s := mustOpen(t, cfg)
					j.mustHold(t, s, 4)
					mustClose(t, s)
				}
				continue
			}
			for _, name := range files(t, cfg, "*.mem") {
				b, err := os.ReadFile(name)
				must(t, err)
				flip(t, name, int64(bytes.LastIndex(b, entryKey(1, j.entries[3].At))+10), 1)
			}
			mustClaimNothing(t, cfg, func(*Store) {})
		}
	}
}

// A segment's creation record was the last one of the facts, and is damaged. The store does not open as one that never had the segment:
// made again, the copy would be empty, and answer that it has nothing.
func TestLostCreationShows(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"ledger", "list"} {
		cfg := testConfig(t.TempDir())
		s := mustOpen(t, cfg)
		mustCreate(t, s, 1)
		newJournal(1).fill(t, s, rand.New(rand.NewPCG(3, 4)), 5, 100)
		if err := s.recordMarks([]mq.SegmentID{1}); err != nil {
			t.Fatal(err)
		}
		crashed := cfg
		if by == "ledger" {
			crashed = crashCopy(t, cfg)
		}
		mustClose(t, s)
		if by == "list" {
			must(t, os.Truncate(filepath.Join(cfg.Dir, "ledger"), 0))
		}
		spoilEnd(t, filepath.Join(crashed.Dir, "facts"))
		if s, err := Open(crashed, quiet, nil); !errors.Is(err, ErrFactsDamaged) {
			t.Errorf("by the %s: %v, %v", by, s, err)
		}
	}
}

// That a copy was replaced was the last of the facts, and is damaged: what is there is the old copy, which was damaged and still is.
func TestLostReplacementShows(t *testing.T) {
	t.Parallel()
	cfg, j := unended(t, func(s *Store, j *journal) { misses(t, s, j, 57) })
	s := mustOpen(t, cfg)
	r, err := s.Restore(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Add(j.data...), r.Commit(j.at)); err != nil {
		t.Fatal(err)
	}
	crashed := crashCopy(t, cfg)
	mustClose(t, s)
	spoilEnd(t, filepath.Join(crashed.Dir, "facts"))
	mustClaimNothing(t, crashed, func(*Store) {})
}

// A volume that was closed in order can't be opened, and the ledger is lost, too. The volume's list says what was in it.
func TestListTellsWhatAVolumeHeld(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(dir string){
		"broken":  func(dir string) { ruin(t, filepath.Join(dir, "volumes", "000001")) },
		"missing": func(dir string) { must(t, os.RemoveAll(filepath.Join(dir, "volumes", "000001"))) },
		"without a WAL and a table": func(dir string) {
			for _, pattern := range []string{"*.mem", "*.sst", "MANIFEST"} {
				for _, name := range files(t, Config{Dir: dir}, pattern) {
					must(t, os.Remove(name))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := prepare(t, false, 40)
			must(t, os.Truncate(filepath.Join(h.cfg.Dir, "ledger"), 0))
			harm(h.cfg.Dir)
			for range 2 { // the list is gone with the volume
				h.mustBeDamaged(t)
			}
		})
	}
}

func (h harm) mustBeDamaged(t *testing.T) {
	t.Helper()
	s := mustOpen(t, h.cfg)
	for _, j := range h.journals {
		if info, _ := s.Segment(j.id); !info.Damaged {
			t.Errorf("taken for whole: %+v", info)
		}
	}
	mustClose(t, s)
}

// What a start found damaged stays so when the ledger, which showed it, is lost later.
func TestFoundDamageOutlivesTheLedger(t *testing.T) {
	t.Parallel()
	h := prepare(t, true, 40)
	ruin(t, filepath.Join(h.cfg.Dir, "volumes", "000001"))
	h.mustBeDamaged(t)
	must(t, os.Truncate(filepath.Join(h.cfg.Dir, "ledger"), 0))
	h.mustBeDamaged(t)
}

// The header of a value is damaged while its volume is open. Who reads it is told, and the store can be closed after it.
func TestDamagedHeaderLocksNothing(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1)
	j := newJournal(1)
	mustAppend(t, s, j.next(1, 1000), j.next(1, 1000))
	flip(t, filepath.Join(cfg.Dir, "volumes", "000001", "000001.vlog"), badgerLogHeader+4, 1) // the value's length
	for range 2 {
		if err := s.Verify(1); !errors.Is(err, ErrDamaged) {
			t.Errorf("read: %v", err)
		}
	}
	mustClose(t, s)
}
