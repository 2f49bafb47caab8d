package replica

import (
	"testing"
	"time"
)

// A clock that is ahead of the others does not run away with the journal's time, and releases nothing early.
func TestStampsKeepToTheMedian(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	const ahead = 24 * time.Hour
	o.env.Ahead.Store(int64(ahead))
	before := time.Now().UnixNano()
	f := o.publish("x")
	after := time.Now().UnixNano()
	if low, high := before-int64(ahead-MaxSkew), after-int64(ahead-MaxSkew); f.Stamp < low || f.Stamp > high {
		t.Errorf("stamped %s, want %s", time.Unix(0, f.Stamp), time.Unix(0, low))
	}
	held := make(chan bool, 1)
	o.p.post(func() { held <- !o.p.mayRelease(o.p.lead) })
	if !<-held {
		t.Error("schedules are released by a clock that is a day ahead")
	}
	o.env.Ahead.Store(int64(MaxSkew))
	if g := o.publish("y"); g.Stamp < f.Stamp {
		t.Errorf("the stamp went back from %d to %d", f.Stamp, g.Stamp)
	}
	o.p.post(func() { held <- !o.p.mayRelease(o.p.lead) })
	if <-held {
		t.Error("a second off is not too much")
	}
	for ahead, want := range map[time.Duration]bool{0: false, time.Second: false, -time.Second: false, 1001 * time.Millisecond: true, -2 * time.Second: true} {
		if o.env.Ahead.Store(int64(ahead)); o.env.Skewed() != want {
			t.Errorf("ahead by %s: skewed %v", ahead, !want)
		}
	}
}
