package sim

import (
	"flag"
	"sync"
	"testing"
)

var damageSeeds = flag.Int("damage-seeds", 60, "seeds for each kind of damage on all copies")

// sumOf runs seeds with these faults only, and wants none to break a rule.
func sumOf(t *testing.T, only ...string) (sum Result) {
	t.Helper()
	var mu sync.Mutex
	sum.Faults = map[string]int{}
	forEach(*firstSeed, *damageSeeds, func(seed uint64) bool {
		r := Run(seed, Config{Chaos: 15, Only: only})
		mu.Lock()
		defer mu.Unlock()
		sum.add(&r)
		if r.Err != nil {
			t.Errorf("seed %d: %v", seed, r.Err)
		}
		return r.Err != nil
	})
	return sum
}

// Copies of open segments that are damaged at different places become what they were: nothing is lost, and nobody has to say so.
func TestDamagedApartIsRestored(t *testing.T) {
	sum := sumOf(t, "open copies damaged", "crash of a node", "stalled disk", "move wanted", "silently lost suffix")
	if sum.Restored == 0 || sum.Forced+sum.Gone > 0 {
		t.Errorf("%d copies restored; %d ranges given up, with %d acknowledged messages", sum.Restored, sum.Forced, sum.Gone)
	}
}

// Where no copy and no two together have it, an operator gives it up: what is recorded as lost, and nothing else.
func TestDamagedEverywhereIsGivenUp(t *testing.T) {
	sum := sumOf(t, "all holders damaged", "open copies damaged", "move wanted")
	if sum.Forced == 0 || sum.Gone == 0 || sum.Restored == 0 {
		t.Errorf("%d copies restored; %d ranges given up, with %d acknowledged messages", sum.Restored, sum.Forced, sum.Gone)
	}
}
