package beat

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	for _, offset := range []time.Duration{0, 1, 99, 100, 101, 199} {
		now := time.Unix(1000, int64(offset*time.Millisecond))
		wait := Until(now, Base)
		if at := now.Add(wait); at.UnixNano()%int64(Base) != 0 {
			t.Errorf("%d ms after one: the next is at %v", offset, at)
		}
		if wait < Base/2 || wait > Base*3/2 {
			t.Errorf("%d ms after one: waits for %v", offset, wait)
		}
	}
}

func TestBelow(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		2 * time.Second / 3: 600 * time.Millisecond, time.Second / 3: 200 * time.Millisecond, 200 * time.Millisecond: 200 * time.Millisecond,
		90 * time.Millisecond: 90 * time.Millisecond, 10 * time.Second / 3: 3200 * time.Millisecond,
	} {
		if got := Below(d); got != want {
			t.Errorf("%v: %v, want %v", d, got, want)
		}
	}
}

// Tickers that were made at different moments tick at the same ones.
func TestTickersTickTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		every := []time.Duration{time.Second, time.Second, 600 * time.Millisecond}
		var tickers []*Ticker
		for i, e := range every {
			<-time.After(time.Duration(i) * 137 * time.Millisecond)
			tickers = append(tickers, NewTicker(e))
		}
		for i, x := range tickers {
			before := time.Time{}
			for range 5 {
				at := <-x.C
				if at.UnixNano()%int64(every[i]) != 0 {
					t.Errorf("ticker %d of %v ticks at %v", i, every[i], at)
				}
				if !before.IsZero() && at.Sub(before) < every[i] {
					t.Errorf("ticker %d of %v ticks at %v and %v", i, every[i], before, at)
				}
				before = at
			}
			x.Stop()
			<-time.After(3 * time.Second)
			select { // one tick may have been there already
			case <-x.C:
				<-time.After(3 * time.Second)
			default:
			}
			select {
			case at := <-x.C:
				t.Errorf("ticker %d ticks at %v, after its end", i, at)
			default:
			}
		}
	})
}
