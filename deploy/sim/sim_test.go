package sim

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	seedCount = flag.Int("seeds", defaultSeeds, "how many seeds the simulation runs")
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	chaosTime = flag.Int64("chaos", 15, "seconds of faults in each run")
	storyOf   = flag.Bool("story", false, "tell what happens in the first seed")
)

// forEach runs f for every seed, on all cores, and stops handing out seeds once it says so.
func forEach(first uint64, count int, f func(seed uint64) (stop bool)) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a run makes little that lives long
	seeds := make(chan uint64)
	stopped := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range seeds {
				if f(seed) {
					once.Do(func() { close(stopped) })
				}
			}
		})
	}
hand:
	for i := range uint64(count) {
		select {
		case seeds <- first + i:
		case <-stopped:
			break hand
		}
	}
	close(seeds)
	wg.Wait()
}

// TestSimulation runs seeds with every kind of fault. A seed that fails prints itself; -seeds 1 -seed N -story tells it.
func TestSimulation(t *testing.T) {
	var mu sync.Mutex
	var sum Result
	sum.Faults = map[string]int{}
	failed := 0
	began := time.Now()
	forEach(*firstSeed, *seedCount, func(seed uint64) bool {
		c := Config{Chaos: *chaosTime}
		if *storyOf && seed == *firstSeed {
			c.Trace = t.Logf
		}
		r := Run(seed, c)
		mu.Lock()
		defer mu.Unlock()
		sum.add(&r)
		if r.Err != nil {
			failed++
			t.Errorf("go test ./deploy/sim -run TestSimulation -seeds 1 -seed %d -chaos %d -story -v\n%v", seed, *chaosTime, r.Err)
		}
		return failed >= 10
	})
	t.Logf("%d seeds, %.2f simulated hours, %d events, %s; %d messages acknowledged, %d delivered of which %d again, %d of them by leaders that were none, %d segments opened, %d ranges recorded as lost, %d given up by operators with %d acknowledged messages, %d damaged copies restored",
		*seedCount, float64(sum.Nanos)/3.6e12, sum.Events, time.Since(began).Round(time.Second), sum.Published, sum.Delivered,
		sum.Repeated, sum.Zombies, sum.Segments, sum.Holes, sum.Forced, sum.Gone, sum.Restored)
	t.Log(sum.kinds())
}

func (r *Result) add(o *Result) {
	r.Nanos += o.Nanos
	r.Events += o.Events
	r.Published += o.Published
	r.Delivered += o.Delivered
	r.Repeated += o.Repeated
	r.Zombies += o.Zombies
	r.Segments += o.Segments
	r.Holes += o.Holes
	r.Forced += o.Forced
	r.Gone += o.Gone
	r.Restored += o.Restored
	for k, n := range o.Faults {
		r.Faults[k] += n
	}
}

// kinds lists the faults by kind.
func (r *Result) kinds() string {
	var names []string
	total := 0
	for k, n := range r.Faults {
		names = append(names, k)
		total += n
	}
	sort.Strings(names)
	var b strings.Builder
	fmt.Fprintf(&b, "%d faults:", total)
	for _, k := range names {
		fmt.Fprintf(&b, "\n%8d %s", r.Faults[k], k)
	}
	return b.String()
}

// TestSeedIsARun shows that a failing seed will fail again: everything that a run does is the same.
func TestSeedIsARun(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		var stories [2][]string
		for i := range stories {
			c := Config{Chaos: 10}
			c.Trace = func(format string, args ...any) { stories[i] = append(stories[i], fmt.Sprintf(format, args...)) }
			r := Run(seed, c)
			stories[i] = append(stories[i], fmt.Sprintf("%+v", r))
		}
		if a, b := strings.Join(stories[0], "\n"), strings.Join(stories[1], "\n"); a != b {
			t.Errorf("seed %d:\n%s\n--- and then\n%s", seed, a, b)
		}
	}
}
