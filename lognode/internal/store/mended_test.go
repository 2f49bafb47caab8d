package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// withTables is a store of two segments, entries of which of that size lie in three tables of its active volume and, if it was not
// closed, in a WAL.
func withTables(t *testing.T, size int, closed bool) harm {
	t.Helper()
	h := harm{cfg: testConfig(t.TempDir()), journals: []*journal{newJournal(1), newJournal(2)}}
	for i := range 4 {
		s := mustOpen(t, h.cfg)
		if i == 0 {
			mustCreate(t, s, 1, 2)
		}
		for range 3 {
			mustAppend(t, s, h.journals[0].next(1, size), h.journals[1].next(2, size))
		}
		if i == 3 && !closed {
			if err := s.ledger.record(s.collectMoved); err != nil {
				t.Fatal(err)
			}
			h.cfg = crashCopy(t, h.cfg)
		}
		mustClose(t, s)
	}
	return h
}

// copied is the same in another directory.
func (h harm) copied(t *testing.T) harm {
	t.Helper()
	h.cfg.Dir = filepath.Join(t.TempDir(), "copy")
	must(t, os.Mkdir(h.cfg.Dir, 0o755))
	return h
}

// mustBeHealed checks that nothing is missing, at two starts, and that no volume was set aside.
func (h harm) mustBeHealed(t *testing.T, name string) {
	t.Helper()
	for range 2 {
		s := mustOpen(t, h.cfg)
		for _, j := range h.journals {
			if err := errors.Join(j.holds(s, len(j.entries)), s.Verify(j.id)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		mustClose(t, s)
		if aside, _ := filepath.Glob(filepath.Join(h.cfg.Dir, "volumes", "*"+brokenExt)); len(aside) > 0 {
			t.Fatalf("%s: set aside: %v", name, aside)
		}
		if left := files(t, h.cfg, "*"+brokenExt); len(left) > 0 {
			t.Fatalf("%s: not told: %v", name, left)
		}
	}
}

// What lies in value logs outlives whatever is broken of the tables, and of the files that say which there are.
func TestBrokenTablesCostNoValue(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		made := withTables(t, 300, closed)
		for name, spoil := range map[string]func(tables []string, manifest string) error{
			"a table is missing":  func(tables []string, _ string) error { return os.Remove(tables[1]) },
			"the last is missing": func(tables []string, _ string) error { return os.Remove(tables[len(tables)-1]) },
			"all are missing":     func(tables []string, _ string) error { return removeAll(tables) },
			"a table is empty":    func(tables []string, _ string) error { return os.Truncate(tables[0], 0) },
			"one is cut, one is missing": func(tables []string, _ string) error {
				return errors.Join(os.Truncate(tables[0], 200), os.Remove(tables[2]))
			},
			"the manifest is missing":     func(_ []string, manifest string) error { return os.Remove(manifest) },
			"the manifest and a table":    func(tables []string, manifest string) error { return removeAll([]string{tables[1], manifest}) },
			"the manifest and all tables": func(tables []string, manifest string) error { return removeAll(append(tables, manifest)) },
		} {
			if strings.Contains(name, "manifest and all") && !closed {
				continue // which tables there were is not known then, while there is no list
			}
			h := made.copied(t)
			copyDir(t, made.cfg.Dir, h.cfg.Dir)
			tables := files(t, h.cfg, "*.sst")
			if len(tables) < 3 {
				t.Fatalf("tables: %v", tables)
			}
			must(t, spoil(tables, files(t, h.cfg, "MANIFEST")[0]))
			h.mustBeHealed(t, fmt.Sprintf("%s, closed %v", name, closed))
		}
	}
}

func removeAll(names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, os.Remove(name))
	}
	return errors.Join(errs...)
}

