package segment

import (
	"flag"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

var searchStates = flag.Int("search.states", defaultStates, "states that each search of the segment protocol visits at most")

var firstBase mq.Position

// TestSearchTheRules visits the states of small configurations, breadth first, and finds no broken invariant.
func TestSearchTheRules(t *testing.T) {
	for _, c := range []struct {
		name string
		rules
	}{
		{"crash", rules{crashes: 1, controllers: 2, entries: [slots]int{1, 1, 1, 1}}},
		{"crashes_of_longer_segments", rules{crashes: 2, controllers: 1, entries: [slots]int{2, 2, 1, 1}}},
		{"removal_and_unknown_outcomes", rules{removal: true, unknown: true, controllers: 2, entries: [slots]int{1, 1, 1, 1}}},
		{"full_disks", rules{refusals: true, crashes: 1, controllers: 1, entries: [slots]int{2, 2, 1, 1}}},
		{"silent_loss", rules{lies: 1, controllers: 2, entries: [slots]int{1, 1, 1, 1}}},
		{"silent_loss_and_crash", rules{lies: 1, crashes: 1, controllers: 1, entries: [slots]int{2, 1, 1, 1}}},
		{"lost_directory", rules{wipes: 1, controllers: 2, entries: [slots]int{1, 1, 1, 1}}},
		{"broken_within_all_copies", rules{breaks: 3, controllers: 1, entries: [slots]int{2, 1, 1, 1}}},
		{"broken_within_and_crash", rules{breaks: 2, crashes: 1, controllers: 2, entries: [slots]int{2, 1, 1, 1}}},
		{"broken_within_and_silent_loss", rules{breaks: 2, lies: 1, controllers: 1, entries: [slots]int{2, 1, 1, 1}}},
		{"holes", rules{holes: true, lacking: true, controllers: 2, entries: [slots]int{1, 1, 1, 1}}},
		{"holes_and_crash", rules{holes: true, lacking: true, crashes: 1, controllers: 1, entries: [slots]int{1, 1, 1, 1}}},
		{"holes_after_silent_loss", rules{holes: true, lacking: true, lies: 1, controllers: 1, entries: [slots]int{1, 1, 1, 1}}},
		{"holes_after_a_lost_directory", rules{holes: true, lacking: true, wipes: 1, controllers: 1, entries: [slots]int{1, 1, 1, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSearch(c.rules, *searchStates)
			began := time.Now()
			if s.run() != "" {
				t.Fatal(s.report())
			}
			t.Logf("%d states, depth %d, all of them: %v, %v", len(s.parents), s.depth, s.every, time.Since(began))
		})
	}
}
