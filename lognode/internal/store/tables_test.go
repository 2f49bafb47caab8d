package store

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Badger's compactors would look 40 times a second in each volume that is open for writing, for as long as the node is idle.
func TestNobodyLooksForTablesToMerge(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCreate(t, s, 1)
	mustAppend(t, s, newJournal(1).next(1, 50))
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(all.String(), "badger/v4.(*DB).doWrites") || strings.Contains(all.String(), "runCompactor") {
		t.Errorf("goroutines of an open store:\n%s", &all)
	}
}

// restarts opens a store that often, each time for one more entry: each leaves a table. It returns the volumes that took them.
func restarts(t *testing.T, cfg Config, j *journal, n int) (used map[uint32]int) {
	t.Helper()
	used = map[uint32]int{}
	for range n {
		s := mustOpen(t, cfg)
		if len(j.entries) == 0 {
			mustCreate(t, s, j.id)
		}
		mustAppend(t, s, j.next(1, 50))
		used[s.active.number]++
		mustClose(t, s)
	}
	return used
}

// As no tables are merged, a volume is full when it has some of them, so that a read does not have to look into many.
func TestVolumeIsFullOfTables(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	j := newJournal(1)
	used := restarts(t, cfg, j, 3*maxTables)
	if len(used) != 3 {
		t.Errorf("tables in each volume: %v", used)
	}
	for _, tables := range used {
		if tables != maxTables {
			t.Errorf("tables in each volume: %v", used)
		}
	}
	j.mustHold(t, mustOpen(t, cfg), 3*maxTables)
}

// The same while the store is open.
func TestVolumeIsFullOfTablesThatItMade(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	j := newJournal(1)
	restarts(t, cfg, j, maxTables-1)
	s := mustOpen(t, cfg)
	const group = 20_000
	n := maxTables - 1
	for ; testutil.ToFloat64(s.metrics.rolled) == 0; n += group {
		if n > 500_000 { // a memtable takes 120,000 of them
			t.Fatalf("%d entries of 110 bytes are in one volume", n)
		}
		appends := make([]Append, group)
		for i := range appends {
			appends[i] = j.next(1, 40)
		}
		mustAppend(t, s, appends...)
	}
	if info, _ := s.Segment(1); info.Count != uint64(n) || info.Damaged {
		t.Fatalf("%d of %d entries: %+v", info.Count, n, info)
	}
}
