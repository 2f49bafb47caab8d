package sim

import (
	"sync"
	"testing"
)

// slowDisks are runs without any fault but slow disks: at makes them so when everything is served, and names the node whose
// alone is slow, nil for none. A minute later every partition must have acknowledged least messages within 40 s, led by another node; then,
// with quick disks, everything must be delivered, as ever. Groups have no limit of attempts: where a sync takes as long as a lease or a
// consumer's patience, each of them may be lost on the way.
func slowDisks(t *testing.T, least int, at func(s *Sim) *node) {
	t.Helper()
	var mu sync.Mutex
	forEach(1, 40, func(seed uint64) bool {
		s := &Sim{scheduler: newScheduler(seed), faults: map[string]int{}, enabled: map[string]bool{}, uses: newFeatures(seed, []string{useEndless})}
		s.build()
		s.until(5 * second)
		slow := at(s)
		s.watchSlow(25*second, slow)
		before := s.ackedBy()
		s.watchSlow(65*second, slow)
		for i, n := range s.ackedBy() {
			if n-before[i] < least {
				s.fail("partition %d acknowledged %d messages in 40 s", i, n-before[i])
			}
			if s.ledBy(i) == slow {
				s.fail("partition %d is led by %s, whose disk is slow", i, slow.name)
			}
		}
		s.heal()
		for _, n := range s.nodes {
			n.heavy = 0
		}
		for end := s.now + patience; s.err == nil && !s.finished() && s.now < end; {
			s.until(s.now + second)
		}
		if s.err == nil {
			s.final()
		}
		mu.Lock()
		defer mu.Unlock()
		if s.err != nil {
			t.Errorf("seed %d: %v", seed, s.err)
		}
		return t.Failed()
	})
}

// watchSlow goes on until a time, and wants no other node to say that its disk is slow: with that leaders would begin to go round.
func (s *Sim) watchSlow(until int64, but *node) {
	for s.err == nil && s.now < until {
		s.until(s.now + second/2)
		for _, n := range s.nodes {
			if n.slow && n != but {
				s.fail("%s says that its disk is slow", n.name)
			}
		}
	}
}

// ackedBy counts what was acknowledged, by the number of the partition.
func (s *Sim) ackedBy() map[int]int {
	out := map[int]int{}
	for at := range s.check.acked {
		out[int(at.partition.Number)]++
	}
	return out
}

// ledBy is the node that leads a partition by etcd's word.
func (s *Sim) ledBy(i int) *node { return s.byName(s.etcd.heads[i].Open.LeaderNode()) }

// A leader whose disk hangs, or takes seconds for a sync, gives its partitions to others, and they go on.
func TestSlowLeaderGivesUp(t *testing.T) {
	for name, slow := range map[string]func(n *node){
		"hangs":         func(n *node) { n.stalled = 65 * second },
		"takes seconds": func(n *node) { n.heavy = 8 * second },
	} {
		t.Run(name, func(t *testing.T) {
			slowDisks(t, 20, func(s *Sim) *node {
				n := s.ledBy(0)
				slow(n)
				return n
			})
		})
	}
}

// Where all disks are equally slow, or hang at once, nobody finds that his own is: no other leader would be quicker.
func TestEquallySlowDisksMoveNothing(t *testing.T) {
	for name, slow := range map[string]func(n *node){
		"hang for 20 s": func(n *node) { n.stalled = 25 * second },
		"take a second": func(n *node) { n.heavy = second },
		"take three":    func(n *node) { n.heavy = 3 * second },
	} {
		t.Run(name, func(t *testing.T) {
			slowDisks(t, 0, func(s *Sim) *node {
				for _, n := range s.nodes {
					slow(n)
				}
				return nil
			})
		})
	}
}
