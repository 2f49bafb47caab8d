package store

import (
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// benchAppends keeps `clients` appends of `size` bytes under way, each in a segment of its own, on a real disk (TMPDIR).
func benchAppends(b *testing.B, clients, size int) {
	dir, err := os.MkdirTemp("", "store-bench")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s := mustOpen(b, testConfig(dir))
	defer s.Close()
	journals := make([]*journal, clients)
	ids := make([]mq.SegmentID, clients)
	for i := range journals {
		ids[i] = mq.SegmentID(i + 1)
		journals[i] = newJournal(ids[i])
	}
	mustCreate(b, s, ids...)
	work := make(chan struct{}, clients)
	b.SetBytes(int64(size))
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, j := range journals {
		wg.Go(func() {
			done := make(chan error, 1)
			for range work {
				a := j.next(1, size)
				j.entries, j.data = j.entries[:0], j.data[:0]
				a.Done = func(err error) { done <- err }
				err := s.Append(a)
				if err == nil {
					err = <-done
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

func BenchmarkAppend200B64Clients(b *testing.B) { benchAppends(b, 64, 200) }
func BenchmarkAppend1MiB8Clients(b *testing.B)  { benchAppends(b, 8, 1<<20) }

// benchReads makes entries of a size in so many tables of one volume, and reports the processor's time of a read, too: that of the clock
// is no measure while others work.
func benchReads(b *testing.B, tables, entries, size int, read func(s *Store, i int) error) {
	cfg := testConfig(b.TempDir())
	j := newJournal(1)
	for i := range tables {
		s := mustOpen(b, cfg)
		if i == 0 {
			mustCreate(b, s, 1)
		}
		for len(j.entries) < entries*(i+1)/tables {
			var appends []Append
			for range min(1000, 4<<20/size) {
				appends = append(appends, j.next(1, size))
			}
			mustAppend(b, s, appends...)
			j.data = j.data[:0]
		}
		mustClose(b, s)
	}
	s := mustOpen(b, cfg)
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.ResetTimer()
	for i := range b.N {
		if err := read(s, i); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	b.ReportMetric(float64(after.Utime.Nano()-before.Utime.Nano())/float64(b.N), "cpu-ns/op")
}

func benchEntryAt(b *testing.B, tables int) {
	const n = 20_000
	benchReads(b, tables, n, 200, func(s *Store, i int) error {
		_, err := s.EntryAt(1, uint64(i*7919%n))
		return err
	})
}

func BenchmarkEntryAt1Table(b *testing.B)  { benchEntryAt(b, 1) }
func BenchmarkEntryAt4Tables(b *testing.B) { benchEntryAt(b, 4) }
func BenchmarkEntryAt8Tables(b *testing.B) { benchEntryAt(b, maxTables) }

// benchScan reads a segment of 20 MiB through.
func benchScan(b *testing.B, size int) {
	n := 20 << 20 / size
	b.SetBytes(int64(n * size))
	benchReads(b, 1, n, size, func(s *Store, _ int) error {
		return s.Scan(1, mq.Position{}, func(mq.Position, []byte) bool { return true })
	})
}

func BenchmarkScan200B(b *testing.B)  { benchScan(b, 200) }
func BenchmarkScan64KiB(b *testing.B) { benchScan(b, 64<<10) }
