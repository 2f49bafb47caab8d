package replica

import "time"

// rateSpan is over how many seconds a rate is taken.
const rateSpan = 10

// rate counts what happened in each of the last ten whole seconds. The partition's goroutine owns it.
type rate struct {
	began  time.Time // of the first second; seconds count on from there, whatever is done to the clock on the wall
	second int64     // the newest bucket's
	counts [rateSpan]uint64
}

func (r *rate) add(n int) {
	r.turn()
	r.counts[r.second%rateSpan] += uint64(n)
}

// turn empties the buckets of seconds that have passed since the last call.
func (r *rate) turn() {
	if r.began.IsZero() {
		r.began = time.Now()
	}
	now := int64(time.Since(r.began) / time.Second)
	for s := max(r.second+1, now-rateSpan+1); s <= now; s++ {
		r.counts[s%rateSpan] = 0
	}
	r.second = max(r.second, now)
}

// perSecond is the mean over the last nine whole seconds; the present one is not over yet.
func (r *rate) perSecond() float64 {
	r.turn()
	sum := uint64(0)
	for i, n := range r.counts {
		if int64(i) != r.second%rateSpan {
			sum += n
		}
	}
	return float64(sum) / (rateSpan - 1)
}
