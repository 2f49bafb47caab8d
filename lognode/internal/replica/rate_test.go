package replica

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestRateIsAMeanOfWholeSeconds(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var r rate
		for range 20 { // 90 a second for 20 s
			r.add(90)
			time.Sleep(time.Second)
		}
		if got := r.perSecond(); got != 90 {
			t.Fatalf("rate %v, want 90", got)
		}
		time.Sleep(5 * time.Second) // nothing in 5 of the last 9 whole seconds
		if got := r.perSecond(); got != 40 {
			t.Fatalf("rate %v, want 40", got)
		}
		time.Sleep(time.Hour)
		if got := r.perSecond(); got != 0 {
			t.Fatalf("rate %v, want 0", got)
		}
	})
}
