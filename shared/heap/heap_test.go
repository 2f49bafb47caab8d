package heap

import "testing"

// Room of a heap in MiB: its own size while it is tiny, 48 up to 240, and from there what it has beyond 192.
func TestPercent(t *testing.T) {
	for live, room := range map[uint64]uint64{1: 1, 48: 48, 96: 48, 189: 48, 192: 48, 240: 48, 256: 64, 384: 192, 1192: 1000, 100 << 10: 100<<10 - 192} {
		if got, want := Percent(live<<20), int(100*room/live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live, got, want)
		}
	}
	if got := Percent(0); got != 0 && got != 100 {
		t.Errorf("an empty heap: %d %%", got)
	}
}

// Tend can be stopped at once, and leaves alone what an operator has set.
func TestTendStops(t *testing.T) {
	Tend()()
	t.Setenv("GOGC", "80")
	Tend()()
}
