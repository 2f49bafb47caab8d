package replica

import (
	"math"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// A re-timing to the time that a schedule has already, as the second of two that were sent because the first one's answer
// was late, changes nothing: its message, which is read and will not be read again, stays.
func TestRetimedToItsOwnTimeKeepsItsMessage(t *testing.T) {
	o := newOne(t)
	s := o.schedule(time.Hour, "v")
	due := s.Dues[0]
	o.onPartition(func(l *leadership) {
		taken := l.book.Take(math.MaxInt64, 1, nil)
		l.ahead.Read(l.book, taken, taken, map[uint64]mq.Message{s.First: {Value: []byte("v")}})
	})
	held := func() (ok bool) {
		o.onPartition(func(l *leadership) { ok = l.ahead.Has(s.First) })
		return ok
	}
	if err := o.retime(s.First, due); err != nil || !held() {
		t.Errorf("re-timed to its own time (%v), and its message is held: %v", err, held())
	}
	if err := o.retime(s.First, due+int64(time.Hour)); err != nil || held() {
		t.Errorf("re-timed (%v), and its message is held: %v", err, held())
	}
}
