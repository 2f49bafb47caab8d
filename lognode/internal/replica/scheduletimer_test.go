package replica

import (
	"math"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// What is due while an entry is on its way to the disk waits for the next entry, which looks. A timer for it would fire at
// once, and again, for as long as the disk takes.
func TestNoTimerForWhatTheNextEntryLooksAt(t *testing.T) {
	o := newOne(t)
	due := o.schedule(time.Hour, "v").Dues[0]
	var got struct{ looking, idle int64 }
	o.onPartition(func(l *leadership) {
		l.book.Take(math.MaxInt64, 1, nil) // near, so that its own time is what the timer is for
		after := due + int64(time.Second)
		l.ahead.timer, l.ahead.look = 0, true
		o.p.setScheduleTimer(l, after)
		got.looking = l.ahead.timer
		l.ahead.look = false
		o.p.setScheduleTimer(l, after)
		got.idle = l.ahead.timer
	})
	if got.looking != 0 || got.idle != due {
		t.Errorf("the timer is set for %d while the next entry looks, and else for %d; want none, and %d", got.looking, got.idle, due)
	}
}

// A re-timing to the time that a schedule has already, as the second of two that were sent because the first one's answer
// was late, changes nothing: its message, which is read and will not be read again, stays.
func TestRetimedToItsOwnTimeKeepsItsMessage(t *testing.T) {
	o := newOne(t)
	s := o.schedule(time.Hour, "v")
	due := s.Dues[0]
	o.onPartition(func(l *leadership) {
		l.book.Take(math.MaxInt64, 1, nil)
		l.ahead.messages[s.First] = mq.Message{Value: []byte("v")}
		l.ahead.bytes++
	})
	held := func() (ok bool) {
		o.onPartition(func(l *leadership) { _, ok = l.ahead.messages[s.First] })
		return ok
	}
	if err := o.retime(s.First, due); err != nil || !held() {
		t.Errorf("re-timed to its own time (%v), and its message is held: %v", err, held())
	}
	if err := o.retime(s.First, due+int64(time.Hour)); err != nil || held() {
		t.Errorf("re-timed (%v), and its message is held: %v", err, held())
	}
}
