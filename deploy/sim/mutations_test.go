package sim

import (
	"flag"
	"sync"
	"testing"

	coordinator "github.com/splashdam/splashdam/coordinator/simulate"
	lognode "github.com/splashdam/splashdam/lognode/simulate"
)

var mutationSeeds = flag.Int("mutation-seeds", 2000, "seeds within which every change of the rules must be noticed")

// TestSimulationNoticesMutations breaks one rule at a time and wants a seed that shows it. The kinds of faults are those
// that can.
func TestSimulationNoticesMutations(t *testing.T) {
	crashes := []string{"crash of a node", "crash of all nodes", "one-way cut", "node cut off", "move wanted", "stalled disk"}
	seals := []string{"crash behind a seal or a creation", "node cut off from etcd and controllers", "watch lags", "one-way cut", "move wanted",
		"crash of a controller", "stalled disk"}
	loss := []string{"silently lost suffix", "crash of a node", "one-way cut", "node cut off", "stalled disk"}
	for _, c := range []struct {
		name string
		Config
	}{
		{"acknowledged_before_the_sync", Config{Only: crashes, Node: lognode.Mutation{AckBeforeSync: true}}},
		{"seal_flag_forgotten", Config{Only: []string{"crash behind a seal or a creation", "node cut off from etcd and controllers"}, Node: lognode.Mutation{ForgetSealFlag: true}}},
		{"unknown_ignored", Config{Only: loss, Node: lognode.Mutation{IgnoreUnknown: true}}},
		{"queued_before_the_seal_acknowledged_after", Config{Only: seals, Node: lognode.Mutation{AnswerBeforeQueue: true}}},
		{"answered_before_commit", Config{Only: crashes, Node: lognode.Mutation{AnswerAtOnce: true}}},
		{"leader_that_resumes", Config{Only: crashes, Node: lognode.Mutation{ResumeLeading: true}}},
		{"one_answer_fewer", Config{Only: []string{"one-way cut", "node cut off", "frozen node", "slow links"}, Controller: coordinator.Mutation{OneAnswerFewer: true}}},
		{"end_is_the_lowest_tail", Config{Only: seals, Controller: coordinator.Mutation{LowestTail: true}}},
		{"damaged_copy_answers_before_all_is_back", Config{Only: []string{"all holders damaged", "open copies damaged", "crash of a node"},
			Node: lognode.Mutation{RestoreShort: true}}},
		{"operator_gives_up_more_than_is_gone", Config{Only: []string{"all holders damaged", "move wanted"}, Node: lognode.Mutation{LoseMore: true}}},
		{"keys_forgotten", Config{Only: crashes, Uses: []string{useOrder}, Node: lognode.Mutation{ForgetKeys: true}}},
		{"urgent_hides_what_is_before_it", Config{Only: crashes, Uses: []string{useLanes}, Node: lognode.Mutation{UrgentHides: true}}},
		{"schedules_released_early", Config{Only: crashes, Uses: []string{useTimes}, Node: lognode.Mutation{ReleaseEarly: true}}},
		{"schedules_forgotten", Config{Only: crashes, Uses: []string{useTimes}, Node: lognode.Mutation{ForgetSchedules: true}}},
		{"schedules_released_twice", Config{Only: crashes, Uses: []string{useTimes}, Node: lognode.Mutation{ReleaseTwice: true}}},
		{"numbers_given_again", Config{Only: []string{"all holders damaged", "partition forced without need", "all directories lost", "crash of a node", "move wanted"},
			Uses: []string{useTimes}, Node: lognode.Mutation{ReuseNumbers: true}}},
		{"cancels_forgotten", Config{Only: crashes, Uses: []string{useTimes}, Node: lognode.Mutation{ForgetCancels: true}}},
		{"dead_too_soon", Config{Only: crashes, Uses: []string{useFew}, Node: lognode.Mutation{DeadTooSoon: true}}},
		{"dead_too_late", Config{Only: crashes, Uses: []string{useFew}, Node: lognode.Mutation{DeadTooLate: true}}},
		{"ttl_ignored", Config{Only: crashes, Uses: []string{useTTL}, Node: lognode.Mutation{IgnoreTTL: true}}},
		{"ttl_over_too_soon", Config{Only: crashes, Uses: []string{useTTL}, Node: lognode.Mutation{LapseEarly: true}}},
		{"lanes_forgotten", Config{Only: crashes, Uses: []string{useLanes}, Node: lognode.Mutation{ForgetLanes: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			found, at, seeds := "", uint64(0), 0
			forEach(1, *mutationSeeds, func(seed uint64) bool {
				config := c.Config
				config.Chaos = 20
				r := Run(seed, config)
				mu.Lock()
				defer mu.Unlock()
				if seeds++; r.Err != nil && found == "" {
					found, at = r.Err.Error(), seed
					t.Logf("seed %d: %.300s", seed, found)
				}
				return found != ""
			})
			if found == "" {
				t.Fatalf("not noticed in %d seeds", seeds)
			}
			if r := Run(at, Config{Only: c.Only, Uses: c.Uses, Chaos: 20}); r.Err != nil {
				t.Errorf("seed %d fails without the change too: %v", at, r.Err)
			}
		})
	}
}
