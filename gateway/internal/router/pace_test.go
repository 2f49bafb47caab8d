package router

import (
	"slices"
	"testing"
	"time"
)

// Pauses double up to their bound, and begin anew with another segment: the wait for a leader that was away long would make
// the new one seem to be away, too.
func TestPaceBeginsAnewWithAnotherSegment(t *testing.T) {
	revision := int64(1)
	p := newPace(func() int64 { return revision })
	var got []time.Duration
	take := func(n int) {
		for range n {
			got = append(got, p.next()/time.Millisecond)
		}
	}
	take(8)
	revision = 2
	take(2)
	if want := []time.Duration{5, 10, 20, 40, 80, 160, 250, 250, 5, 10}; !slices.Equal(got, want) {
		t.Errorf("%d ms, want %d", got, want)
	}
}
