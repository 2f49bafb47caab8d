package store

import (
	"os"
	"sync"
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

func BenchmarkEntryAt(b *testing.B) {
	s := mustOpen(b, testConfig(b.TempDir()))
	mustCreate(b, s, 1)
	j := newJournal(1)
	const n = 20_000
	for range n / 1000 {
		var appends []Append
		for range 1000 {
			appends = append(appends, j.next(1, 200))
		}
		mustAppend(b, s, appends...)
	}
	b.ResetTimer()
	for i := range b.N {
		if _, err := s.EntryAt(1, uint64(i*7919%n)); err != nil {
			b.Fatal(err)
		}
	}
}
