package slow

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = int64(time.Second)

// Who waits for less than three quarters of the time never finds the disk slow, however long that goes on.
func TestWaits(t *testing.T) {
	for _, x := range []struct {
		waits, not int64 // in turn, milliseconds
		slow       bool
	}{
		{1000, 0, true},
		{900, 100, true},
		{760, 240, true},
		{750, 250, false},
		{500, 500, false}, // on one slow disk for all the leader's is the last of them now and then
		{10, 990, false},
	} {
		var w Waits
		now, slow := 1000*second, false
		for range 3600 {
			w.Note(now, true)
			now += x.waits * 1e6
			slow = slow || w.Left(now) == 0
			w.Note(now, false)
			now += x.not * 1e6
		}
		if slow != x.slow {
			t.Errorf("%d ms of waiting and %d without: slow %v", x.waits, x.not, slow)
		}
	}
	var w Waits
	w.Note(second, true)
	if !w.On() || w.Left(3*second) != 3*second || w.Left(6*second) != 0 || w.Left(99*second) != 0 {
		t.Errorf("left: %d after two seconds, %d after five", w.Left(3*second), w.Left(6*second))
	}
	w.Note(7*second, false) // it counts five seconds, not six
	if w.On() || w.Left(8*second) != 3*second || w.Left(9*second) != 5*second {
		t.Errorf("left: %d a second later, %d two seconds later", w.Left(8*second), w.Left(9*second))
	}
}

// A flag ends when the disk has been quick for the whole rest, without a break, and the rest doubles when it comes back soon.
func TestDisk(t *testing.T) {
	var d Disk
	now := 1000 * second
	look := func(after int64, found bool, waited time.Duration, want bool) {
		t.Helper()
		now += after
		if got := d.Look(now, found, waited); got != want {
			t.Fatalf("at %d s: slow %v", (now-1000*second)/second, got)
		}
	}
	look(0, false, time.Hour, false) // slow for everybody, as far as anyone knows
	look(0, true, 0, true)
	look(29*second, false, 0, true)
	look(0, false, Quick+1, true) // one late entry, and it begins anew
	look(29*second, false, Quick, true)
	look(second, false, 0, false)
	look(299*second, true, 0, true) // within ten rests
	look(59*second, false, 0, true)
	look(second, false, 0, false)
	look(600*second, true, 0, true) // not within ten rests of a minute
	look(30*second, false, 0, false)
	for rest := 60 * second; rest < 2*restMost; rest *= 2 { // again and again
		look(0, true, 0, true)
		look(min(rest, restMost)-1, false, 0, true)
		look(1, false, 0, false)
	}
}

// Whatever is found, a node calls its disk slow at most seven times in an hour: rests of 30 s and 1, 2, 4, 8 and 16 minutes lie
// between, and the next one does not end in it.
func TestDiskIsFoundSlowRarely(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Disk
		was, times, now := false, 0, int64(0)
		found := rapid.SliceOfN(rapid.Bool(), 1, 50).Draw(t, "found")
		for i := 0; now < 3600*second; i++ {
			is := d.Look(now, found[i%len(found)], 0)
			if is && !was {
				times++
			}
			was = is
			now += second
		}
		if times > 7 {
			t.Fatalf("%d times in an hour", times)
		}
	})
}
