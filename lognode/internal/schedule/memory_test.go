package schedule

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// BenchmarkMillionPending reports what a pending schedule takes in memory, by how many were published together, and of a
// book in which nine of ten were released or cancelled since.
func BenchmarkMillionPending(b *testing.B) {
	for _, together := range []int{1, 10, 1000} {
		for _, thinned := range []uint64{1, 10} {
			b.Run(fmt.Sprintf("batch=%d/kept=1of%d", together, thinned), func(b *testing.B) {
				for b.Loop() {
					before := heapBytes()
					book := filled(1_000_000, together, thinned)
					b.ReportMetric(float64(heapBytes()-before)/float64(book.Pending()), "B/pending")
					runtime.KeepAlive(book)
				}
			})
		}
	}
}

func filled(n, together int, kept uint64) *Book {
	book := New()
	dues := make([]int64, together)
	for i := 0; i < n; i += together {
		for k := range dues {
			dues[k] = int64(time.Hour) + int64((i+k)*7919%n)
		}
		book.Schedule(mq.Position{Seq: uint32(i / together)}, dues, together*100)
	}
	for number := range uint64(n) {
		if number%kept != 0 {
			book.finish(number)
		}
	}
	return book
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkListOfTenMillion is a page of the first 100 where all that may wait does.
func BenchmarkListOfTenMillion(b *testing.B) {
	book := filled(MaxPending, 1000, 1)
	for b.Loop() {
		if n := len(book.List(mq.Schedule{Due: math.MinInt64}, 100)); n != 100 {
			b.Fatal(n)
		}
	}
}
