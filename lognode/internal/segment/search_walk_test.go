package segment

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
)

var (
	walkCount = flag.Int("search.walks", defaultWalks, "random walks through the segment protocol, per configuration")
	walkSeed  = flag.Uint64("search.seed", 1, "seed of the first random walk")
)

// TestWalkTheRules goes far beyond the depth that a search can exhaust: random schedules until nothing is left to
// do, and longer segments.
func TestWalkTheRules(t *testing.T) {
	const longest = 200
	full := [slots]int{2, 2, 2, 2}
	for _, c := range []struct {
		name string
		rules
	}{
		{"crashes", rules{refusals: true, crashes: 3, removal: true, unknown: true, controllers: 2, entries: full}},
		{"silent_loss", rules{crashes: 1, lies: 1, removal: true, unknown: true, controllers: 2, entries: full}},
		{"lost_directory", rules{crashes: 1, wipes: 1, removal: true, unknown: true, controllers: 2, entries: full}},
		{"broken_within", rules{crashes: 1, breaks: 3, removal: true, unknown: true, controllers: 2, entries: full}},
		{"holes", rules{holes: true, crashes: 1, lies: 1, wipes: 1, removal: true, unknown: true, controllers: 2, entries: full}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steps, moved := 0, 0
			for i := range uint64(*walkCount) {
				n, last, err := walk(c.rules, *walkSeed+i, longest)
				if err != nil {
					t.Fatalf("-search.seed=%d -search.walks=1: %v", *walkSeed+i, err)
				}
				steps += n
				moved += int(last.rev) - 1
			}
			t.Logf("%d walks, %d steps, %d segments opened", *walkCount, steps, moved)
			if moved == 0 {
				t.Fatal("no walk got as far as a second segment")
			}
		})
	}
}

// walk takes a random step after the other and checks the invariants in every state.
func walk(r rules, seed uint64, longest int) (n int, last *world, err error) {
	s := newSearch(r, 0)
	rng := rand.New(rand.NewPCG(seed, 0))
	var now, chosen world
	s.first().copyTo(&now)
	var way []string
	for n = 0; n < longest; n++ {
		var took step
		seen := 0
		s.successors(&now, func(y *world, st step) bool {
			// Faults are rare beside progress, or no walk gets anywhere.
			weight := 8
			switch st.kind {
			case doCrash, doLoseSuffix, doWipe, doBreak, doTimeOut, doDie, doFence:
				weight = 1
			}
			if seen += weight; rng.IntN(seen) < weight {
				y.copyTo(&chosen)
				took = st
			}
			return true
		})
		if seen == 0 {
			break
		}
		way = append(way, s.describe(&now, took))
		chosen.copyTo(&now)
		if text := s.violation(&now); text != "" {
			for _, line := range way {
				text += "\n" + line
			}
			return n, &now, fmt.Errorf("%s", text)
		}
	}
	return n, &now, nil
}
