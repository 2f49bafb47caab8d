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
		{"the copy is whole", replicas("a", "b", "c"), replicas("d"), cluster("abd", "c").copied("d", 7), replicas("a", "b", "d"), nil, true},
		{"another segment's copy is whole", replicas("a", "b", "c"), replicas("d"), cluster("abd", "c").copied("d", 8), replicas("a", "b", "c"), replicas("d"), false},
		{"the lost one came back", replicas("a", "b", "c"), replicas("d"), cluster("abcd", ""), replicas("a", "b", "c"), nil, true},
		{"the one that copies is lost", replicas("a", "b", "c"), replicas("d"), cluster("abe", "cd"), replicas("a", "b", "c"), nil, true},
		{"two lost: two to copy, one at a time", replicas("a", "b", "c"), replicas("d"), cluster("ade", "bc"), replicas("a", "b", "c"), replicas("d", "e"), true},
		{"away, and copied at once: both stay", replicas("a", "b", "c"), replicas("d"), away(cluster("abd", ""), "c").copied("d", 7), replicas("a", "b", "c"), replicas("d"), false},
		{"one away, one lost: the lost one is replaced", replicas("a", "b", "c"), replicas("d"), away(cluster("ad", "b"), "c").copied("d", 7), replicas("a", "c", "d"), nil, true},
		{"back, after another one copied", replicas("a", "b", "c"), replicas("d"), cluster("abcd", "").copied("d", 7), replicas("a", "b", "c", "d"), nil, true},
		{"away, the copy at once is under way", replicas("a", "b", "c"), replicas("d"), away(cluster("abd", ""), "c"), replicas("a", "b", "c"), replicas("d"), false},
		{"all there is lies on a node that is to be emptied", replicas("a"), nil, leaving(cluster("bc", "a"), "a"), replicas("a"), replicas("b"), true},
		{"emptied, and enough others are whole", replicas("a", "b"), nil, leaving(cluster("b", "a"), "a").copied("b", 7), replicas("b"), nil, true},
		{"emptied, and the others do not say that they are whole", replicas("a", "b"), nil, leaving(cluster("b", "a"), "a"), replicas("a", "b"), nil, false},
		{"nothing to copy from", replicas("a"), nil, cluster("bc", "a"), replicas("a"), nil, false},
	} {
		s := mq.Segment{ID: 7, Replicas: x.replicas, Adding: x.adding, Sealed: true}
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
		{"one is lost, and one copy is whole", replicas("a", "b"), replicas("c", "d"), cluster("acd", "b").copied("d", 7), replicas("a", "d"), replicas("c"), true},
		{"the one that copies is lost", replicas("a", "b"), replicas("c"), cluster("abd", "c"), replicas("a", "b"), nil, true},
		{"one copies too many", replicas("a", "b"), replicas("c", "d"), cluster("abcd", ""), replicas("a", "b"), replicas("c"), true},
		{"more than wanted", replicas("a", "b", "c", "d"), nil, cluster("abcde", ""), replicas("a", "b", "c", "d"), nil, false},
	} {
		s := mq.Segment{ID: 7, Replicas: x.replicas, Adding: x.adding, Sealed: true}
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
		s := mq.Segment{ID: 7, Replicas: replicas(rapid.Permutation(all).Draw(t, "order")[:n]...)}
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
			if !changed && len(a) == 0 {
				if want := min(max(n, wanted), len(alive)); before > 0 && healthy(s.Replicas) < want {
					t.Fatalf("settled with %v of alive %q", s.Replicas, alive)
				}
				return
			}
			for _, x := range s.Adding {
				c.copied(string(x.Store), 7)
			}
			if step == 49 {
				t.Fatal("does not settle: " + fmt.Sprint(s.Replicas, s.Adding))
			}
		}
	})
}

// TestWholeCopiesAreNotGivenUp: holders may be behind, and come, go and be lost as they like. What is listed never has fewer whole copies
// than it had, so the last one is never thrown away, and without a whole one that answers nobody is let go.
func TestWholeCopiesAreNotGivenUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const all = "abcdef"
		s := mq.Segment{ID: 7, Quorum: 2, Replicas: replicas("a", "b", "c")}
		whole := map[mq.StoreID]bool{}
		for _, r := range s.Replicas {
			whole[r.Store] = rapid.Bool().Draw(t, "whole")
		}
		count := func(list []mq.Replica, c *Cluster) (n int) {
			for _, r := range list {
				if _, alive := c.Alive[r.Store]; whole[r.Store] && alive {
					n++
				}
			}
			return n
		}
		everybody := cluster(all, "")
		for range 40 {
			alive, lost, gone := "", "", ""
			for _, n := range all {
				switch rapid.IntRange(0, 4).Draw(t, "state") {
				case 0:
					lost += string(n)
				case 1:
					gone += string(n)
				default:
					alive += string(n)
				}
			}
			c := cluster(alive, lost)
			c.Away = map[mq.StoreID]bool{}
			for _, n := range gone {
				c.Away[mq.StoreID(n)] = true
			}
			// Who copies becomes whole from a whole one that answers, and only who is whole says so.
			source := count(append(slices.Clone(s.Replicas), s.Adding...), c) > 0
			for _, a := range s.Adding {
				if _, ok := c.Alive[a.Store]; ok && source && rapid.Bool().Draw(t, "copies") {
					whole[a.Store] = true
				}
				if whole[a.Store] {
					c.copied(string(a.Store), 7)
				}
			}
			r, a, changed := Next(&s, 3, c)
			if !changed {
				continue
			}
			if before, now := count(s.Replicas, everybody), count(r, everybody); now < before {
				t.Fatalf("from %v to %v: %d whole copies of %d, whole are %v", s.Replicas, r, now, before, whole)
			}
			for _, was := range s.Adding {
				if !slices.Contains(a, was) && !slices.Contains(r, was) {
					delete(whole, was.Store) // what it has is removed
				}
			}
			for _, was := range s.Replicas {
				if !slices.Contains(r, was) {
					delete(whole, was.Store)
				}
			}
			s.Replicas, s.Adding = r, a
		}
	})
}
