package lognode

import (
	"testing"
	"time"
)

// Sealed segments are looked at now and then, at once after damage was found, and not over and over while it is found.
func TestDamageBringsTheNextLookForward(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	l := looks{next: at(2)}
	for _, step := range []struct {
		at      float64
		damaged bool
		due     bool
	}{
		{1, false, false}, {2, false, true}, {3, false, false},
		{12, true, true},   // found while nothing was going on
		{13, true, false},  // again, right behind the look
		{14, false, true},  // which comes when it may
		{43, false, false}, // and then now and then
		{44, false, true},
	} {
		if step.damaged {
			l.soon()
		}
		if due := l.due(at(step.at)); due != step.due {
			t.Errorf("at %v s, damage found %v: due %v", step.at, step.damaged, due)
		}
	}
}