// One flipped bit, wherever it is in the files around the value logs, costs nothing of what lies in those.
func TestAnyFlippedBitAroundTheValues(t *testing.T) {
	t.Parallel()
	made := withTables(t, 300, true)
	names, err := os.ReadDir(filepath.Join(made.cfg.Dir, "volumes", "000001"))
	must(t, err)
	for _, e := range names {
		name := filepath.Join("volumes", "000001", e.Name())
		b, err := os.ReadFile(filepath.Join(made.cfg.Dir, name))
		must(t, err)
		step, until := 2, len(b)
		switch filepath.Ext(name) {
		case ".sst":
			step = 61
		case ".vlog":
			step, until = 5, min(until, badgerLogHeader)
		}
		if e.Name() == "DISCARD" {
			step, until = 7, 40
		}
		for at := 0; at < until; at += step {
			h := made.copied(t)
			copyDir(t, made.cfg.Dir, h.cfg.Dir)
			spoiled := bytes.Clone(b)
			spoiled[at] ^= 1 << (at % 8)
			must(t, os.WriteFile(filepath.Join(h.cfg.Dir, name), spoiled, 0o644))
			h.mustBeHealed(t, fmt.Sprintf("byte %d of %s", at, e.Name()))
			must(t, os.RemoveAll(h.cfg.Dir))
		}
	}
}

// readable are the entries of a journal that a store gives, at whatever place it stops.
func (j *journal) readable(t *testing.T, s *Store) (got []int) {
	t.Helper()
	for n := 0; n < len(j.entries); {
		before := n
		err := s.Scan(j.id, j.entries[n].At, func(at mq.Position, data []byte) bool {
			if at != j.entries[n].At || !bytes.Equal(data, j.data[n]) {
				t.Fatalf("something else at %s", at)
			}
			got, n = append(got, n), n+1
			return true
		})
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		if n == before || err != nil {
			n++
		}
	}
	return got
}

// Small entries lie in the tables. One that is broken there is missed, as damage, and no other one is.
func TestASmallEntryOfABrokenTableIsMissed(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		made := withTables(t, 40, closed)
		for _, lost := range []int{0, 4, 8} { // the last one is the last of a table
			h := made.copied(t)
			copyDir(t, made.cfg.Dir, h.cfg.Dir)
			hit := 0
			for _, name := range files(t, h.cfg, "*.sst") {
				b, err := os.ReadFile(name)
				must(t, err)
				if at := bytes.Index(b, h.journals[0].data[lost]); at >= 0 {
					flip(t, name, int64(at+80), 1)
					hit++
				}
			}
			if hit != 1 {
				t.Fatalf("entry %d is in %d tables", lost, hit)
			}
			for range 2 {
				s := mustOpen(t, h.cfg)
				if info, _ := s.Segment(1); !info.Damaged {
					t.Errorf("entry %d, closed %v: taken for whole: %+v", lost, closed, info)
				}
				want := slices.DeleteFunc(indices(12), func(n int) bool { return n == lost })
				if got := h.journals[0].readable(t, s); !slices.Equal(got, want) {
					t.Errorf("entry %d, closed %v: read %v", lost, closed, got)
				}
				if at, err := s.Claim(1); err != nil || at != h.journals[0].at {
					t.Errorf("entry %d, closed %v: claims %s: %v", lost, closed, at, err)
				}
				h.journals[1].mustHold(t, s, 12)
				mustClose(t, s)
			}
		}
	}
}

