package main

import (
	"testing"

	"github.com/splashdam/splashdam/shared/api"
)

// An explanation is a sentence that fits the terminal; what a user wrote can't move its cursor.
func TestExplainFits(t *testing.T) {
	e := api.Explanation{State: "waiting", Because: "attempt 2 is not before 2026-03-01 12:00:00 UTC; attempt 1 failed: card\x1b[31m declined by the bank"}
	same(t, renderExplain(&e, 80, plain), `
waiting: attempt 2 is not before 2026-03-01 12:00:00 UTC; attempt 1 failed:
card\x1b[31m declined by the bank
`)
	e = api.Explanation{State: "ready", Because: "the group is paused", Attempt: 2, Reason: "card declined"}
	same(t, renderExplain(&e, 80, plain), `
ready: the group is paused
attempt 2 failed: card declined
`)
	if got := wrap("one two three", 0); got != "one two three" {
		t.Errorf("without a bound: %q", got)
	}
}
