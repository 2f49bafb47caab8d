package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/splashdam/splashdam/shared/mq"
)

// torn is a store with a segment (1) of 200 entries in many volumes, sealed and ended, of which entry 77 is broken, beside one (2)
// that is whole.
type torn struct {
	cfg       Config
	s         *Store
	j, beside *journal
}

func newTorn(t *testing.T) *torn {
	t.Helper()
	o := &torn{cfg: testConfig(t.TempDir()), j: newJournal(1), beside: newJournal(2)}
	o.cfg.VolumeBytes = 64 << 10
	o.s = mustOpen(t, o.cfg)
	mustCreate(t, o.s, 1, 2)
	rng := rand.New(rand.NewPCG(21, 4))
	for i := range 20 {
		o.j.fill(t, o.s, rng, 10, 2000)
		if i == 7 {
			spoilValue(t, o.s.active, entryKey(1, o.j.entries[77].At))
		}
		o.beside.fill(t, o.s, rng, 10, 2000)
	}
	if err := errors.Join(o.s.SealSegments([]mq.SegmentID{1}), o.s.SetEnd(1, o.j.at)); err != nil {
		t.Fatal(err)
	}
	if err := o.s.Verify(1); !errors.Is(err, ErrDamaged) {
		t.Fatalf("the damage is not noticed: %v", err)
	}
	return o
}

// spoilValue makes something else of a value that was written last.
func spoilValue(t *testing.T, v *volume, key []byte) {
	t.Helper()
	txn := v.db.NewTransactionAt(v.ts.Load(), true)
	defer txn.Discard()
	if err := errors.Join(txn.SetEntry(badger.NewEntry(key, []byte("broken"))), v.commit(txn)); err != nil {
		t.Fatal(err)
	}
}

