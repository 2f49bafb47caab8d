// Package heap keeps a process of middling size small: Go's collector lets a heap double between two runs, so a log node that holds
// ten million schedules in 190 MiB would take 380. The room between two runs is bounded while the heap is small, where a run costs
// little; a large heap may double as ever.
//
// Rejected: a memory limit (debug.SetMemoryLimit), since a heap that outgrows it is collected all the time.
package heap

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/splashdam/splashdam/shared/beat"
)

const (
	// room is what may be allocated between two runs of the collector at least.
	room = 48 << 20
	// small is up to where a heap has no more room than that. One that is larger by n has n.
	small = 192 << 20
	// every is how often the heap is looked at, apart is by how many percent the setting must be wrong to be changed: that stops
	// the process for some microseconds.
	every, apart = time.Second, 5
)

// Percent is how much of live bytes may be allocated before the collector runs again, as for debug.SetGCPercent.
func Percent(live uint64) int {
	more := max(uint64(room), live-min(live, small))
	return int(100 * min(live, more) / max(live, 1))
}

// Tend sets the percentage of this process, and again as its heap grows and shrinks, until stop is called, which waits for the
// end. It is for main, and does nothing where GOGC or GOMEMLIMIT say what the operator wants.
func Tend() (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := beat.NewTicker(every)
		defer tick.Stop()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for now := 100; ; {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			metrics.Read(live)
			want := 100
			if live[0].Value.Kind() == metrics.KindUint64 && live[0].Value.Uint64() > 0 {
				want = Percent(live[0].Value.Uint64())
			}
			if want-now >= apart || now-want >= apart {
				debug.SetGCPercent(want)
				now = want
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}
