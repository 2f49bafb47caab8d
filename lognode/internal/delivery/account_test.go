package delivery

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// Whatever happens to leases of an account, each is told to be over exactly once, when it is.
func TestMuseum29CreditIsNeverStale(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := newJournal(t)
		j.group(1, nil)
		out := map[fence]uint64{} // leases of account 7 that are not over, with their offsets
		until := map[fence]int64{}
		take := func() {
			j.m.TakeFreed(func(freed []Freed) {
				for _, f := range freed {
					for i := range f.Count {
						at := fence{f.Segment, f.Counter + uint64(i)}
						if _, ok := out[at]; !ok || f.Account != 7 || f.Stream != 1 {
							rt.Fatalf("%+v is told to be over, which it was before", f)
						}
						delete(out, at)
					}
				}
			})
		}
		deliveries := uint64(0)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			var one fence
			for f := range out { // any of them
				if one.counter == 0 || f.less(one) {
					one = f
				}
			}
			receipt := mq.Receipt{Group: 1, Generation: 1, Partition: j.m.partition, Offset: out[one], Segment: one.segment, Counter: one.counter}
			settle := func(o Outcome) {
				if one.counter > 0 {
					j.m.Settle(j.now, []SettleItem{{Receipt: receipt, Outcome: o, Delay: 1, Lease: int64(time.Minute)}}, nil)
					if until[one] = j.now + int64(time.Minute); o != Extend {
						take()
						if _, ok := out[one]; ok {
							rt.Fatalf("%v is settled and not told", one)
						}
					}
				}
			}
			switch rapid.IntRange(0, 7).Draw(rt, "act") {
			case 0:
				j.cut(rapid.IntRange(1, 5).Draw(rt, "n"))
			case 1, 2:
				deliveries++
				g, err := j.m.Receive(j.now, ReceiveRequest{Group: 1, Max: rapid.IntRange(1, 4).Draw(rt, "max"), Stream: 1, Delivery: deliveries, Account: 7})
				if err != nil {
					rt.Fatal(err)
				}
				for _, r := range g.Runs {
					for i := range r.Count {
						f := fence{g.Segment, r.Counter + uint64(i)}
						out[f], until[f] = r.First+uint64(i), g.LeaseUntil
					}
				}
			case 3:
				settle(Ack)
			case 4:
				settle(Nack)
			case 5:
				settle(Extend)
			case 6:
				j.pass(rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, time.Minute}).Draw(rt, "later"))
			case 7:
				if deliveries > 0 {
					j.m.Return(j.now, 1, rapid.Uint64Range(1, deliveries).Draw(rt, "delivery"))
				}
			}
			take()
			for f, off := range out {
				if got := j.m.Leased(1, off, f.segment, f.counter); got != until[f] {
					rt.Fatalf("offset %d is leased until %d under %v, want %d", off, got, f, until[f])
				}
			}
			if err := j.m.Check(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// Leases without an account are nobody's credit.
func TestNothingIsToldWithoutAnAccount(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(3)
	g, err := j.m.Receive(j.now, ReceiveRequest{Group: 1, Max: 3, Stream: 1, Delivery: 1})
	if err != nil || g.Messages() != 3 {
		t.Fatalf("%+v %v", g, err)
	}
	j.m.StreamGone(j.now, 1)
	j.m.TakeFreed(func(f []Freed) { t.Errorf("told of %+v", f) })
}
