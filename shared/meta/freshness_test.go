package meta

import (
	"testing"
	"time"
)

// A view is from when etcd last spoke of all that is in it, and says so for a while after etcd was heard again.
func TestFreshness(t *testing.T) {
	v := NewView(nil, quiet())
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	all := func(now time.Time) {
		for _, k := range v.kinds {
			v.hear(k, now)
		}
	}
	want := func(now time.Time, f Freshness) {
		t.Helper()
		if got := v.freshness(now); got != f {
			t.Errorf("%s: %+v, want %+v", now.Sub(start), got, f)
		}
	}
	all(at(0))
	want(at(5), Freshness{}) // five seconds are what it takes to leave a member that hangs
	want(at(6), Freshness{Stale: true, Since: at(0)})
	all(at(4))
	want(at(9), Freshness{})
	for _, k := range v.kinds[1:] {
		v.hear(k, at(20))
	}
	want(at(21), Freshness{Stale: true, Since: at(4)}) // of one prefix nothing is heard yet
	all(at(22))
	want(at(23), Freshness{Returned: true, Since: at(22)})
	all(at(26))
	all(at(31))
	all(at(36))
	want(at(36), Freshness{Returned: true, Since: at(22)})
	want(at(37), Freshness{})
}
