package repair

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

func replicas(names ...string) (out []mq.Replica) {
	for _, n := range names {
		out = append(out, mq.Replica{Store: mq.StoreID(n), Node: "node-" + n})
	}
	return out
}

func cluster(alive string, lost string) *Cluster {
	c := &Cluster{Alive: map[mq.StoreID]Node{}, Lost: map[mq.StoreID]bool{}, Copied: map[mq.StoreID]map[mq.SegmentID]bool{}}
	for i, n := range alive {
		c.Alive[mq.StoreID(n)] = Node{Replica: mq.Replica{Store: mq.StoreID(n), Node: "node-" + string(n)}, Load: i}
	}
	for _, n := range lost {
		c.Lost[mq.StoreID(n)] = true
	}
	return c
}

func away(c *Cluster, store mq.StoreID) *Cluster {
	c.Away = map[mq.StoreID]bool{store: true}
	return c
}

func leaving(c *Cluster, store mq.StoreID) *Cluster {
	c.Leaving = map[mq.StoreID]bool{store: true}
	return c
}

func (c *Cluster) copied(store string, id mq.SegmentID) *Cluster {
	c.Copied[mq.StoreID(store)] = map[mq.SegmentID]bool{id: true}
	return c
}

// say has several stores say that they have segment 7.
func (c *Cluster) say(stores string) *Cluster {
	for _, s := range stores {
		c.copied(string(s), 7)
	}
	return c
}

func TestNext(t *testing.T) {
	for _, x := range []struct {
		name             string
		replicas, adding []mq.Replica
		c                *Cluster
		wantReplicas     []mq.Replica
		wantAdding       []mq.Replica
		changed          bool
	}{
		{"all is well", replicas("a", "b", "c"), nil, cluster("abcd", ""), replicas("a", "b", "c"), nil, false},
		{"away, but not for long", replicas("a", "b", "c"), nil, cluster("abd", ""), replicas("a", "b", "c"), nil, false},
		{"lost: another one is to copy", replicas("a", "b", "c"), nil, cluster("abd", "c"), replicas("a", "b", "c"), replicas("d"), true},
		{"the least loaded one", replicas("a", "b", "c"), nil, cluster("abed", "c"), replicas("a", "b", "c"), replicas("e"), true},
		{"nobody is free", replicas("a", "b", "c"), nil, cluster("ab", "c"), replicas("a", "b", "c"), nil, false},
		{"the copy is under way", replicas("a", "b", "c"), replicas("d"), cluster("abde", "c"), replicas("a", "b", "c"), replicas("d"), false},
		{"the copy is whole", replicas("a", "b", "c"), replicas("d"), cluster("abd", "c").say("bd"), replicas("a", "b", "d"), nil, true},
		{"the copy is whole, of the others it is not known", replicas("a", "b", "c"), replicas("d"), cluster("abd", "c").say("d"), replicas("a", "b", "c"), replicas("d"), false},
		{"who said that he is whole is away", replicas("a", "b", "c"), replicas("d"), away(cluster("ad", "c"), "b").say("bd"), replicas("a", "b", "c"), replicas("d"), false},
		{"one lost, one to be emptied: what can be read stays", replicas("a", "b", "c"), replicas("d"), leaving(cluster("cd", "ab"), "a").say("ad"), replicas("a", "c", "d"), nil, true},
		{"only the one to be emptied and the copy are whole", replicas("a", "b", "c"), replicas("d"), leaving(cluster("bcd", "a"), "a").say("ad"), replicas("a", "b", "c"), replicas("d"), false},
		{"another segment's copy is whole", replicas("a", "b", "c"), replicas("d"), cluster("abd", "c").copied("d", 8), replicas("a", "b", "c"), replicas("d"), false},
		{"the lost one came back", replicas("a", "b", "c"), replicas("d"), cluster("abcd", "").say("ab"), replicas("a", "b", "c"), nil, true},
		{"the lost one came back, of the others it is not known", replicas("a", "b", "c"), replicas("d"), cluster("abcd", "").say("a"), replicas("a", "b", "c"), replicas("d"), false},
		{"the one that copies is lost", replicas("a", "b", "c"), replicas("d"), cluster("abe", "cd").say("ab"), replicas("a", "b", "c"), nil, true},
		{"it may have had more than the others", replicas("a", "b", "c"), replicas("d"), cluster("abe", "cd").say("a"), replicas("a", "b", "c"), replicas("d", "e"), true},
		{"and another one copies meanwhile", replicas("a", "b", "c"), replicas("d", "e"), cluster("abef", "cd").say("a"), replicas("a", "b", "c"), replicas("d", "e"), false},
		{"two lost: two to copy, one at a time", replicas("a", "b", "c"), replicas("d"), cluster("ade", "bc"), replicas("a", "b", "c"), replicas("d", "e"), true},
		{"away, and copied at once: both stay", replicas("a", "b", "c"), replicas("d"), away(cluster("abd", ""), "c").copied("d", 7), replicas("a", "b", "c"), replicas("d"), false},
		{"one away, one lost: the lost one is replaced", replicas("a", "b", "c"), replicas("d"), away(cluster("ad", "b"), "c").say("ad"), replicas("a", "c", "d"), nil, true},
		{"back, after another one copied", replicas("a", "b", "c"), replicas("d"), cluster("abcd", "").copied("d", 7), replicas("a", "b", "c", "d"), nil, true},
		{"away, the copy at once is under way", replicas("a", "b", "c"), replicas("d"), away(cluster("abd", ""), "c"), replicas("a", "b", "c"), replicas("d"), false},
		{"all there is lies on a node that is to be emptied", replicas("a"), nil, leaving(cluster("bc", "a"), "a"), replicas("a"), replicas("b"), true},
		{"emptied, and enough others are whole", replicas("a", "b"), nil, leaving(cluster("b", "a"), "a").copied("b", 7), replicas("b"), nil, true},
		{"emptied, and the others do not say that they are whole", replicas("a", "b"), nil, leaving(cluster("b", "a"), "a"), replicas("a", "b"), nil, false},
		{"nothing to copy from", replicas("a"), nil, cluster("bc", "a"), replicas("a"), nil, false},
	} {
		s := mq.Segment{ID: 7, Replicas: x.replicas, Adding: x.adding, Sealed: true, Quorum: max(1, len(x.replicas)-1)}
		r, a, changed := Next(&s, len(x.replicas), x.c)
		if !slices.Equal(r, x.wantReplicas) || !slices.Equal(a, x.wantAdding) || changed != x.changed {
			t.Errorf("%s: %v + %v %v, want %v + %v %v", x.name, r, a, changed, x.wantReplicas, x.wantAdding, x.changed)
		}
	}
}

