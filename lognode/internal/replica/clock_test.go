package replica

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/clocks"
	"github.com/splashdam/splashdam/lognode/internal/delivery"
)

// knownClock is a clock that nobody can tell of.
func knownClock() *Clock {
	c := NewClock()
	c.Settle(clocks.Word{})
	return c
}

// A run that was just started does not serve before the others have told of its clock, or nobody can.
func TestLeaderWaitsForItsClock(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct{ nobody, cameLate bool }{
		"others may tell": {}, "nobody can": {nobody: true}, "others were waited for in vain, and come": {cameLate: true},
	} {
		nobody := x.nobody
		t.Run(name, func(t *testing.T) {
			o := newOne(t)
			o.stop()
			o.boot()
			o.env.Clock = NewClock()
			if x.cameLate {
				o.env.Clock.Settle(clocks.Word{})
				o.env.Clock.Expect()
			}
			asked := make(chan struct{}, 1)
			o.env.NobodyTells = func() bool { asked <- struct{}{}; return nobody }
			o.open()
			<-asked
			if !nobody {
				o.env.Clock.Settle(clocks.Word{Soon: true})
				serves := make(chan bool)
				o.p.post(func() { serves <- o.p.lead.serving })
				if <-serves {
					t.Error("it serves by a clock that may be an hour off")
				}
				o.env.Clock.Settle(clocks.Word{Told: true})
			}
			o.publish("x")
		})
	}
}

// A clock that is ahead of the others does not run away with the journal's time, nor with that of leases, and releases nothing
// early.
func TestTimeKeepsToTheMedian(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	const ahead = 24 * time.Hour
	settle := func(ahead time.Duration) { // what lognode's standing does
		o.p.Move(o.env.Clock.Settle(clocks.Word{Ahead: ahead, Told: true}))
		o.env.Ahead.Store(int64(ahead))
	}
	between := func(what string, at int64, before time.Time, off time.Duration) {
		t.Helper()
		if low, high := before.Add(-off), time.Now().Add(-off); at < low.UnixNano() || at > high.UnixNano() {
			t.Errorf("%s is %s, want about %s", what, time.Unix(0, at), low)
		}
	}
	settle(ahead) // before there is a stamp, as none goes back
	o.group(1, nil)
	before := time.Now()
	f := o.publish("x")
	between("the stamp", f.Stamp, before, ahead)
	o.onPartition(func(l *leadership) {
		g, err := l.machine.Receive(o.env.Clock.Now(), receiveOne)
		if err != nil || len(g.Runs) != 1 {
			t.Fatalf("%+v, %v", g, err)
		}
		between("the end of the lease", g.LeaseUntil-receiveOne.Lease, before, ahead)
		if o.p.mayRelease() {
			t.Error("schedules are released by a clock that is a day ahead")
		}
	})
	settle(0)
	before = time.Now()
	if g := o.publish("y"); g.Stamp < f.Stamp {
		t.Errorf("the stamp went back from %d to %d", f.Stamp, g.Stamp)
	} else {
		between("the stamp", g.Stamp, before, 0)
	}
	o.onPartition(func(l *leadership) {
		if !o.p.mayRelease() {
			t.Error("nothing is released by a clock that is right")
		}
		h := l.machine.Held(1, delivery.StateLeased, 0, 1)
		if len(h) != 1 {
			t.Fatalf("%d leased", len(h))
		}
		between("the end of the lease", h[0].Until-receiveOne.Lease, before.Add(-time.Minute), 0)
	})
	for ahead, want := range map[time.Duration]bool{0: false, time.Second: false, -time.Second: false, 1001 * time.Millisecond: true, -2 * time.Second: true} {
		if o.env.Ahead.Store(int64(ahead)); o.env.Skewed() != want {
			t.Errorf("ahead by %s: skewed %v", ahead, !want)
		}
	}
}

var receiveOne = delivery.ReceiveRequest{Group: 1, Max: 1, Lease: int64(time.Hour), Consumer: "c", Stream: 1, Delivery: 1}
