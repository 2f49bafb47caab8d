package coordinator

import (
	"testing"
	"time"
)

// Who sees trouble is served at once, whenever nodes were asked last for no reason; a crowd is served twice.
func TestPulses(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	p := pulses{wanted: true}
	wait := func(ms int, want time.Duration) {
		t.Helper()
		if got := p.wait(at(ms)); got != want {
			t.Errorf("at %d ms: the next pulse is in %v, not in %v", ms, got, want)
		}
	}
	wait(0, 0) // a new controller asks
	p.done(at(0))
	wait(1, 999*time.Millisecond)
	wait(1500, 0)
	p.done(at(1500))
	wait(1510, 990*time.Millisecond)
	p.wanted = true // a node is killed right after they were asked for no reason
	wait(1510, 0)
	p.done(at(1510))
	p.wanted = true // others have seen it too
	wait(1520, 90*time.Millisecond)
	wait(1610, 0)
	p.done(at(1610))
	wait(1620, 990*time.Millisecond)
}
