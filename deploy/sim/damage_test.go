package sim

import (
	"flag"
	"slices"
	"sync"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

var damageSeeds = flag.Int("damage-seeds", 60, "seeds for each kind of damage on all copies")

// sumOf runs seeds with these faults only, and wants none to break a rule.
func sumOf(t *testing.T, only ...string) (sum Result) {
	t.Helper()
	var mu sync.Mutex
	sum.Faults = map[string]int{}
	forEach(*firstSeed, *damageSeeds, func(seed uint64) bool {
		r := Run(seed, Config{Chaos: 15, Only: only})
		mu.Lock()
		defer mu.Unlock()
		sum.add(&r)
		if r.Err != nil {
			t.Errorf("seed %d: %v", seed, r.Err)
		}
		return r.Err != nil
	})
	return sum
}

// Copies of open segments that are damaged at different places become what they were: nothing is lost, and nobody has to say so.
func TestDamagedApartIsRestored(t *testing.T) {
	sum := sumOf(t, "open copies damaged", "crash of a node", "stalled disk", "move wanted", "silently lost suffix")
	if sum.Restored == 0 || sum.Forced+sum.Gone > 0 {
		t.Errorf("%d copies restored; %d ranges given up, with %d acknowledged messages", sum.Restored, sum.Forced, sum.Gone)
	}
}

// Where no copy and no two together have it, an operator gives it up: what is recorded as lost, and nothing else.
func TestDamagedEverywhereIsGivenUp(t *testing.T) {
	sum := sumOf(t, "all holders damaged", "open copies damaged", "move wanted")
	if sum.Forced == 0 || sum.Gone == 0 || sum.Restored == 0 {
		t.Errorf("%d copies restored; %d ranges given up, with %d acknowledged messages", sum.Restored, sum.Forced, sum.Gone)
	}
}

// A leader alone has the end of a segment when that is sealed; its directory is lost, and the next one on that machine too as soon as it
// is named to copy the segment, while one of the others is away. Two holders of two are gone for good, and nothing that was acknowledged is.
func TestVictimThatIsTwoHolders(t *testing.T) {
	s := &Sim{scheduler: newScheduler(1), uses: newFeatures(1, nil)}
	s.build()
	happens := func(what string, cond func() bool) {
		t.Helper()
		for s.err == nil && !cond() {
			if !s.step(60 * second) {
				t.Fatalf("%s: it did not happen", what)
			}
		}
		if s.err != nil {
			t.Fatalf("%s: %v", what, s.err)
		}
	}
	h := &s.etcd.heads[0]
	var ended mq.Segment
	happens("a leader's disk is ahead", func() bool {
		if h.Open == nil || s.now < second {
			return false
		}
		ended, s.victim = *h.Open, s.byName(h.Open.LeaderNode())
		all := s.copiesOf(ended.ID)
		first := slices.IndexFunc(all, func(x copyOn) bool { return x.n == s.victim })
		return !slices.ContainsFunc(all, func(x copyOn) bool { return x.n != s.victim && !x.c.Tail.Before(all[first].c.Tail) })
	})
	for _, n := range s.nodes {
		n.disk.Crash(0) // what waits for a disk is lost
		n.crash()
		n.boot()
	}
	happens("it is sealed", func() bool { return h.Last != nil && h.Last.ID == ended.ID })
	end := h.Last.End
	if left := s.left(h.Last); s.wholeWithout(h.Last) || left != end {
		t.Fatalf("the end %s is not on the victim's disk alone", end)
	}
	s.victim.wipe()
	happens("somebody else leads", func() bool { return h.Open.LeaderNode() != s.victim.name })
	if s.undecided(h.Partition) {
		t.Error("one holder is gone, and it takes an operator")
	}
	var away *node
	for _, n := range s.nodes {
		if n != s.victim && n.name != h.Open.LeaderNode() {
			away = n
		}
	}
	away.crash()
	happens("the new directory is named", func() bool {
		return slices.ContainsFunc(h.Last.Adding, func(r mq.Replica) bool { return r.Store == s.victim.disk.Store })
	})
	s.victim.wipe()
	s.Chaos = s.now/second + 1
	s.until(s.Chaos * second)
	s.heal()
	happens("everything is delivered", func() bool { return s.finished() })
	s.final()
	if s.err != nil {
		t.Fatal(s.err)
	}
	if hole := h.Holes[0]; s.beyond || s.check.forces != 1 || s.gone() != 0 || hole.By != operator || hole.To != end {
		t.Errorf("%d ranges given up, with %d acknowledged messages: %+v of a segment up to %s", s.check.forces, s.gone(), h.Holes, end)
	}
}

// wholeWithout says whether a copy that is not the victim's has the end of a segment.
func (s *Sim) wholeWithout(seg *mq.Segment) bool {
	return slices.ContainsFunc(s.copiesOf(seg.ID), func(x copyOn) bool { return x.n != s.victim && !x.c.Tail.Before(seg.DataEnd()) })
}
