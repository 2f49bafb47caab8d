package store

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

func volumesOnDisk(t *testing.T, cfg Config) (numbers []uint32) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cfg.Dir, "volumes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if n, ok := parseVolumeName(e.Name()); ok && e.IsDir() {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Retention: segments that are removed give their space back, as directories.
func TestRemovalFreesTheDisk(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	cfg.VolumeBytes = 2 << 20
	s := mustOpen(t, cfg)
	rng := rand.New(rand.NewPCG(1, 1))
	keep := newJournal(1)
	mustCreate(t, s, 1)
	keep.fill(t, s, rng, 20, 1000)
	for id := mq.SegmentID(2); id < 14; id++ {
		mustCreate(t, s, id)
		newJournal(id).fill(t, s, rng, 100, 20_000) // about 1 MB
		mustReclaim(t, s)
	}
	full := dirSize(t, s.root)
	if full < 11<<20 {
		t.Fatalf("%d bytes on disk for about 12 MB of entries", full)
	}
	before := volumesOnDisk(t, cfg)
	for id := mq.SegmentID(2); id < 14; id++ {
		if err := s.RemoveSegments([]mq.SegmentID{id}); err != nil {
			t.Fatal(err)
		}
	}
	// The first volume holds the segment that is kept, and is mostly dead: its rest is copied forward.
	mustReclaim(t, s)
	after := volumesOnDisk(t, cfg)
	if slices.Contains(after, before[0]) {
		t.Fatalf("the mostly dead volume is still there: %v, was %v", after, before)
	}
	// The active one and the one before it stay, with what they hold, beside logs that are made at their size.
	if left := dirSize(t, s.root); left > full/2 {
		t.Fatalf("%d of %d bytes are left in volumes %v", left, full, after)
	}
	keep.mustHold(t, s, 20)
	if err := s.Verify(1); err != nil {
		t.Fatal(err)
	}
	keep.fill(t, s, rng, 20, 1000)
	mustClose(t, s)
	s = mustOpen(t, cfg)
	keep.mustHold(t, s, 40)
	if err := s.Verify(1); err != nil {
		t.Fatal(err)
	}
}

// dying makes a store in which volume 1 is closed and mostly dead, and has not been compacted yet.
func dying(t *testing.T, cfg Config) (*Store, *journal) {
	t.Helper()
	cfg.VolumeBytes = 256 << 10
	s := mustOpen(t, cfg)
	rng := rand.New(rand.NewPCG(1, 1))
	mustCreate(t, s, 1, 2)
	keep, bulk := newJournal(1), newJournal(2)
	keep.fill(t, s, rng, 30, 400)
	for range 4 {
		bulk.fill(t, s, rng, 30, 20_000)
		mustReclaim(t, s)
	}
	keep.fill(t, s, rng, 30, 400)
	s.mu.Lock()
	for _, v := range s.volumes {
		v.noCompact = true
	}
	s.mu.Unlock()
	if err := s.RemoveSegments([]mq.SegmentID{2}); err != nil {
		t.Fatal(err)
	}
	mustReclaim(t, s)
	return s, keep
}

// A crash at any step of a compaction leaves every entry once.
func TestInterruptedCompaction(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s, keep := dying(t, cfg)
	old := crashCopy(t, cfg)
	s.mu.Lock()
	for _, v := range s.volumes {
		v.noCompact = false
	}
	s.mu.Unlock()
	mustReclaim(t, s)
	keep.mustHold(t, s, 60)
	if slices.Contains(volumesOnDisk(t, cfg), 1) {
		t.Fatal("volume 1 was not compacted")
	}
	var target uint32
	for _, n := range volumesOnDisk(t, cfg) {
		if l, err := readList(s.root, n); err == nil && l != nil && len(l.Replaces) > 0 {
			target = n
		}
	}
	if target == 0 {
		t.Fatal("no volume has a list that replaces another")
	}
	steps := map[string]func(dir string){
		"half copied": func(dir string) { copyTree(t, volumeDir(s.root, target), volumeDir(dir, target)+".tmp") },
		"listed": func(dir string) {
			copyTree(t, volumeDir(s.root, target), volumeDir(dir, target)+".tmp")
			copyFile(t, listPath(s.root, target), listPath(dir, target))
		},
		"renamed": func(dir string) {
			copyTree(t, volumeDir(s.root, target), volumeDir(dir, target))
			copyFile(t, listPath(s.root, target), listPath(dir, target))
		},
		"half removed": func(dir string) {
			copyTree(t, volumeDir(s.root, target), volumeDir(dir, target))
			copyFile(t, listPath(s.root, target), listPath(dir, target))
			if err := os.Rename(volumeDir(dir, 1), volumeDir(dir, 1)+".dead"); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			c := crashCopy(t, old)
			step(filepath.Join(c.Dir, "volumes"))
			for range 2 {
				s := mustOpen(t, c)
				keep.mustHold(t, s, 60)
				if err := s.Verify(1); err != nil {
					t.Fatal(err)
				}
				mustReclaim(t, s)
				keep.mustHold(t, s, 60)
				mustClose(t, s)
			}
		})
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	copyDir(t, from, to)
}