// begin replaces the first n entries.
func (o *torn) begin(t *testing.T, n int) *Replacement {
	t.Helper()
	r, err := o.s.Replace(segmentOf(1, mq.Position{}), o.j.at)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 10 {
		if err := r.Add(o.j.data[i:min(i+10, n)]...); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// mustBeTorn checks that the old copy is served, as damaged as it was.
func (o *torn) mustBeTorn(t *testing.T) {
	t.Helper()
	info, _ := o.s.Segment(1)
	at, err := o.s.Intact(1)
	if !info.Damaged || info.Count != 200 && info.Count != 77 || err != nil || at != o.j.entries[77].At {
		t.Fatalf("%+v is intact up to %s, %v", info, at, err)
	}
	for n := 78; n < 200; { // in pieces, where a start found the damage: what lies behind is not the copy's tail then
		before := n
		err = o.s.Scan(1, o.j.entries[n].At, func(at mq.Position, data []byte) bool {
			if at != o.j.entries[n].At || string(data) != string(o.j.data[n]) {
				t.Fatalf("something else at %s", at)
			}
			n++
			return true
		})
		if err != nil || n == before {
			t.Fatalf("behind the damage %d entries are read: %v", n-78, err)
		}
	}
	for n, e := range o.j.entries {
		if e.Count == 0 {
			continue
		}
		data, err := o.s.EntryAt(1, e.At.Offset)
		if n == 77 && err == nil || n != 77 && (err != nil || string(data) != string(o.j.data[n])) {
			t.Fatalf("entry %d at %s: %v", n, e.At, err)
		}
	}
}

func (o *torn) mustBeWhole(t *testing.T) {
	t.Helper()
	info, _ := o.s.Segment(1)
	if info.Damaged || !info.SealFlag || info.End == nil || *info.End != o.j.at {
		t.Fatalf("replaced: %+v", info)
	}
	o.j.mustHold(t, o.s, 200)
	o.beside.mustHold(t, o.s, 200)
	if err := errors.Join(o.s.Verify(1), o.s.Verify(2)); err != nil {
		t.Fatal(err)
	}
}

func (o *torn) restart(t *testing.T, crash bool) {
	t.Helper()
	cfg := o.cfg
	if crash {
		mustReclaim(t, o.s) // a copy of files that the janitor changes meanwhile is not what a process that is killed leaves
		cfg = crashCopy(t, cfg)
	}
	mustClose(t, o.s)
	o.cfg, o.s = cfg, mustOpen(t, cfg)
}

// Until it is committed a replacement changes nothing of what is read; then it is the copy, after a restart in order or a
// crash too, and the space of the old one is given back.
func TestReplacementTakesThePlaceOfADamagedCopy(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		o := newTorn(t)
		r := o.begin(t, 200)
		o.mustBeTorn(t)
		if _, err := o.s.Replace(segmentOf(1, mq.Position{}), o.j.at); !errors.Is(err, ErrConflict) {
			t.Fatalf("a second replacement: %v", err)
		}
		mustReclaim(t, o.s)
		if err := r.Commit(o.j.at); err != nil {
			t.Fatal(err)
		}
		if err := r.Abandon(); err != nil {
			t.Fatal(err)
		}
		o.mustBeWhole(t)
		o.restart(t, crash)
		o.mustBeWhole(t)
		if err := o.s.RemoveSegments([]mq.SegmentID{2}); err != nil {
			t.Fatal(err)
		}
		mustReclaim(t, o.s)
		var kept, live int64
		o.s.mu.RLock()
		for _, v := range o.s.volumes {
			if v.rolled {
				kept, live = kept+v.bytes, live+v.live
			}
		}
		o.s.mu.RUnlock()
		if info, _ := o.s.Segment(1); live > info.Bytes || kept > 5*info.Bytes {
			t.Errorf("closed volumes of %d bytes, %d living, for %d of entries", kept, live, info.Bytes)
		}
		o.j.mustHold(t, o.s, 200)
		mustClose(t, o.s)
	}
}

// What a crash leaves of a replacement is nothing: the damaged copy is there as it was, and can be replaced again, though the keys
// of the first try lie about.
func TestReplacementThatACrashInterrupts(t *testing.T) {
	t.Parallel()
	for n, crash := range map[int]bool{10: true, 130: false, 200: true} {
		t.Run(fmt.Sprint(n, " entries"), func(t *testing.T) {
			t.Parallel()
			o := newTorn(t)
			o.begin(t, n)
			o.restart(t, crash)
			o.mustBeTorn(t)
			if err := o.s.facts.log.rewrite(o.s.facts.content); err != nil {
				t.Fatal(err)
			}
			o.restart(t, true)
			o.mustBeTorn(t)
			if err := o.begin(t, 200).Commit(o.j.at); err != nil {
				t.Fatal(err)
			}
			o.mustBeWhole(t)
			o.restart(t, crash)
			o.mustBeWhole(t)
			mustClose(t, o.s)
		})
	}
}

// A replacement that is not whole, or is not what was written, takes nobody's place; nor does one of a segment that was removed.
func TestReplacementIsRefused(t *testing.T) {
	t.Parallel()
	o := newTorn(t)
	r := o.begin(t, 199)
	if err := r.Commit(o.j.at); !errors.Is(err, ErrConflict) {
		t.Fatalf("one that is short: %v", err)
	}
	other := o.j.entries[199]
	other.Stamp++
	if err := r.Add(other.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(o.j.at); !errors.Is(err, ErrConflict) {
		t.Fatalf("one that differs: %v", err)
	}
	if err := r.Abandon(); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(o.j.data[199]); err == nil {
		t.Fatal("an abandoned one takes entries")
	}
	o.mustBeTorn(t)
	if errs, err := appendAll(o.s, o.j.peek()); err != nil || !errors.Is(errs[0], ErrDamaged) && !errors.Is(errs[0], ErrSealed) {
		t.Fatalf("the damaged copy takes entries: %v %v", errs, err)
	}
	if _, err := o.s.Replace(segmentOf(2, mq.Position{}), o.beside.at); !errors.Is(err, ErrConflict) {
		t.Fatalf("a whole copy is replaced: %v", err)
	}
	if _, err := o.s.Replace(segmentOf(9, mq.Position{}), o.beside.at); !errors.Is(err, ErrUnknownSegment) {
		t.Fatalf("no copy is replaced: %v", err)
	}
	r = o.begin(t, 100)
	if err := o.s.RemoveSegments([]mq.SegmentID{1}); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(o.j.data[100]); !errors.Is(err, ErrUnknownSegment) {
		t.Fatalf("of a segment that was removed: %v", err)
	}
	if err := r.Commit(o.j.entries[100].At); !errors.Is(err, ErrUnknownSegment) {
		t.Fatalf("of a segment that was removed: %v", err)
	}
	mustReclaim(t, o.s)
	o.beside.mustHold(t, o.s, 200)
}

// A process that is killed in one replacement after another may leave volumes of each, that have no list: none of what is in them
// is the old copy's.
func TestVolumesOfAllReplacementsAreNotTheOldCopys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := openFacts(dir, &ledger{})
	if err != nil {
		t.Fatal(err)
	}
	seg := segmentOf(1, mq.Position{})
	if err := f.record(fact{Create: &seg, Gen: 1, First: 2}, fact{Replacing: 1, Gen: 2, First: 5}, fact{Replacing: 1, Gen: 3, First: 7}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.log.rewrite(f.content), f.log.close()); err != nil {
		t.Fatal(err)
	}
	if f, err = openFacts(dir, &ledger{}); err != nil {
		t.Fatal(err)
	}
	defer f.log.close()
	s := f.segments[1]
	for number, may := range map[uint32]bool{1: false, 2: true, 4: true, 5: false, 6: false, 7: false} {
		if s.mayLieIn(number) != may {
			t.Errorf("volume %d may hold entries of the old copy: %v", number, !may)
		}
	}
	if err := f.record(fact{Create: &seg, Gen: 3, First: 7}); err != nil {
		t.Fatal(err)
	}
	if s = f.segments[1]; s.mayLieIn(6) || !s.mayLieIn(7) || !s.mayLieIn(9) {
		t.Errorf("the new copy lies in volumes from %d on, below %d", s.first, s.below)
	}
}