// A segment that began with fewer holders than it should have gets more, one that is to have fewer keeps them.
func TestNextBringsUpToTheWantedNumber(t *testing.T) {
	for _, x := range []struct {
		name             string
		replicas, adding []mq.Replica
		c                *Cluster
		wantReplicas     []mq.Replica
		wantAdding       []mq.Replica
		changed          bool
	}{
		{"nobody is free", replicas("a", "b"), nil, cluster("ab", ""), replicas("a", "b"), nil, false},
		{"another one is to copy", replicas("a", "b"), nil, cluster("abc", ""), replicas("a", "b"), replicas("c"), true},
		{"the copy is under way", replicas("a", "b"), replicas("c"), cluster("abcd", ""), replicas("a", "b"), replicas("c"), false},
		{"the copy is whole", replicas("a", "b"), replicas("c"), cluster("abcd", "").copied("c", 7), replicas("a", "b", "c"), nil, true},
		{"the copy is whole, one holder is away", replicas("a", "b"), replicas("c"), away(cluster("ac", ""), "b").copied("c", 7), replicas("a", "b", "c"), nil, true},
		{"one is lost as well: two are to copy", replicas("a", "b"), replicas("c"), cluster("acd", "b"), replicas("a", "b"), replicas("c", "d"), true},
		{"one is lost, and one copy is whole", replicas("a", "b"), replicas("c", "d"), cluster("acd", "b").say("ad"), replicas("a", "d"), replicas("c"), true},
		{"the one that copies is lost", replicas("a", "b"), replicas("c"), cluster("abd", "c").say("ab"), replicas("a", "b"), nil, true},
		{"one copies too many", replicas("a", "b"), replicas("c", "d"), cluster("abcd", "").say("ab"), replicas("a", "b"), replicas("c"), true},
		{"of two that copy one is lost", replicas("a", "b"), replicas("c", "d"), cluster("abd", "c"), replicas("a", "b"), replicas("c", "d"), false},
		{"more than wanted", replicas("a", "b", "c", "d"), nil, cluster("abcde", ""), replicas("a", "b", "c", "d"), nil, false},
	} {
		s := mq.Segment{ID: 7, Replicas: x.replicas, Adding: x.adding, Sealed: true, Quorum: max(1, len(x.replicas)-1)}
		r, a, changed := Next(&s, 3, x.c)
		if !slices.Equal(r, x.wantReplicas) || !slices.Equal(a, x.wantAdding) || changed != x.changed {
			t.Errorf("%s: %v + %v %v, want %v + %v %v", x.name, r, a, changed, x.wantReplicas, x.wantAdding, x.changed)
		}
	}
}

