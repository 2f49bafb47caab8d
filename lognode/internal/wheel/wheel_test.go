package wheel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const (
	ms   = int64(1_000_000)
	hour = 3600 * 1000 * ms
	day  = 24 * hour
	base = int64(1_790_000_000) * 1000 * ms
)

func fired(w *Wheel, now int64) (out []int64) {
	w.Advance(now, func(t *Timer) { out = append(out, t.Due) })
	return out
}

func TestNeverEarlyWithinATick(t *testing.T) {
	w := New(base)
	w.Insert(new(Timer), base+1)
	w.Insert(new(Timer), base+4*ms)
	w.Insert(new(Timer), base+4*ms+1)
	if got := fired(w, base+4*ms); !slices.Equal(got, []int64{base + 1, base + 4*ms}) {
		t.Fatalf("at 4 ms: %v", got)
	}
	if next, ok := w.NextDue(); !ok || next != base+4*ms+1 {
		t.Fatalf("next due %d %v", next, ok)
	}
}

// A delay shorter than a tick must not land in the bucket that has just been drained.
func TestMuseum20SubTickDelayDoesNotWaitATurn(t *testing.T) {
	w := New(base)
	first, second := new(Timer), new(Timer)
	w.Insert(first, base+25*ms)
	var got []int64
	fire := func(x *Timer) {
		got = append(got, x.Due)
		if x == first {
			w.Insert(second, base+26*ms)
		}
	}
	w.Advance(base+25*ms, fire)
	if next, ok := w.NextDue(); !ok || next != base+26*ms {
		t.Fatalf("next due %d %v, want 1 ms later", next-base, ok)
	}
	w.Advance(base+26*ms, fire)
	if want := []int64{base + 25*ms, base + 26*ms}; !slices.Equal(got, want) {
		t.Fatalf("fired %v, want %v", got, want)
	}
	// And one that is already past is fired by the Advance that is running.
	w.Insert(first, base+30*ms)
	w.Advance(base+40*ms, func(x *Timer) {
		if x == first {
			w.Insert(second, base+31*ms)
		}
	})
	if w.Len() != 0 {
		t.Fatal("a past timer inserted while firing was left")
	}
}

// Cancelling a timer of the bucket that is being drained must leave the rest of the bucket alone.
func TestMuseum21CancelWhileDraining(t *testing.T) {
	w := New(base)
	timers := make([]Timer, 100)
	for i := range timers {
		w.Insert(&timers[i], base+50*ms+int64(i))
	}
	count := 0
	w.Advance(base+60*ms, func(x *Timer) {
		count++
		i := int(x.Due - base - 50*ms)
		if i%2 == 0 && !w.Cancel(&timers[i+1]) {
			t.Fatalf("timer %d was not pending", i+1)
		}
		if w.Cancel(x) {
			t.Fatal("the timer that fires is still pending")
		}
	})
	if count != 50 || w.Len() != 0 {
		t.Fatalf("%d fired, %d left; want 50 and 0", count, w.Len())
	}
}

func TestBeyondTheSpan(t *testing.T) {
	w := New(base)
	far, near := new(Timer), new(Timer)
	w.Insert(far, base+300*day)
	w.Advance(base+3*day, nil)
	w.Insert(near, base+10*day) // its bucket lies behind the one in which far is parked
	var got []int64
	now := base + 3*day
	for range 1000 {
		next, ok := w.NextDue()
		if !ok {
			break
		}
		if next < now {
			t.Fatalf("next due %d is before now %d", next, now)
		}
		now = next
		w.Advance(now, func(x *Timer) {
			if x.Due != now {
				t.Fatalf("due %d fired at %d", x.Due, now)
			}
			got = append(got, x.Due)
		})
	}
	if want := []int64{base + 10*day, base + 300*day}; !slices.Equal(got, want) {
		t.Fatalf("fired %v, want %v", got, want)
	}
}

// The wheel against a sorted slice: same order, same moments, NextDue never late and never stuck.
func TestAgainstSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := base + rapid.Int64Range(0, 10*day).Draw(t, "start")
		w := New(now)
		timers := make([]*Timer, 40)
		for i := range timers {
			timers[i] = &Timer{Owner: i}
		}
		oracle := map[*Timer]int64{}
		delay := rapid.OneOf(rapid.Int64Range(-20*ms, 30*ms), rapid.Int64Range(0, 3000*ms), rapid.Int64Range(0, 400_000*ms),
			rapid.Int64Range(0, 8*hour), rapid.Int64Range(0, 30*day))
		insert := func(x *Timer, due int64) { w.Insert(x, due); oracle[x] = due }
		cancel := func(x *Timer) {
			_, want := oracle[x]
			if got := w.Cancel(x); got != want {
				t.Fatalf("cancel %v: %v, want %v", x.Owner, got, want)
			}
			delete(oracle, x)
		}
		advance := func(to int64) {
			now = max(now, to)
			inserts := 0
			w.Advance(to, func(x *Timer) {
				for y, due := range oracle {
					if due < oracle[x] {
						t.Fatalf("%v due %d fired before %v due %d", x.Owner, oracle[x], y.Owner, due)
					}
				}
				if due, ok := oracle[x]; !ok || due != x.Due || due > to {
					t.Fatalf("%v fired at %d, due %d, pending %v", x.Owner, to, due, ok)
				}
				delete(oracle, x)
				switch a := rapid.IntRange(0, 5).Draw(t, "in fire"); {
				case a == 0 && inserts < 50:
					inserts++
					insert(rapid.SampledFrom(timers).Draw(t, "timer"), to+delay.Draw(t, "delay"))
				case a == 1:
					cancel(rapid.SampledFrom(timers).Draw(t, "timer"))
				}
			})
			for x, due := range oracle {
				if due <= to {
					t.Fatalf("%v due %d was not fired by %d", x.Owner, due, to)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				insert(rapid.SampledFrom(timers).Draw(t, "timer"), now+delay.Draw(t, "delay"))
			},
			"cancel":  func(t *rapid.T) { cancel(rapid.SampledFrom(timers).Draw(t, "timer")) },
			"advance": func(t *rapid.T) { advance(now + max(0, delay.Draw(t, "delay"))) },
			"sleep until the next due time": func(t *rapid.T) {
				if next, ok := w.NextDue(); ok {
					advance(max(now, next))
					if again, ok := w.NextDue(); ok && again <= now {
						t.Fatalf("still %d at %d", again, now)
					}
				}
			},
			"": func(t *rapid.T) {
				next, ok := w.NextDue()
				if w.Len() != len(oracle) || ok != (len(oracle) > 0) {
					t.Fatalf("%d pending, next %v; want %d", w.Len(), ok, len(oracle))
				}
				for x, due := range oracle {
					if next > due {
						t.Fatalf("next due %d is after %v due %d", next, x.Owner, due)
					}
				}
			},
		})
	})
}

func BenchmarkInsertCancelWith10MillionPending(b *testing.B) {
	w := New(base)
	pending := make([]Timer, 10_000_000)
	for i := range pending {
		w.Insert(&pending[i], base+int64(uint64(i)*0x9E3779B97F4A7C15%uint64(7*day)))
	}
	var t Timer
	at := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		at = (at*6364136223846793005 + 1442695040888963407) & (1<<49 - 1)
		w.Insert(&t, base+at)
		w.Cancel(&t)
	}
}
