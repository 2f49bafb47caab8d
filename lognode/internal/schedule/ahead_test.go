package schedule

import (
	"math"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

const second = int64(time.Second)

func aheadOf(record int) *Ahead {
	return NewAhead(Limits{Before: 2 * second, Bytes: 1000, Read: 10, Record: record, RecordBytes: 1000, Late: 2 * record, Hold: second})
}

// What is due while an entry is on its way to the disk waits for the next entry, which looks. A timer for it would fire at
// once, and again, for as long as the disk takes.
func TestNoTimerForWhatTheNextEntryLooksAt(t *testing.T) {
	b, a := New(), aheadOf(4)
	due := 3600 * second
	b.Schedule(mq.Position{}, []int64{due}, 1)
	b.Take(math.MaxInt64, 1, nil) // near, so that its own time is what the timer is for
	a.Look()
	if at, set := a.Timer(b, due+second); set {
		t.Errorf("the timer is set for %d while the next entry looks", at)
	}
	if at, set := aheadOf(4).Timer(b, due+second); !set || at != due {
		t.Errorf("the timer is set: %v, for %d, and not for %d", set, at, due)
	}
}

// What is near is read once all of it is committed, released when it is due, as much at a time as a record takes, and not while that may
// not happen: then the timer says when it is tried again.
func TestAhead(t *testing.T) {
	b, a := New(), aheadOf(2)
	at := mq.Position{Offset: 5}
	due := 3600 * second
	b.Schedule(at, []int64{due, due, due}, 3)
	if at, set := a.Timer(b, 0); !set || at != due-2*second {
		t.Errorf("the timer is set: %v, for %d; what is due at %d is near two seconds before", set, at, due)
	}
	if wanted, _ := a.Next(b, due-2*second-1, at.Next(1)); wanted != nil {
		t.Errorf("%v is not near yet", wanted)
	}
	now := due - 2*second
	if wanted, _ := a.Next(b, now, at); wanted != nil {
		t.Errorf("%v is not committed yet", wanted)
	}
	wanted, room := a.Next(b, now, at.Next(1))
	if len(wanted) != 3 || room != 1000 {
		t.Fatalf("%v, room for %d", wanted, room)
	}
	if again, _ := a.Next(b, now, at.Next(1)); again != nil {
		t.Errorf("%v is being read", again)
	}
	got := map[uint64]mq.Message{wanted[0].Number: {Value: []byte("a")}, wanted[1].Number: {Value: []byte("b")}}
	if missing := a.Read(b, wanted, wanted, got); len(missing) != 1 || missing[0].Number != wanted[2].Number {
		t.Fatalf("missing: %v", missing)
	}
	may := true
	release := func(now int64) int {
		t.Helper()
		due, raw := a.Release(b, func() bool { return may }, 7, now)
		if (len(due) == 0) != (raw == nil) {
			t.Fatalf("%v and %d bytes", due, len(raw))
		}
		return len(due)
	}
	if n := release(due - 1); n != 0 {
		t.Errorf("%d are released a nanosecond early", n)
	}
	a.Fired()
	may = false
	if n := release(due); n != 0 || a.Looks() {
		t.Errorf("%d are released though they may not be", n)
	}
	if at, set := a.Timer(b, due); !set || at != due+second {
		t.Errorf("the timer is set: %v, for %d, and not a second later", set, at)
	}
	a.Fired()
	may = true
	if n := release(due + second); n != 2 || a.Bytes() != 0 || !a.Looks() {
		t.Errorf("%d are released, %d bytes are held", n, a.Bytes())
	}
	// The third one was not read. When it is, it comes.
	a.Read(b, nil, wanted[2:], map[uint64]mq.Message{wanted[2].Number: {Value: []byte("c")}})
	if n := release(due + second); n != 1 {
		t.Errorf("%d are released", n)
	}
}

// A clock that is ahead makes a message due while it is being read, and is set right before it is released: it is due when it was, and
// the timer says when.
func TestLateIsNotEarlyWhenTheClockIsSetBack(t *testing.T) {
	b, a := New(), aheadOf(4)
	at, due := mq.Position{}, 3600*second
	b.Schedule(at, []int64{due, due + second}, 2)
	wanted, _ := a.Next(b, due, at.Next(1))
	a.Look()
	release := func(now int64) int {
		list, _ := a.Release(b, func() bool { return true }, 7, now)
		return len(list)
	}
	if n := release(due + second); n != 0 {
		t.Fatalf("%d are released without their messages", n)
	}
	got := map[uint64]mq.Message{wanted[0].Number: {Value: []byte("a")}, wanted[1].Number: {Value: []byte("b")}}
	a.Read(b, wanted, wanted, got)
	if n := release(due - 1); n != 0 {
		t.Errorf("%d are released early", n)
	}
	if at, set := a.Timer(b, due-1); !set || at != due {
		t.Errorf("the timer is set: %v, for %d, not for %d", set, at, due)
	}
	for _, now := range []int64{due, due + second} {
		a.Fired()
		if n := release(now); n != 1 {
			t.Errorf("%d are released at %d, not one", n, now-due)
		}
	}
}