func indices(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// What the last table held is told by no mark. Of nobody can be known then how far it reached, whole as it looks.
func TestALostTableThatNoMarkTellsOf(t *testing.T) {
	t.Parallel()
	for _, size := range []int{40, 300} {
		h := withTables(t, size, false)
		ledger := filepath.Join(h.cfg.Dir, "ledger")
		old := filepath.Join(t.TempDir(), "ledger")
		copyFile(t, ledger, old)
		s := mustOpen(t, h.cfg)
		h.cfg = crashCopy(t, h.cfg) // what was in the WAL is in a table now
		mustClose(t, s)
		ledger = filepath.Join(h.cfg.Dir, "ledger")
		tables := files(t, h.cfg, "*.sst")
		if len(tables) < 4 {
			t.Fatalf("tables: %v", tables)
		}
		copyFile(t, old, ledger)
		flip(t, tables[3], 30, 1)
		for range 2 {
			s := mustOpen(t, h.cfg)
			for _, j := range h.journals {
				if info, _ := s.Segment(j.id); !info.Damaged {
					t.Errorf("size %d: taken for whole: %+v", size, info)
				}
				if at, err := s.Claim(j.id); !errors.Is(err, ErrConflict) {
					t.Errorf("size %d: claims %s: %v", size, at, err)
				}
				if got := j.readable(t, s); len(got) < 11 || size >= valueThreshold && len(got) != 12 {
					t.Errorf("size %d: read %v", size, got)
				}
			}
			mustClose(t, s)
		}
	}
}

// A value that was written before a crash and that no key names was never there. It does not come when a table is mended later.
func TestAMendedTableHasNoUnwrittenEntry(t *testing.T) {
	t.Parallel()
	h := withTables(t, 300, false)
	j := h.journals[0]
	for _, name := range files(t, h.cfg, "*.mem") {
		b, err := os.ReadFile(name)
		must(t, err)
		// Both segments' last entries are one transaction, in any order.
		at := min(bytes.Index(b, entryKey(1, j.entries[11].At)), bytes.Index(b, entryKey(2, h.journals[1].entries[11].At)))
		if at >= 0 {
			clear(b[at-5:])
			must(t, os.WriteFile(name, b, 0o644))
		}
	}
	must(t, os.Truncate(filepath.Join(h.cfg.Dir, "ledger"), 0)) // it was killed before the marks were written
	s := mustOpen(t, h.cfg)
	j.mustHold(t, s, 11)
	h.journals[1].mustHold(t, s, 11)
	must(t, s.recordMarks([]mq.SegmentID{1, 2}))
	must(t, s.ledger.record(s.collectMoved))
	h.cfg = crashCopy(t, h.cfg)
	mustClose(t, s)
	tables := files(t, h.cfg, "*.sst")
	flip(t, tables[len(tables)-1], 30, 1)
	for range 2 {
		s := mustOpen(t, h.cfg)
		j.mustHold(t, s, 11)
		mustClose(t, s)
	}
}

// What a removed segment, and an earlier one of the same number, has in a broken table does not come back.
func TestAMendedTableHasNothingOfARemovedSegment(t *testing.T) {
	t.Parallel()
	for _, size := range []int{40, 300} {
		h := withTables(t, size, true)
		s := mustOpen(t, h.cfg)
		must(t, s.RemoveSegments([]mq.SegmentID{1}))
		mustClose(t, s)
		for _, name := range files(t, h.cfg, "*.sst") {
			flip(t, name, 40, 1) // within the first entry of the first segment
		}
		gone := h.journals[0]
		again := newJournal(1)
		for i := range 3 {
			s = mustOpen(t, h.cfg)
			if i == 0 {
				if info, ok := s.Segment(1); ok {
					t.Fatalf("it is back: %+v", info)
				}
				mustCreate(t, s, 1)
			}
			mustAppend(t, s, again.next(3, size))
			again.mustHold(t, s, i+1)
			h.journals[1].mustHold(t, s, 12)
			mustClose(t, s)
			for _, name := range files(t, h.cfg, "*.sst") {
				if b, err := os.ReadFile(name); err != nil || bytes.Contains(b, gone.data[1]) {
					t.Fatalf("%s has an entry of the removed segment: %v", name, err)
				}
			}
		}
	}
}

// A crash at any step of the mending leaves what the next start mends as if there had been none.
func TestACrashWhileTablesAreMended(t *testing.T) {
	t.Parallel()
	for _, size := range []int{40, 300} {
		made := withTables(t, size, true)
		must(t, os.Remove(listPath(filepath.Join(made.cfg.Dir, "volumes"), 1))) // as after a crash; the marks are there
		tables := files(t, made.cfg, "*.sst")
		if size == 40 {
			for _, name := range tables[:2] {
				b, err := os.ReadFile(name)
				must(t, err)
				flip(t, name, int64(bytes.Index(b, made.journals[0].data[4*slices.Index(tables, name)])+80), 1)
			}
		} else {
			flip(t, tables[0], 40, 1)
			flip(t, tables[1], 40, 1)
		}
		flip(t, files(t, made.cfg, "MANIFEST")[0], 10, 1)
		mend := func(dir string) error {
			inspected, err := inspectTables(dir, badgerOptions(dir, false, nil))
			if err != nil {
				return err
			}
			return inspected.mend(func([]uint64) func(mq.SegmentID, mq.Position) bool {
				return func(mq.SegmentID, mq.Position) bool { return true }
			})
		}
		for name, crash := range map[string]func(dir string, tables []string) error{
			"before it":               func(string, []string) error { return nil },
			"a table is put aside":    func(_ string, tables []string) error { return putAside(tables[0]) },
			"both are":                func(_ string, tables []string) error { return errors.Join(putAside(tables[0]), putAside(tables[1])) },
			"a new one is half there": func(_ string, tables []string) error { return os.WriteFile(tables[0]+".tmp", []byte("half"), 0o644) },
			"one is replaced": func(dir string, tables []string) error {
				first, second := tables[0]+".old", tables[1]+".old"
				for i, name := range []string{first, second} {
					if err := os.Link(tables[i], name); err != nil {
						return err
					}
				}
				return errors.Join(mend(dir), os.Rename(second, tables[1]), os.Remove(tables[1]+brokenExt), os.Remove(first),
					os.Rename(filepath.Join(dir, "MANIFEST"+brokenExt), filepath.Join(dir, "MANIFEST")))
			},
			"all but the manifest": func(dir string, _ []string) error {
				return errors.Join(mend(dir), os.Remove(filepath.Join(dir, "MANIFEST")))
			},
			"nobody is told": func(dir string, _ []string) error { return mend(dir) },
		} {
			h := made.copied(t)
			copyDir(t, made.cfg.Dir, h.cfg.Dir)
			dir := filepath.Join(h.cfg.Dir, "volumes", "000001")
			must(t, crash(dir, files(t, h.cfg, "*.sst")))
			if size >= valueThreshold {
				h.mustBeHealed(t, name)
				continue
			}
			for range 2 {
				s := mustOpen(t, h.cfg)
				if info, _ := s.Segment(1); !info.Damaged {
					t.Errorf("%s: taken for whole: %+v", name, info)
				}
				if got := h.journals[0].readable(t, s); len(got) != 10 {
					t.Errorf("%s: read %v", name, got)
				}
				h.journals[1].mustHold(t, s, 12)
				mustClose(t, s)
			}
		}
	}
}

// A closed volume is mended by who reads from it first. What is missing is damage of its segment from then on, also of a sealed one,
// which is believed to be what the list says while nobody looks.
func TestAClosedVolumeIsMendedWhenItIsRead(t *testing.T) {
	t.Parallel()
	for _, size := range []int{40, 300} {
		cfg := testConfig(t.TempDir())
		cfg.VolumeBytes = 8 << 10
		s := mustOpen(t, cfg)
		mustCreate(t, s, 1, 2)
		a, b := newJournal(1), newJournal(2)
		for range 400 {
			mustAppend(t, s, a.next(1, size), b.next(1, size))
		}
		must(t, errors.Join(s.SetEnd(1, a.at), s.SetEnd(2, b.at)))
		mustReclaim(t, s)
		mustClose(t, s)
		l, err := readList(s.root, 2)
		if err != nil || l == nil || l.Active || len(l.Parts) != 2 {
			t.Fatalf("the list of volume 2: %+v, %v", l, err)
		}
		missing := -1
		for _, name := range files(t, Config{Dir: cfg.Dir}, "*.sst") {
			if !strings.Contains(name, "000002"+string(filepath.Separator)) {
				continue
			}
			content, err := os.ReadFile(name)
			must(t, err)
			at := 30
			for n := range a.data {
				if i := bytes.Index(content, a.data[n]); i >= 0 && missing < 0 {
					missing, at = n, i+80
				}
			}
			flip(t, name, int64(at), 1)
		}
		if (missing >= 0) != (size < valueThreshold) {
			t.Fatalf("entry %d is in the table", missing)
		}
		for i := range 2 {
			s = mustOpen(t, cfg)
			if info, _ := s.Segment(1); i == 0 && info.Damaged {
				t.Fatal("the test's damage is seen without a read")
			}
			if missing < 0 {
				a.mustHold(t, s, 400)
				must(t, s.Verify(1))
			} else {
				// Of the other segment: what is missed is not in what is read.
				b.mustHold(t, s, 400)
				if info, _ := s.Segment(1); !info.Damaged {
					t.Errorf("taken for whole: %+v", info)
				}
				want := slices.DeleteFunc(indices(400), func(n int) bool { return n == missing })
				if got := a.readable(t, s); !slices.Equal(got, want) {
					t.Errorf("%d of 400 are read, entry %d is broken", len(got), missing)
				}
			}
			b.mustHold(t, s, 400)
			if left := files(t, cfg, "*"+brokenExt); len(left) > 0 {
				t.Errorf("not told: %v", left)
			}
			mustClose(t, s)
		}
	}
}
