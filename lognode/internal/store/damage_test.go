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

// harm is a store of three segments on disk that was killed or closed, to be damaged.
type harm struct {
	cfg      Config
	journals []*journal
}

// prepare makes it. crash leaves the directory as a killed process does, with the ledger up to date.
func prepare(t *testing.T, crash bool, entries int) harm {
	t.Helper()
	h := harm{cfg: testConfig(t.TempDir())}
	s := mustOpen(t, h.cfg)
	rng := rand.New(rand.NewPCG(11, 12))
	for id := mq.SegmentID(1); id <= 3; id++ {
		mustCreate(t, s, id)
		j := newJournal(id)
		h.journals = append(h.journals, j)
		for range 4 {
			j.fill(t, s, rng, entries/4, 800)
		}
	}
	if crash {
		if err := s.ledger.record(s.collectMoved); err != nil {
			t.Fatal(err)
		}
		h.cfg = crashCopy(t, h.cfg)
	}
	mustClose(t, s)
	return h
}

// mustBeWhole opens the store and checks that nothing is missing.
func (h harm) mustBeWhole(t *testing.T) {
	t.Helper()
	s := mustOpen(t, h.cfg)
	for _, j := range h.journals {
		j.mustHold(t, s, len(j.entries))
	}
	mustClose(t, s)
}

// mustShow opens the store and checks that nothing is silently short: every segment is whole or damaged, at least
// one is damaged, and what is left of a damaged one is an intact prefix.
func (h harm) mustShow(t *testing.T) {
	t.Helper()
	for range 2 { // damage still shows after another restart
		s := mustOpen(t, h.cfg)
		damaged := 0
		for _, j := range h.journals {
			info, ok := s.Segment(j.id)
			if !ok {
				t.Fatalf("segment %d is unknown", j.id)
			}
			if !info.Damaged {
				j.mustHold(t, s, len(j.entries))
				continue
			}
			damaged++
			n := 0
			if err := s.Scan(j.id, mq.Position{}, func(at mq.Position, data []byte) bool {
				if at != j.entries[n].At || string(data) != string(j.data[n]) {
					t.Fatalf("segment %d serves something else at %s", j.id, at)
				}
				n++
				return true
			}); err != nil {
				t.Fatal(err)
			}
			if uint64(n) != info.Count || n >= len(j.entries) {
				t.Fatalf("segment %d: %d of %d entries are served, it says %d", j.id, n, len(j.entries), info.Count)
			}
			errs, err := appendAll(s, Append{Segment: j.id, At: info.Tail, Next: info.Tail.Next(1),
				Data: (&mq.Entry{Segment: j.id, At: info.Tail, Prev: info.Last, Count: 1}).AppendTo(nil)})
			if err != nil || !errors.Is(errs[0], ErrDamaged) {
				t.Fatalf("a damaged segment takes entries: %v %v", errs, err)
			}
		}
		if damaged == 0 {
			t.Fatal("the damage does not show")
		}
		// Whole segments and new ones go on being written.
		mustCreate(t, s, 50)
		fresh := newJournal(50)
		fresh.fill(t, s, rand.New(rand.NewPCG(1, 1)), 10, 500)
		fresh.mustHold(t, s, 10)
		if err := s.RemoveSegments([]mq.SegmentID{50}); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
	}
}

func files(t *testing.T, cfg Config, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(cfg.Dir, "volumes", "*", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func flip(t *testing.T, name string, off int64, n int) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, off); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 0xFF
	}
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

// Museum 36: Badger opens without an error after a damaged block of its WAL, and has lost what lay behind.
func TestMuseum36DamagedWALShows(t *testing.T) {
	t.Parallel()
	h := prepare(t, true, 400)
	wals := files(t, h.cfg, "*.mem")
	for _, name := range wals {
		if strings.Contains(name, "000001"+string(filepath.Separator)) {
			flip(t, name, 8<<10, 4<<10)
		}
	}
	if len(wals) == 0 {
		t.Fatal("no WAL")
	}
	h.mustShow(t)
}

