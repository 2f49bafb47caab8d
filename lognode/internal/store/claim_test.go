package store

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// unended is a store with an open segment (1) of 60 entries in several volumes, of which the ledger tells the first 50, that was killed.
func unended(t *testing.T, harm func(s *Store, j *journal)) (Config, *journal) {
	t.Helper()
	cfg := testConfig(t.TempDir())
	cfg.VolumeBytes = 24 << 10
	cfg.LedgerEvery = 1 << 40 // the mark is where it is put
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1)
	j := newJournal(1)
	rng := rand.New(rand.NewPCG(7, 7))
	for range 5 {
		j.fill(t, s, rng, 10, 1500)
		mustReclaim(t, s) // the next volume is there when the first one is half full: which entries lie where is no matter of time
	}
	for range 2 {
		if err := s.recordMarks([]mq.SegmentID{1}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		j.fill(t, s, rng, 1, 1500)
	}
	harm(s, j)
	mustReclaim(t, s)
	crashed := crashCopy(t, cfg)
	mustClose(t, s)
	return crashed, j
}

// misses takes entries away where they are, breaks spoils their values.
func misses(t *testing.T, s *Store, j *journal, entries ...int) {
	t.Helper()
	for _, n := range entries {
		s.mu.RLock()
		vol := slices.IndexFunc(s.segments[1].parts, func(p *part) bool { return j.entries[n].At.Before(p.next) })
		v := s.segments[1].parts[vol].vol
		s.mu.RUnlock()
		if v != s.active {
			t.Fatalf("entry %d lies in a volume that is closed", n)
		}
		if err := v.deleteKeys([][]byte{entryKey(1, j.entries[n].At)}); err != nil {
			t.Fatal(err)
		}
	}
}

func breaks(t *testing.T, s *Store, j *journal, entries ...int) {
	t.Helper()
	for _, n := range entries {
		spoilValue(t, s.active, entryKey(1, j.entries[n].At))
	}
}

// How far a damaged copy of an open segment reached is known where its last entry is there and intact, at or behind the ledger's mark.
func TestClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm  func(t *testing.T, s *Store, j *journal)
		known bool
	}{
		"one before the last is missing":  {func(t *testing.T, s *Store, j *journal) { misses(t, s, j, 58) }, true},
		"some before the last are broken": {func(t *testing.T, s *Store, j *journal) { breaks(t, s, j, 55, 57, 58) }, true},
		"the last one is broken, too":     {func(t *testing.T, s *Store, j *journal) { breaks(t, s, j, 57, 59) }, false},
		"the last one is missing, too": {func(t *testing.T, s *Store, j *journal) {
			if err := s.recordMarks([]mq.SegmentID{1}); err != nil {
				t.Fatal(err)
			}
			misses(t, s, j, 57, 59)
		}, false},
		"the one before the mark is broken": {func(t *testing.T, s *Store, j *journal) { breaks(t, s, j, 49, 51) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, j := unended(t, func(s *Store, j *journal) { c.harm(t, s, j) })
			for range 2 {
				s := mustOpen(t, cfg)
				if info, _ := s.Segment(1); !info.Damaged {
					t.Fatalf("not damaged: %+v", info)
				}
				if got := s.Unended(); len(got) != 1 || got[0].Segment.ID != 1 {
					t.Errorf("listed: %+v", got)
				}
				at, err := s.Claim(1)
				if c.known && (err != nil || at != j.at) || !c.known && !errors.Is(err, ErrConflict) {
					t.Errorf("claims %s, %v", at, err)
				}
				if !c.known {
					if _, err := s.Restore(1); !errors.Is(err, ErrConflict) {
						t.Errorf("restored: %v", err)
					}
					if err := s.active.deleteKeys([][]byte{entryKey(1, j.entries[59].At)}); err != nil { // as compaction leaves it out
						t.Fatal(err)
					}
				}
				mustClose(t, s)
			}
		})
	}
}

// mustClaimNothing opens a store twice: its copy of segment 1 is damaged, and does not know how far it reached. look is called each time.
func mustClaimNothing(t *testing.T, cfg Config, look func(*Store)) {
	t.Helper()
	for range 2 {
		s := mustOpen(t, cfg)
		if info, _ := s.Segment(1); !info.Damaged {
			t.Errorf("taken for whole: %+v", info)
		}
		if at, err := s.Claim(1); !errors.Is(err, ErrConflict) {
			t.Errorf("claims %s, %v", at, err)
		}
		look(s)
		mustClose(t, s)
	}
}

