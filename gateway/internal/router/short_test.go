package router

import (
	"testing"
	"time"
)

// Only a number of nodes that has not changed for a while is one that nobody waits to grow.
func TestNodeCountIsSteady(t *testing.T) {
	var c nodeCount
	start := time.Unix(1000, 0)
	for i, step := range []struct {
		n    int
		at   time.Duration
		want bool
	}{{0, 0, false}, {0, shortPatience - 1, false}, {0, shortPatience, true}, {1, shortPatience, false}, {1, 2*shortPatience - 1, false},
		{1, 2 * shortPatience, true}, {0, 2 * shortPatience, false}, {1, 2*shortPatience + 1, false}, {1, 9 * shortPatience, true}} {
		if got := c.steady(step.n, start.Add(step.at)); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}