// TestRepairEnds: whatever is lost, with copies that succeed the list settles, holds no lost store that could be
// replaced, has as many as are wanted if there are so many nodes, and never drops a store that is not lost.
func TestRepairEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var alive, lost string
		for i := range rapid.IntRange(1, 7).Draw(t, "nodes") {
			if n := string(rune('a' + i)); rapid.Bool().Draw(t, "lost") {
				lost += n
			} else {
				alive += n
			}
		}
		c := cluster(alive, lost)
		var all []string
		for _, n := range alive + lost {
			all = append(all, string(n))
		}
		n := rapid.IntRange(1, len(all)).Draw(t, "replicas")
		wanted := rapid.IntRange(0, 7).Draw(t, "wanted")
		s := mq.Segment{ID: 7, Replicas: replicas(rapid.Permutation(all).Draw(t, "order")[:n]...), Quorum: rapid.IntRange(1, n).Draw(t, "quorum")}
		healthy := func(list []mq.Replica) (k int) {
			for _, r := range list {
				if !c.Lost[r.Store] {
					k++
				}
			}
			return k
		}
		before := healthy(s.Replicas)
		for step := range 50 {
			r, a, changed := Next(&s, wanted, c)
			if healthy(r) < healthy(s.Replicas) || len(r) < n || len(r) > max(n, wanted) {
				t.Fatalf("from %v to %v", s.Replicas, r)
			}
			s.Replicas, s.Adding = r, a
			if !changed && (len(a) == 0 || len(alive) < s.Quorum) { // without a quorum nobody is let go: those that copied wait
				if want := min(max(n, wanted), len(alive)); before > 0 && healthy(s.Holders()) < want {
					t.Fatalf("settled with %v + %v of alive %q", s.Replicas, s.Adding, alive)
				}
				return
			}
			for _, x := range s.Holders() {
				if _, ok := c.Alive[x.Store]; ok && before > 0 && len(a) > 0 {
					c.copied(string(x.Store), 7)
				}
			}
			if step == 49 {
				t.Fatal("does not settle: " + fmt.Sprint(s.Replicas, s.Adding))
			}
		}
	})
}

// TestWholeCopiesAreNotGivenUp: holders may be behind, come, go, be lost and be emptied as they like. Who may have the segment whole is let
// go only while as many others as were to acknowledge it answer and have it whole, and what is listed never has fewer whole copies than it
// had and a quorum is. So no change leaves what was acknowledged on fewer than a quorum that can be read now.
func TestWholeCopiesAreNotGivenUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const all = "abcdefgh"
		n := rapid.IntRange(1, 5).Draw(t, "replicas")
		s := mq.Segment{ID: 7, Quorum: rapid.IntRange(1, n).Draw(t, "quorum")}
		whole := map[mq.StoreID]bool{}
		for _, r := range all[:n] {
			s.Replicas = append(s.Replicas, replicas(string(r))...)
			whole[mq.StoreID(r)] = rapid.Bool().Draw(t, "whole")
		}
		for range 60 {
			c := cluster("", "")
			c.Away, c.Leaving = map[mq.StoreID]bool{}, map[mq.StoreID]bool{}
			answers := map[mq.StoreID]bool{}
			for i, r := range all {
				id := mq.StoreID(r)
				switch rapid.IntRange(0, 5).Draw(t, "state") {
				case 0:
					c.Lost[id], c.Away[id] = true, true
				case 1:
					c.Away[id] = true
				case 2:
					c.Lost[id], c.Leaving[id], answers[id] = true, true, true
				case 3: // it is full: it keeps what it has
					answers[id] = true
				default:
					c.Alive[id], answers[id] = Node{Replica: replicas(string(r))[0], Load: i}, true
				}
			}
			count := func(list []mq.Replica) (listed, now int) {
				for _, r := range list {
					if whole[r.Store] {
						listed++
						if answers[r.Store] {
							now++
						}
					}
				}
				return listed, now
			}
			// Who copies, or is behind, becomes whole from a whole one that answers, and only who is whole says so.
			_, sources := count(s.Holders())
			for _, a := range s.Holders() {
				if answers[a.Store] && sources > 0 && rapid.Bool().Draw(t, "copies") {
					whole[a.Store] = true
				}
				if whole[a.Store] && answers[a.Store] && rapid.Bool().Draw(t, "says so") {
					c.copied(string(a.Store), 7)
				}
			}
			r, a, changed := Next(&s, n, c)
			if !changed {
				continue
			}
			after := mq.Segment{Replicas: r, Adding: a}
			before, _ := count(s.Replicas)
			listed, _ := count(r)
			if listed < min(before, s.Quorum) {
				t.Fatalf("from %v to %v: %d whole copies of %d, whole are %v", s.Replicas, r, listed, before, whole)
			}
			for _, was := range s.Holders() {
				if after.Holds(was.Store) {
					continue
				}
				if _, left := count(after.Holders()); (whole[was.Store] || !answers[was.Store]) && left < s.Quorum {
					t.Fatalf("from %v + %v to %v + %v: %d whole copies answer, whole are %v", s.Replicas, s.Adding, r, a, left, whole)
				}
				delete(whole, was.Store) // what it has is removed
			}
			s.Replicas, s.Adding = r, a
		}
	})
}
