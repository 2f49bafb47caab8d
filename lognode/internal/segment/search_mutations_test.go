package segment

import (
	"flag"
	"strings"
	"testing"
)

var mutationStates = flag.Int("search.mutation", 3_000_000, "states within which each change of the rules must be found out")

// TestSearchFindsEveryMutation changes one rule of replication.md at a time. A search that finds no violation then
// proves nothing about the rules either.
func TestSearchFindsEveryMutation(t *testing.T) {
	one := [slots]int{1, 1, 1, 1}
	for _, c := range []struct {
		name string
		rules
		invariant string // that breaks first
	}{
		{"one_answer_fewer", rules{oneAnswerFewer: true, controllers: 1, entries: one}, "I1"},
		{"seal_flag_that_a_crash_forgets", rules{flagForgotten: true, crashes: 1, controllers: 1, entries: one}, "I1"},
		{"end_is_the_lowest_tail", rules{lowestTail: true, controllers: 1, entries: one}, "I1"},
		{"copy_counted_as_an_acknowledgement", rules{copiesAck: true, controllers: 2, entries: one}, "I1"},
		{"emptied_node_answers_empty", rules{emptiedSaysEmpty: true, wipes: 1, controllers: 1, entries: one}, "I1"},
		{"queued_before_the_seal_acknowledged_after", rules{queueAfterSeal: true, controllers: 1, entries: one}, "I1"},
		{"R5_without_the_revision", rules{removeNoRevision: true, removal: true, controllers: 1, entries: one}, "segment 1 is in the chain"},
		{"leader_that_resumes", rules{leaderResumes: true, crashes: 1, controllers: 1, entries: one}, "I"},
		{"shortened_replica_taken_at_its_word", rules{shortIsBelieved: true, lies: 1, controllers: 1, entries: one}, "I1"},
		{"broken_copy_that_answers_before_all_is_back", rules{partlyRestored: true, breaks: 2, controllers: 1, entries: [slots]int{2, 1}}, "I1"},
		{"hole_while_holders_are_only_away", rules{holeTooEarly: true, holes: true, controllers: 1, entries: one}, "R6"},
		{"deposed_leader_behind_the_fence", rules{noFence: true, holes: true, lacking: true, controllers: 1, entries: [slots]int{1}}, "R6"},
		{"copy_after_the_judgement_counts", rules{copiesCount: true, holes: true, controllers: 1, entries: one}, "R6"},
		{"hole_judged_without_a_seal", rules{judgedByProbe: true, holes: true, lies: 1, controllers: 1, entries: one}, "R6"},
		{"copy_made_anew_answers", rules{remadeAnswers: true, holes: true, lies: 1, controllers: 1, entries: one}, "R6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSearch(c.rules, *mutationStates)
			switch found := s.run(); {
			case found == "":
				t.Fatalf("no violation in %d states, depth %d", len(s.parents), s.depth)
			case !strings.HasPrefix(found, c.invariant):
				t.Fatalf("expected %s, found %s", c.invariant, s.report())
			}
			t.Logf("after %d states: %s", len(s.parents), s.report())
		})
	}
}
