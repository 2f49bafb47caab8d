package store

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/splashdam/splashdam/shared/leaks"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/sidebyside"
)

// crashEnv names the directory for the process that the crash test kills, see crash_test.go.
const crashEnv = "SPLASHDAM_STORE_CRASH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		fmt.Fprintln(os.Stderr, crashChild(dir))
		os.Exit(1)
	}
	if err := sidebyside.Set(); err != nil {
		panic(err)
	}
	// glog is linked in by Badger's dependencies and starts its flusher when its package is initialised.
	os.Exit(leaks.After(m.Run(), goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon")))
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// testConfig is small and knows no full disk.
func testConfig(dir string) Config {
	c := DefaultConfig(dir)
	c.BallastBytes = 0
	c.DiskUsage = func(string) (uint64, uint64, error) { return 10, 100, nil }
	return c
}

func mustOpen(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg, quiet, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func segmentOf(id mq.SegmentID, base mq.Position) mq.Segment {
	return mq.Segment{
		ID: id, Partition: mq.PartitionID{Topic: 1, Number: uint32(id)}, Number: 1, Base: base, Compared: 1,
		Replicas: []mq.Replica{{Store: "a", Node: "node-1"}}, Quorum: 1, Leader: mq.Incarnation{Store: "a", Boot: 1},
	}
}

func mustCreate(t testing.TB, s *Store, ids ...mq.SegmentID) {
	t.Helper()
	var segs []mq.Segment
	for _, id := range ids {
		segs = append(segs, segmentOf(id, mq.Position{}))
	}
	if err := s.CreateSegments(segs); err != nil {
		t.Fatal(err)
	}
}

// journal makes a segment's entries and remembers them: the oracle.
type journal struct {
	id      mq.SegmentID
	at      mq.Position
	prev    mq.Position
	stamp   int64
	entries []mq.Entry
	data    [][]byte
}

func newJournal(id mq.SegmentID) *journal { return &journal{id: id} }

// next makes the entry that follows, taking count offsets, with a body of size bytes.
func (j *journal) next(count uint32, size int) Append {
	body := bytes.Repeat([]byte{byte(len(j.entries))}, size)
	j.stamp += int64(count % 3) // stamps repeat, never go back
	e := mq.Entry{Segment: j.id, At: j.at, Prev: j.prev, Count: count, Stamp: 1000 + j.stamp, Boot: 1, Records: body}
	data := e.AppendTo(nil)
	j.entries = append(j.entries, e)
	j.data = append(j.data, data)
	j.prev, j.at = e.At, e.Next()
	return Append{Segment: j.id, At: e.At, Next: e.Next(), Data: data}
}

// peek makes an entry that follows without taking it into the journal.
func (j *journal) peek() Append {
	c := *j
	return c.next(1, 0)
}

// fill appends n entries with random counts and sizes and waits for all.
func (j *journal) fill(t testing.TB, s *Store, rng *rand.Rand, n, maxSize int) {
	t.Helper()
	appends := make([]Append, n)
	for i := range appends {
		appends[i] = j.next(uint32(rng.IntN(4)), rng.IntN(maxSize))
	}
	mustAppend(t, s, appends...)
}

// appendAll appends and waits; the errors are in the order of the appends.
func appendAll(s *Store, appends ...Append) ([]error, error) {
	errs := make([]error, len(appends))
	var wg sync.WaitGroup
	wg.Add(len(appends))
	for i := range appends {
		appends[i].Done = func(err error) {
			errs[i] = err
			wg.Done()
		}
	}
	if err := s.Append(appends...); err != nil {
		return nil, err
	}
	wg.Wait()
	return errs, nil
}

func mustAppend(t testing.TB, s *Store, appends ...Append) {
	t.Helper()
	errs, err := appendAll(s, appends...)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("append %d at %s: %v", i, appends[i].At, err)
		}
	}
}

// mustHold compares a segment with the first n entries of its journal, by scanning it both ways.
func (j *journal) mustHold(t testing.TB, s *Store, n int) {
	t.Helper()
	if err := j.holds(s, n); err != nil {
		t.Fatal(err)
	}
}

func (j *journal) holds(s *Store, n int) error {
	info, ok := s.Segment(j.id)
	if !ok {
		return fmt.Errorf("segment %d is unknown", j.id)
	}
	tail, size := info.Segment.Base, 0
	for i := range n {
		tail, size = j.entries[i].Next(), size+len(j.data[i])
	}
	if info.Tail != tail || info.Count != uint64(n) || info.Bytes != int64(size) || info.Damaged {
		return fmt.Errorf("segment %d: %+v, want tail %s, %d entries, %d bytes", j.id, info, tail, n, size)
	}
	if n > 0 && (info.Last != j.entries[n-1].At || info.LastStamp != j.entries[n-1].Stamp) {
		return fmt.Errorf("segment %d: last %s stamp %d", j.id, info.Last, info.LastStamp)
	}
	i := 0
	err := s.Scan(j.id, mq.Position{}, func(at mq.Position, data []byte) bool {
		ok := i < n && at == j.entries[i].At && bytes.Equal(data, j.data[i])
		i++
		return ok
	})
	if err != nil || i != n {
		return fmt.Errorf("segment %d: scan stopped at %d of %d: %v", j.id, i, n, err)
	}
	err = s.ScanBack(j.id, tail, func(at mq.Position, data []byte) bool {
		i--
		return i >= 0 && at == j.entries[i].At && bytes.Equal(data, j.data[i])
	})
	if err != nil || i != 0 {
		return fmt.Errorf("segment %d: scan back stopped at %d: %v", j.id, i, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.segments[j.id].check()
}

func mustReclaim(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// dirSize is what a directory takes on disk.
func dirSize(t testing.TB, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size += info.Sys().(*syscall.Stat_t).Blocks * 512 // sparse files take what is written
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}