// Museum 36: the same with a WAL that lost all of its bytes while it was in use.
func TestMuseum36EmptiedWALShows(t *testing.T) {
	t.Parallel()
	h := prepare(t, true, 400)
	for _, name := range files(t, h.cfg, "*.mem") {
		if strings.Contains(name, "000001"+string(filepath.Separator)) {
			if err := os.Truncate(name, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.mustShow(t)
}

// A process that is killed while Badger makes or removes a log leaves one without a byte: Badger truncates a WAL before it
// unlinks it, when all of it is in a table. Nothing is damaged by that.
func TestEmptyLogsAreNoDamage(t *testing.T) {
	t.Parallel()
	for _, left := range [][]string{{"00001.mem"}, {"00002.mem"}, {"000002.vlog"}, {"00001.mem", "000002.vlog"}} {
		h := prepare(t, false, 400)
		for _, name := range left {
			if err := os.WriteFile(filepath.Join(h.cfg.Dir, "volumes", "000001", name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		h.mustBeWhole(t)
	}
}

// A value log that was cut within its own head holds nothing: the store opens, and whoever reads a value that was there is told.
func TestValueLogCutInItsHeadShows(t *testing.T) {
	t.Parallel()
	h := prepare(t, false, 400)
	if err := os.Truncate(filepath.Join(h.cfg.Dir, "volumes", "000001", "000001.vlog"), 7); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, h.cfg)
	for _, j := range h.journals {
		n := 0
		err := s.Scan(j.id, mq.Position{}, func(at mq.Position, data []byte) bool {
			if at != j.entries[n].At || string(data) != string(j.data[n]) {
				t.Fatalf("segment %d serves something else at %s", j.id, at)
			}
			n++
			return true
		})
		if !errors.Is(err, ErrDamaged) || n == len(j.entries) {
			t.Errorf("segment %d: %d of %d entries, %v", j.id, n, len(j.entries), err)
		}
	}
	mustClose(t, s)
}

// A process that is killed while Badger writes a table leaves a part of it, which no manifest names, beside the WAL. Nothing is
// damaged by that.
func TestUnfinishedTablesAreNoDamage(t *testing.T) {
	t.Parallel()
	for _, part := range [][]byte{nil, make([]byte, 4096), []byte("the begin of a table")} {
		h := prepare(t, true, 400)
		for _, wal := range files(t, h.cfg, "*.mem") {
			if err := os.WriteFile(filepath.Join(filepath.Dir(wal), "000009.sst"), part, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		h.mustBeWhole(t)
	}
}

// Museum 36: the same with a truncated MANIFEST, after which Badger even removes the tables. They are there, and nothing is lost.
func TestMuseum36TruncatedManifestIsMadeAnew(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{16, 8, 5, 0} {
		h := prepare(t, false, 80)
		for _, name := range files(t, h.cfg, "MANIFEST") {
			if err := os.Truncate(name, size); err != nil {
				t.Fatal(err)
			}
		}
		h.mustBeWhole(t)
	}
}

// Museum 36: a truncated table makes Badger panic, on a goroutine of its own.
func TestMuseum36TruncatedTableShows(t *testing.T) {
	t.Parallel()
	for _, keep := range []int64{0, 3, 100, 2000} {
		h := prepare(t, false, 400)
		tables := files(t, h.cfg, "*.sst")
		if len(tables) == 0 {
			t.Fatal("no tables")
		}
		for _, name := range tables {
			if err := os.Truncate(name, keep); err != nil {
				t.Fatal(err)
			}
		}
		h.mustShow(t)
	}
}

func TestDamagedTableBlockShows(t *testing.T) {
	t.Parallel()
	h := prepare(t, false, 400)
	for _, name := range files(t, h.cfg, "*.sst") {
		flip(t, name, 300, 16)
	}
	h.mustShow(t)
}

func TestMissingVolumeShows(t *testing.T) {
	t.Parallel()
	h := prepare(t, false, 80)
	for _, name := range files(t, h.cfg, "") {
		if strings.HasSuffix(filepath.Clean(name), "000001") {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.mustShow(t)
}

// A value that was damaged below the ledger's mark is found by the read that meets it: an error, a count, and a
// segment that says so; never other bytes.
func TestDamagedValueIsNotServed(t *testing.T) {
	t.Parallel()
	h := prepare(t, false, 400)
	for _, name := range files(t, h.cfg, "*.vlog") {
		if info, err := os.Stat(name); err == nil && info.Size() > 50_000 {
			flip(t, name, 40_000, 100)
		}
	}
	s := mustOpen(t, h.cfg)
	broken := 0
	for _, j := range h.journals {
		n := 0
		err := s.Scan(j.id, mq.Position{}, func(at mq.Position, data []byte) bool {
			if string(data) != string(j.data[n]) {
				t.Fatalf("segment %d serves something else at %s", j.id, at)
			}
			n++
			return true
		})
		info, _ := s.Segment(j.id)
		if errors.Is(err, ErrDamaged) != info.Damaged || errors.Is(err, ErrDamaged) != (n < len(j.entries)) {
			t.Fatalf("segment %d: %d of %d entries, %v, %+v", j.id, n, len(j.entries), err, info)
		}
		if info.Damaged {
			broken++
			if err := s.Verify(j.id); !errors.Is(err, ErrDamaged) {
				t.Fatalf("verify: %v", err)
			}
		}
	}
	if broken == 0 {
		t.Fatal("the damaged value was not met")
	}
	if s.Err() != nil {
		t.Fatalf("a damaged value stopped the store: %v", s.Err())
	}
	// It stays known over a restart, and goes when the replica is removed and fetched again.
	mustClose(t, s)
	s = mustOpen(t, h.cfg)
	healed := h.heal(t, s)
	if healed != broken {
		t.Fatalf("%d segments were damaged, after a restart %d are", broken, healed)
	}
	mustClose(t, s)
	h.mustBeWhole(t)
}

// A damaged header of one entry in the value log is no damage of what lies behind it or of the whole volume, whatever lengths it
// seems to have; not even of the entry, since the next one tells where it ends.
func TestDamagedHeaderIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][]byte{
		"no varint":     bytes.Repeat([]byte{0xFF}, 32),
		"4 GiB":         {0x40, 0, 28, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 0},
		"a key of 1 GB": {0x40, 0, 0x80, 0x80, 0x80, 0x80, 4, 1, 0},
		"no end":        {0x40, 0, 28, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
	} {
		t.Run(name, func(t *testing.T) {
			h := prepare(t, false, 400)
			j := h.journals[2] // the last one written
			value := filepath.Join(h.cfg.Dir, "volumes", "000001", "000001.vlog")
			b, err := os.ReadFile(value)
			if err != nil {
				t.Fatal(err)
			}
			// Before a value lie its key of 20 bytes with Badger's version of 8, and a header of 2 + 1 + 2 + 1 bytes. Which one is
			// the last in the log, with nothing behind it that shows where it ends, is not the same in each run.
			at := 0
			for big := 300; ; big++ {
				value := j.data[big]
				end := strings.LastIndex(string(b), string(value)) + len(value) + 4
				if at = end - 4 - len(value) - 28 - 6; len(value) >= valueThreshold && end < len(b) {
					break
				}
			}
			if at < 0 || b[at+2] != 28 {
				t.Fatalf("no header at %d", at)
			}
			copy(b[at:], header)
			if err := os.WriteFile(value, b, 0o644); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, h.cfg)
			for _, j := range h.journals {
				j.mustHold(t, s, 400)
				if err := s.Verify(j.id); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// heal removes the damaged segments, fetches them again and says how many they were.
func (h harm) heal(t *testing.T, s *Store) int {
	t.Helper()
	healed := 0
	for _, j := range h.journals {
		if info, _ := s.Segment(j.id); info.Damaged {
			healed++
			if err := s.RemoveSegments([]mq.SegmentID{j.id}); err != nil {
				t.Fatal(err)
			}
			mustCreate(t, s, j.id)
			copies := make([]Append, len(j.entries))
			for i, e := range j.entries {
				copies[i] = Append{Segment: j.id, At: e.At, Next: e.Next(), Data: j.data[i]}
			}
			mustAppend(t, s, copies...)
		}
		j.mustHold(t, s, len(j.entries))
	}
	return healed
}

// What is broken beyond the ledger's mark was torn: it is cut and the segment goes on. The value log's end is
// damaged here, which holds the last entries; the ledger is from before them.
func TestTornTailIsCut(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1)
	rng := rand.New(rand.NewPCG(2, 2))
	j := newJournal(1)
	j.fill(t, s, rng, 50, 800)
	if err := s.ledger.record(s.collectMoved); err != nil {
		t.Fatal(err)
	}
	ledger := filepath.Join(t.TempDir(), "ledger")
	copyFile(t, filepath.Join(cfg.Dir, "ledger"), ledger)
	for range 3 {
		// One transaction each: within one, Badger writes in any order, and it drops what is behind a broken value.
		mustAppend(t, s, j.next(1, 500))
	}
	v := filepath.Join(cfg.Dir, "volumes", "000001", "000001.vlog")
	crashed := crashCopy(t, cfg)
	copyFile(t, ledger, filepath.Join(crashed.Dir, "ledger"))
	name := filepath.Join(crashed.Dir, "volumes", "000001", "000001.vlog")
	b, err := os.ReadFile(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range j.data[51:] {
		off := strings.LastIndex(string(b), string(torn))
		if off < 0 {
			t.Fatal("an entry is not in the value log")
		}
		flip(t, name, int64(off+mq.EntryHeaderSize), 10)
	}
	mustClose(t, s)

	s = mustOpen(t, crashed)
	j.mustHold(t, s, 51)
	// The place is free again, for an entry that reaches over both that were cut, also after a restart.
	again := newJournal(1)
	again.at, again.prev, again.stamp = j.entries[51].At, j.entries[51].Prev, j.stamp
	again.entries, again.data = append(again.entries, j.entries[:51]...), append(again.data, j.data[:51]...)
	mustAppend(t, s, again.next(3, 700))
	again.mustHold(t, s, 52)
	mustClose(t, s)
	s = mustOpen(t, crashed)
	again.mustHold(t, s, 52)
}

// The same damage with something intact behind it is no torn end but a hole.
func TestHoleBeyondTheMarkShows(t *testing.T) {
	t.Parallel()
	h := prepare(t, true, 80)
	if err := os.Truncate(filepath.Join(h.cfg.Dir, "ledger"), 0); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(h.cfg.Dir, "volumes", "000001", "000001.vlog")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	j := h.journals[1]
	for i := 40; i < 60; i++ {
		if off := strings.Index(string(b), string(j.data[i])); off >= 0 {
			flip(t, name, int64(off+mq.EntryHeaderSize), 4)
			break
		}
	}
	s := mustOpen(t, h.cfg)
	if info, _ := s.Segment(j.id); !info.Damaged {
		t.Fatalf("%+v", info)
	}
	h.journals[0].mustHold(t, s, len(h.journals[0].entries))
}