// The list of a closed volume may be lost: the volume is read instead.
func TestLostListIsMadeAnew(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s, a, b := spread(t, cfg)
	mustClose(t, s)
	lists, err := filepath.Glob(filepath.Join(s.root, "*.list"))
	if err != nil || len(lists) < 3 {
		t.Fatalf("lists: %v %v", lists, err)
	}
	for i, name := range lists {
		if i%2 == 0 {
			err = os.Truncate(name, 20)
		} else {
			err = os.Remove(name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cfg.VolumeBytes = 64 << 10
	s = mustOpen(t, cfg)
	for range 2 {
		a.mustHold(t, s, len(a.entries))
		b.mustHold(t, s, len(b.entries))
		if err := errors.Join(s.Verify(1), s.Verify(2)); err != nil {
			t.Fatal(err)
		}
		mustReclaim(t, s)
	}
	mustClose(t, s)
	s = mustOpen(t, cfg)
	a.mustHold(t, s, len(a.entries))
}

// Damage of one volume among several: what lies before it in the segment stays readable.
func TestOneVolumeOfSeveralIsLost(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s, a, _ := spread(t, cfg)
	mustClose(t, s)
	l, err := readList(s.root, 3)
	if err != nil || l == nil {
		t.Fatalf("list of volume 3: %v", err)
	}
	var first mq.Position
	for _, p := range l.Parts {
		if p.Segment == 1 {
			first = p.First
		}
	}
	if err := os.RemoveAll(volumeDir(s.root, 3)); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg)
	info, _ := s.Segment(1)
	if !info.Damaged || info.Tail != first {
		t.Fatalf("%+v, volume 3 began at %s", info, first)
	}
	n := 0
	if err := s.Scan(1, mq.Position{}, func(at mq.Position, data []byte) bool {
		n++
		return string(data) == string(a.data[n-1])
	}); err != nil || uint64(n) != info.Count {
		t.Fatalf("%d of %d: %v", n, info.Count, err)
	}
}

// Ten thousand segments are opened from the facts, the ledger and one pass over the keys.
func TestManySegments(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	const n = 10_000
	segs := make([]mq.Segment, n)
	appends := make([]Append, 0, 2*n)
	for i := range segs {
		id := mq.SegmentID(i + 1)
		segs[i] = segmentOf(id, mq.Position{})
		j := newJournal(id)
		appends = append(appends, j.next(1, 150), j.next(2, 20))
	}
	if err := s.CreateSegments(segs); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, appends...)
	if err := s.ledger.record(s.collectMoved); err != nil {
		t.Fatal(err)
	}
	crashed := crashCopy(t, cfg)
	mustClose(t, s)
	for _, c := range []Config{cfg, crashed} {
		s := mustOpen(t, c)
		infos := s.Segments()
		if len(infos) != n {
			t.Fatalf("%d segments", len(infos))
		}
		for _, info := range infos {
			if info.Count != 2 || info.Tail != (mq.Position{Offset: 3}) || info.Damaged {
				t.Fatalf("%+v", info)
			}
		}
		mustClose(t, s)
	}
}

// A store that takes little has one volume open, not two.
func TestNextVolumeIsOpenedWhenItWillBeNeeded(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.VolumeBytes = 1 << 20
	s := mustOpen(t, cfg)
	mustCreate(t, s, 1)
	j := newJournal(1)
	rng := rand.New(rand.NewPCG(1, 1))
	next := func() bool {
		mustReclaim(t, s)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.next != nil
	}
	j.fill(t, s, rng, 5, 60_000)
	if next() {
		t.Error("of 1 MiB at most 300 kB are used, and the next volume is open")
	}
	for len(volumesOnDisk(t, cfg)) == 1 {
		j.fill(t, s, rng, 1, 60_000)
		s.mu.Lock()
		half := s.active.bytes >= cfg.VolumeBytes/2
		s.mu.Unlock()
		if half && !next() {
			t.Fatal("the active volume is half full, and no next one is open")
		}
	}
	// A segment that comes again needs a volume of its own at once.
	mustClose(t, s)
	s = mustOpen(t, testConfig(t.TempDir()))
	for range 2 {
		mustCreate(t, s, 1)
		newJournal(1).fill(t, s, rng, 1, 100)
		if err := s.RemoveSegments([]mq.SegmentID{1}); err != nil {
			t.Fatal(err)
		}
	}
}

// A directory that was changed by a clock that was set back an hour since is not synced with each commit until the hour is over.
func TestNamesAreSyncedOnceThoughTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	v := &volume{dir: t.TempDir()}
	ahead := time.Now().Add(time.Hour)
	if err := os.Chtimes(v.dir, ahead, ahead); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(v.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.syncNames(); err != nil || !v.dirSeen.Equal(info.ModTime()) {
		t.Errorf("%v; synced up to %s, not to %s", err, v.dirSeen, info.ModTime())
	}
}
