package seal

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/coordinator/internal/placement"
	"github.com/splashdam/splashdam/shared/mq"
)

// TestEnd: whatever q replicas hold is below the end, whoever answers; fewer than |replicas| - q + 1 answers decide
// nothing (I1).
func TestEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "replicas")
		q := rapid.IntRange(n/2+1, n).Draw(t, "quorum")
		seg := &mq.Segment{Base: pos(10), Replicas: replicas(n), Quorum: q}
		tails := make([]uint64, n)
		answers := map[mq.StoreID]Answer{}
		for i, r := range seg.Replicas {
			tails[i] = rapid.Uint64Range(10, 15).Draw(t, "tail")
			a := Answer{Known: true, Sealed: true, Tail: pos(tails[i])}
			switch rapid.IntRange(0, 5).Draw(t, "answer") {
			case 0: // silent
				continue
			case 1: // unknown, or damaged: says nothing of what it may have acknowledged
				a = Answer{Sealed: true}
			case 2: // answered without its flag
				a.Sealed = false
			}
			answers[r.Store] = a
		}
		good, highest := 0, uint64(10)
		for i, r := range seg.Replicas {
			if a := answers[r.Store]; a.Known && a.Sealed {
				good++
				highest = max(highest, tails[i])
			}
		}
		end, ok := End(seg, answers)
		if ok != (good >= n-q+1) {
			t.Fatalf("decided: %v, with %d answers of %d, quorum %d", ok, good, n, q)
		}
		if !ok {
			return
		}
		if end != pos(highest) {
			t.Fatalf("end %s, the highest tail is %d", end, highest)
		}
		for acked := uint64(10); acked <= 15; acked++ {
			holders := 0
			for _, tail := range tails {
				if tail >= acked {
					holders++
				}
			}
			if holders >= q && end.Offset < acked {
				t.Fatalf("%d replicas of %d hold up to %d, the end is %s", holders, n, acked, end)
			}
		}
	})
}

func takers(ids ...int) (out []Taker) {
	for _, i := range ids {
		s := mq.StoreID(fmt.Sprint("s", i))
		out = append(out, Taker{placement.Node{Name: fmt.Sprint("n", i), Store: s}, mq.Incarnation{Store: s, Boot: 7}})
	}
	return out
}

func TestPlan(t *testing.T) {
	sealed := known(11, 14, 14)
	for s, a := range sealed {
		a.Sealed = true
		sealed[s] = a
	}
	h := open()
	next, _, ok := Plan(&h, pos(14), sealed, takers(1, 2, 3, 4), "", nil)
	if !ok || next.Base != pos(14) || next.Number != 3 || next.Quorum != 2 || len(next.Replicas) != 3 {
		t.Fatalf("%+v", next)
	}
	if next.Leader.Store == "s1" || next.Leader.Boot != 7 || next.Replicas[0].Store != next.Leader.Store {
		t.Errorf("led by %s; s1 did not answer the end", next.Leader)
	}
	if _, _, ok := Plan(&h, pos(14), sealed, takers(1, 4), "", nil); ok {
		t.Error("planned without anyone who answered the end")
	}
	if _, _, ok := Plan(&h, pos(14), sealed, takers(2), "", nil); ok {
		t.Error("planned with fewer nodes than a quorum")
	}
	others := takers(1, 2, 3)
	others[1].Slow, others[2].Slow = true, true // who has the end had better not lead, and the other one copies it
	if next, _, ok = Plan(&h, pos(14), sealed, others, "", nil); !ok || next.Leader.Store != "s1" || len(next.Replicas) != 3 {
		t.Errorf("slow disks: %+v", next)
	}
	first := mq.Head{Replicas: 3, Quorum: 2, Next: 1}
	next, _, ok = Plan(&first, mq.Position{}, nil, takers(1, 2), "", nil)
	if !ok || next.Number != 1 || next.Base != (mq.Position{}) || len(next.Replicas) != 2 {
		t.Errorf("first: %+v", next)
	}
}

func TestChain(t *testing.T) {
	h := open()
	next := mq.Segment{ID: 6, Number: 3, Base: pos(14)}
	head, displaced := Chain(h, pos(14), next, nil)
	if head.Open.ID != 6 || head.Next != 4 || head.Last.ID != 5 || !head.Last.Sealed || head.Last.End != pos(14) || displaced.ID != 4 {
		t.Errorf("chained: %+v, last %+v, displaced %+v", head, head.Last, displaced)
	}
	if h.Open.Sealed {
		t.Error("the head of before was changed")
	}
	next.Base = pos(10)
	head, displaced = Chain(h, pos(10), next, nil)
	if head.Open.ID != 6 || head.Next != 4 || head.Last.ID != 4 || displaced != nil {
		t.Errorf("an empty one replaced: %+v, last %+v, displaced %+v", head, head.Last, displaced)
	}
	head, displaced = Chain(mq.Head{Next: 1}, mq.Position{}, mq.Segment{ID: 1, Number: 1}, nil)
	if head.Last != nil || displaced != nil || head.Next != 2 || head.Open.ID != 1 {
		t.Errorf("first: %+v, %+v", head, displaced)
	}
}
