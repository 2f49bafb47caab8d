package store

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// mustEndAt decides an end and checks that the segment holds exactly the entries below it, now and after a restart.
func mustEndAt(t *testing.T, cfg Config, s *Store, j *journal, end mq.Position) {
	t.Helper()
	if err := s.SetEnd(j.id, end); err != nil {
		t.Fatal(err)
	}
	n := 0
	for n < len(j.entries) && j.entries[n].At.Before(end) {
		n++
	}
	for range 2 {
		info, _ := s.Segment(j.id)
		if info.Damaged || info.Tail != end || info.Count != uint64(n) || info.End == nil || *info.End != end {
			t.Fatalf("after the end was decided at %s: %+v, want %d entries", end, info, n)
		}
		if at, err := s.Intact(j.id); err != nil || at != end {
			t.Fatalf("intact up to %s (%v), not %s", at, err, end)
		}
		j.mustHold(t, s, n)
		if err := s.Verify(j.id); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		s = mustOpen(t, cfg)
	}
}

// A damaged replica of which the end is decided where it is intact is a whole one from then on; an end beyond that
// leaves it damaged.
func TestEndWithinTheIntactPrefixMends(t *testing.T) {
	t.Parallel()
	h := prepare(t, true, 400)
	for _, name := range files(t, h.cfg, "*.mem") {
		if strings.Contains(name, "000001"+string(filepath.Separator)) {
			flip(t, name, 8<<10, 4<<10)
		}
	}
	s := mustOpen(t, h.cfg)
	for _, j := range h.journals {
		info, _ := s.Segment(j.id)
		if !info.Damaged {
			continue
		}
		at, err := s.Intact(j.id)
		if err != nil || at != info.Tail {
			t.Fatalf("segment %d: intact up to %s (%v), its tail is %s", j.id, at, err, info.Tail)
		}
		mustEndAt(t, h.cfg, s, j, at)
		return
	}
	t.Fatal("nothing was damaged: the test shows nothing")
}

// The same for damage that a read meets while the store is open, in the middle of a segment whose tail is longer.
func TestDamageMetByAReadIsMendedToo(t *testing.T) {
	t.Parallel()
	for _, reopen := range []bool{false, true} {
		cfg := testConfig(t.TempDir())
		s := mustOpen(t, cfg)
		mustCreate(t, s, 1)
		j := newJournal(1)
		j.fill(t, s, rand.New(rand.NewPCG(3, 4)), 40, 500)
		n := len(j.entries) / 2
		if err := s.active.deleteKeys([][]byte{entryKey(1, j.entries[n].At)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(1); err == nil {
			t.Fatal("a missing entry is not noticed")
		}
		if reopen {
			mustClose(t, s)
			s = mustOpen(t, cfg)
		}
		info, _ := s.Segment(1)
		at, err := s.Intact(1)
		if !info.Damaged || err != nil || at != j.entries[n].At {
			t.Fatalf("%+v is intact up to %s (%v), not %s", info, at, err, j.entries[n].At)
		}
		mustEndAt(t, cfg, s, j, at)
	}
}
