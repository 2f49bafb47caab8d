package waiter

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func (q *queue) join(only ...uint32) *Waiter {
	q.nextSeq++
	return &Waiter{q: q, only: only, seq: q.nextSeq, wake: make(chan struct{}, 1)}
}

// awake takes a wake-up if there is one.
func awake(w *Waiter) bool {
	select {
	case <-w.wake:
		return true
	default:
		return false
	}
}

func TestOldestFirstAndNoMoreThanAreReady(t *testing.T) {
	q := &queue{parts: make([]part, 2)}
	a, b, c := q.join(), q.join(), q.join()
	for _, w := range []*Waiter{c, b, a} { // they park in another order than they came
		q.park(w)
	}
	q.hint(1, 2)
	if !awake(a) || !awake(b) || awake(c) {
		t.Fatal("the two oldest should be awake")
	}
	// a finds nothing and takes its old place; the next hint is for it, not for c.
	q.answered(1, q.parts[1].stamp, 0)
	q.park(a)
	q.hint(0, 1)
	if !awake(a) || awake(c) {
		t.Error("who got nothing keeps its place")
	}
}

// A waiter that gives up with a wake-up in hand leaves it to the next one.
func TestMuseum29WakeUpOfALeaverIsPassedOn(t *testing.T) {
	q := &queue{parts: make([]part, 1)}
	a, b := q.join(), q.join()
	q.park(a)
	q.park(b)
	q.hint(0, 1)
	q.asleep(a) // as Leave does
	q.dispatch()
	if !awake(b) {
		t.Error("b was not woken")
	}
}

// A hint that comes while a leader is being asked outlives the leader's answer, which may be older.
func TestMuseum29HintOutlivesAnOlderAnswer(t *testing.T) {
	q := &queue{parts: make([]part, 1)}
	a := q.join()
	q.park(a)
	q.hint(0, 1)
	awake(a)
	stamp := q.parts[0].stamp
	q.hint(0, 1)
	q.answered(0, stamp, 0)
	q.park(a)
	q.dispatch()
	if !awake(a) {
		t.Error("the second hint was lost")
	}
}

// Leaders are asked about the partitions that some waiter takes, and about no others.
func TestOnlyWhatIsWaitedForIsAskedAbout(t *testing.T) {
	m := &Manager{queues: map[key]*queue{}}
	q := &queue{key: key{1, 2}, parts: make([]part, 4)}
	m.queues[q.key] = q
	asked := func() (out []uint32) {
		for _, p := range m.pairs() {
			out = append(out, p.Partition.Number)
		}
		return out
	}
	want := func(when string, parts ...uint32) {
		t.Helper()
		if got := asked(); !slices.Equal(got, parts) {
			t.Errorf("%s: %v, want %v", when, got, parts)
		}
	}
	some, other, all := &Waiter{q: q, only: []uint32{1, 3, 9}}, &Waiter{q: q, only: []uint32{3}}, &Waiter{q: q}
	for i, c := range []struct {
		w    *Waiter
		more bool
	}{{some, true}, {other, false}, {all, true}} {
		if more := q.arrive(c.w); more != c.more {
			t.Errorf("waiter %d brings more: %v", i, more)
		}
		if i == 1 {
			want("some", 1, 3)
		}
	}
	want("all", 0, 1, 2, 3)
	q.depart(all)
	q.parts = append(q.parts, make([]part, 8)...) // partition 9 was none when its waiter came
	q.depart(some)
	want("one is left", 3)
	q.depart(other)
	want("nobody")
}

func TestWaitersOfSomePartitions(t *testing.T) {
	q := &queue{parts: make([]part, 3)}
	a, b := q.join(1), q.join()
	q.park(a)
	q.park(b)
	q.hint(2, 5)
	if awake(a) || !awake(b) {
		t.Error("partition 2 is for b")
	}
	q.hint(1, 1)
	if !awake(a) || a.ready != 1 {
		t.Error("partition 1 is for a")
	}
}

// Whatever happens in whatever order: nobody who could take what is ready sleeps, the parked are in order,
// and no more are awake for a partition than are ready.
func TestQueueInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &queue{parts: make([]part, rapid.IntRange(1, 4).Draw(t, "partitions"))}
		var up []*Waiter // awake, or not parked yet
		var parked []*Waiter
		wake := func() {
			rest := parked[:0:0]
			for _, w := range parked {
				if awake(w) {
					up = append(up, w)
				} else {
					rest = append(rest, w)
				}
			}
			parked = rest
		}
		partition := func() uint32 { return uint32(rapid.IntRange(0, len(q.parts)-1).Draw(t, "partition")) }
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "some") {
					up = append(up, q.join(partition()))
					return
				}
				w := q.join()
				w.only = nil
				up = append(up, w)
			},
			"park": func(t *rapid.T) {
				if len(up) == 0 {
					return
				}
				i := rapid.IntRange(0, len(up)-1).Draw(t, "who")
				w := up[i]
				up = append(up[:i:i], up[i+1:]...)
				parked = append(parked, w)
				q.park(w)
				q.dispatch()
			},
			"leave": func(t *rapid.T) {
				if all := append(append([]*Waiter(nil), up...), parked...); len(all) > 0 {
					w := all[rapid.IntRange(0, len(all)-1).Draw(t, "who")]
					if w.parked {
						q.unlink(w)
					}
					q.asleep(w)
					up, parked = without(up, w), without(parked, w)
					q.dispatch()
				}
			},
			"hint": func(t *rapid.T) { q.hint(partition(), uint64(rapid.IntRange(0, 3).Draw(t, "n"))) },
			"answered": func(t *rapid.T) {
				p := partition()
				late := uint64(rapid.IntRange(0, 1).Draw(t, "late"))
				q.answered(p, q.parts[p].stamp-late, uint64(rapid.IntRange(0, 2).Draw(t, "more")))
			},
			"": func(t *rapid.T) {
				wake()
				last := uint64(0)
				for w := q.head; w != nil; w = w.next {
					if w.seq <= last || !w.parked {
						t.Fatalf("waiter %d is after %d, parked %v", w.seq, last, w.parked)
					}
					last = w.seq
					for p, x := range q.parts {
						if w.takes(uint32(p)) && x.ready > uint64(x.awake) {
							t.Fatalf("waiter %d sleeps while %d are ready in %d for %d", w.seq, x.ready, p, x.awake)
						}
					}
				}
				for p, x := range q.parts {
					n := 0
					for _, w := range up {
						if w.hinted && w.ready == uint32(p) {
							n++
						}
					}
					if n != x.awake {
						t.Fatalf("%d are awake for %d, not %d", n, p, x.awake)
					}
				}
			},
		})
	})
}

func without(ws []*Waiter, w *Waiter) []*Waiter {
	out := ws[:0:0]
	for _, x := range ws {
		if x != w {
			out = append(out, x)
		}
	}
	return out
}

func TestOrderAsksWhereSomethingIsReady(t *testing.T) {
	q := &queue{parts: make([]part, 4)}
	q.parts[2].ready, q.parts[1].ready = 9, 3
	for range 20 {
		got := q.order(nil, nil)
		if len(got) != 4 || got[0] != 2 || got[1] != 1 || got[2]+got[3] != 3 {
			t.Fatalf("%v", got)
		}
	}
	if got := q.order([]uint32{3}, nil); len(got) != 1 || got[0] != 3 {
		t.Errorf("%v", got)
	}
}