// With a volume that is gone, or marks that are, nobody knows what was in there; nor does a later start, which finds nothing strange.
func TestClaimIsNotKnownAfterALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, cfg Config){
		"of a volume": func(t *testing.T, cfg Config) { ruin(t, cfg.Dir+"/volumes/000002") },
		"of marks":    func(t *testing.T, cfg Config) { flip(t, cfg.Dir+"/ledger", 10, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, _ := unended(t, func(s *Store, j *journal) { breaks(t, s, j, 57) })
			lose(t, cfg)
			mustClaimNothing(t, cfg, func(s *Store) {
				if err := s.facts.log.rewrite(s.facts.content); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// The last volume holds what the ledger does not tell of yet. Without it a copy looks whole and is shorter than what it acknowledged; it
// must say so, at later starts, too. A copy of which the end is decided, and that is there, has nothing in it.
func TestEndMayBeInALostVolume(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	cfg.LedgerEvery = 1 << 40 // the mark is where it is put
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1, 2)
	j, other := newJournal(1), newJournal(2)
	mustAppend(t, s, j.next(1, 50), other.next(1, 50))
	if err := errors.Join(s.SetEnd(2, other.at), s.recordMarks([]mq.SegmentID{1, 2})); err != nil {
		t.Fatal(err)
	}
	if err := s.inOrder(func() error { return s.roll(true) }); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, j.next(1, 50))
	last := s.active.dir
	crashed := crashCopy(t, cfg)
	mustClose(t, s)
	ruin(t, strings.Replace(last, cfg.Dir, crashed.Dir, 1))
	mustClaimNothing(t, crashed, func(s *Store) {
		if info, _ := s.Segment(1); !info.Tail.Before(j.at) {
			t.Errorf("%+v", info)
		}
		if info, _ := s.Segment(2); info.Damaged || info.Tail != other.at {
			t.Errorf("%+v", info)
		}
	})
}

// A restored copy is what it was: as long, open or with its seal flag, and it takes what comes next; also after a crash. Until all is
// there it is what it was before, and it becomes nothing shorter or longer, and nothing whose end is decided meanwhile.
func TestRestore(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		cfg, j := unended(t, func(s *Store, j *journal) {
			if sealed {
				if err := s.SealSegments([]mq.SegmentID{1}); err != nil {
					t.Fatal(err)
				}
			}
			misses(t, s, j, 57)
		})
		s := mustOpen(t, cfg)
		r, err := s.Restore(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Add(j.data[:59]...); err != nil {
			t.Fatal(err)
		}
		for _, at := range []mq.Position{j.at, j.entries[59].At} {
			if err := r.Commit(at); !errors.Is(err, ErrConflict) {
				t.Fatalf("one that is short: %v", err)
			}
		}
		if info, _ := s.Segment(1); !info.Damaged {
			t.Fatal("it is whole before it is committed")
		}
		if err := r.Add(j.data[59]); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Commit(j.at), r.Abandon()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			info, _ := s.Segment(1)
			if info.Damaged || info.SealFlag != sealed || info.End != nil || info.Segment.Compared != 1 {
				t.Fatalf("restored: %+v", info)
			}
			j.mustHold(t, s, 60)
			if err := s.Verify(1); err != nil {
				t.Fatal(err)
			}
			crashed := crashCopy(t, cfg)
			mustClose(t, s)
			cfg = crashed
			s = mustOpen(t, cfg)
		}
		errs, err := appendAll(s, j.next(1, 100))
		if err != nil || sealed != errors.Is(errs[0], ErrSealed) || !sealed && errs[0] != nil {
			t.Fatalf("sealed %v: %v %v", sealed, errs, err)
		}
		mustClose(t, s)
	}
}

func TestRestoreWhileAnEndIsDecided(t *testing.T) {
	t.Parallel()
	cfg, j := unended(t, func(s *Store, j *journal) { misses(t, s, j, 57) })
	s := mustOpen(t, cfg)
	r, err := s.Restore(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Add(j.data...); err != nil {
		t.Fatal(err)
	}
	if err := s.SetEnd(1, j.entries[55].At); err != nil { // it is intact up to there
		t.Fatal(err)
	}
	if err := r.Commit(j.at); !errors.Is(err, ErrConflict) {
		t.Fatalf("committed behind the end: %v", err)
	}
	if err := r.Abandon(); err != nil {
		t.Fatal(err)
	}
	if info, _ := s.Segment(1); info.Damaged || info.Tail != j.entries[55].At {
		t.Fatalf("%+v", info)
	}
	if _, err := s.Restore(1); !errors.Is(err, ErrConflict) {
		t.Fatalf("a whole copy is restored: %v", err)
	}
	if _, err := s.Restore(9); !errors.Is(err, ErrUnknownSegment) {
		t.Fatalf("no copy is restored: %v", err)
	}
}

// The account of a damaged copy may be wrong itself. Who finds that other copies have the new one's says so, and it is taken.
func TestReplacementThatOthersVouchFor(t *testing.T) {
	t.Parallel()
	o := newTorn(t)
	o.s.mu.Lock()
	o.s.segments[1].sum++
	o.s.mu.Unlock()
	r := o.begin(t, 200)
	if err := r.Commit(o.j.at); !errors.Is(err, ErrAccount) || !errors.Is(err, ErrConflict) {
		t.Fatalf("another account: %v", err)
	}
	var sum uint64
	for _, data := range o.j.data {
		sum += entrySum(data)
	}
	if n, got := r.Account(); n != 200 || got != sum {
		t.Fatalf("the new copy has %d entries of sum %x, not %x", n, got, sum)
	}
	if err := r.CommitVouched(o.j.entries[199].At); !errors.Is(err, ErrConflict) {
		t.Fatalf("vouched for, and short: %v", err)
	}
	if err := r.CommitVouched(o.j.at); err != nil {
		t.Fatal(err)
	}
	o.mustBeWhole(t)
	o.restart(t, true)
	o.mustBeWhole(t)
	mustClose(t, o.s)
}
