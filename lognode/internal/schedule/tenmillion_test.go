package schedule

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// BenchmarkTenMillionPending reports what a partition's leader holds for as many pending schedules as it takes, in memory and in a
// checkpoint, by how many were published together.
func BenchmarkTenMillionPending(b *testing.B) {
	for _, together := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("batch=%d", together), func(b *testing.B) {
			for b.Loop() {
				before := heapBytes()
				book := filled(MaxPending, together, 1)
				b.ReportMetric(float64(heapBytes()-before)/(1<<20), "MiB")
				b.ReportMetric(float64(len(book.AppendState(nil)))/(1<<20), "MiB-checkpoint")
				runtime.KeepAlive(book)
			}
		})
	}
}

// BenchmarkScheduleAndCancel schedules a message, far off or soon, and cancels one that was scheduled long before, among few and among
// as many as there may be. The figure is for both.
func BenchmarkScheduleAndCancel(b *testing.B) {
	for _, pending := range []int{10_000, MaxPending} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			book := filled(pending, 10, 1)
			number, gone := uint64(pending), uint64(0)
			var records []byte
			due := make([]int64, 1)
			at := mq.Position{Offset: 1}
			b.ReportAllocs()
			for b.Loop() {
				if book.Cancel(1, gone) != OK {
					b.Fatal("not pending: ", gone)
				}
				gone++
				due[0] = int64(time.Hour) + int64(number*7919%(1<<40))
				book.Schedule(at, due, 100)
				at = at.Next(0)
				number++
				records = book.TakeRecords(records[:0])
			}
		})
	}
}
