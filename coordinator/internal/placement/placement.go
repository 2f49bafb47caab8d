// Package placement chooses the nodes of a partition's next segment. It is pure: the same question has the
// same answer.
//
// Nothing is copied when a segment opens, so its replicas may be anywhere. Old replicas stay where the load
// allows it, because a leader that holds the journal reads it from its own disk. The leader must be a replica
// that answered the end of the sealed segment, unless nobody did or had to.
package placement

import (
	"slices"
	"sort"

	"github.com/splashdam/splashdam/shared/mq"
)

// Node is a log node that answered just now and so can take a segment.
type Node struct {
	Name     string
	Store    mq.StoreID
	Zone     string
	Capacity int  // weighs the load; 0 counts as 1
	Avoid    bool // draining or full: only taken if there are fewer than a quorum of others
	Skewed   bool // its clock is off: it is a replica like any other, and leads only where no other may
	Slow     bool // its disk is: likewise, but before one whose clock is off
	Segments int  // open segments of which it is a replica
	Leads    int  // open segments that it leads
}

// Request asks for the replicas of one segment.
type Request struct {
	Partition mq.PartitionID
	Replicas  int
	Quorum    int
	Nodes     []Node
	// Old are the replicas of the segment before.
	Old []mq.StoreID
	// AtEnd are the stores that may lead: those that answered the end. Empty: any (a partition's first segment).
	AtEnd []mq.StoreID
	// Keep is the leader that goes on if it may, "" for none.
	Keep mq.StoreID
}

// Choice names the replicas, as indexes into the request's nodes; the first one leads.
type Choice []int

// slack is by how much an old replica or leader may be more loaded than another one and still be kept, so
// that a difference of one or two moves nothing.
const slack = 2

// Choose answers nil if fewer than a quorum of nodes can take the segment, or none of them may lead.
func Choose(r Request) Choice {
	eligible := eligible(r)
	if len(eligible) < r.Quorum || r.Quorum < 1 {
		return nil
	}
	leader := chooseLeader(r, eligible)
	if leader < 0 {
		return nil
	}
	out := Choice{leader}
	zones := map[string]int{r.Nodes[leader].Zone: 1}
	want := r.Replicas
	if good := func(i int) bool { return !r.Nodes[i].Avoid }; !good(leader) && slices.ContainsFunc(eligible, good) {
		// Only the leader has the end: with one more replica another one has it the next time.
		want++
	}
	for len(out) < min(want, len(eligible)) {
		next := nextReplica(r, eligible, out, zones)
		zones[r.Nodes[next].Zone]++
		out = append(out, next)
	}
	better := func(i int) bool { return r.Nodes[i].Rank() < r.Nodes[leader].Rank() }
	if free := slices.DeleteFunc(slices.Clone(eligible), func(i int) bool { return !better(i) }); len(free) > 0 && !slices.ContainsFunc(out, better) {
		out = append(out, nextReplica(r, free, out, zones)) // likewise
	}
	return out
}

// eligible leaves out nodes to avoid, unless a quorum needs them.
func eligible(r Request) []int {
	var good, all []int
	for i, n := range r.Nodes {
		all = append(all, i)
		if !n.Avoid {
			good = append(good, i)
		}
	}
	if len(good) >= r.Quorum && (len(r.AtEnd) == 0 || anyOf(r, good, r.AtEnd)) {
		return good
	}
	return all
}

func anyOf(r Request, nodes []int, stores []mq.StoreID) bool {
	for _, i := range nodes {
		if has(stores, r.Nodes[i].Store) {
			return true
		}
	}
	return false
}

func has(stores []mq.StoreID, s mq.StoreID) bool {
	for _, x := range stores {
		if x == s {
			return true
		}
	}
	return false
}

// chooseLeader takes the least leading node among those that may, of them one that is quick and not to be avoided if there is one,
// and keeps the old leader while it leads not much more.
func chooseLeader(r Request, eligible []int) int {
	var may []int
	for _, i := range eligible {
		if len(r.AtEnd) == 0 || has(r.AtEnd, r.Nodes[i].Store) {
			may = append(may, i)
		}
	}
	if len(may) == 0 {
		return -1
	}
	weight := func(n Node) int { return n.Leads }
	sort.Slice(may, func(a, b int) bool {
		if x, y := r.Nodes[may[a]].Rank(), r.Nodes[may[b]].Rank(); x != y {
			return x < y
		}
		return less(r, weight, may[a], may[b])
	})
	for _, i := range may {
		if n := r.Nodes[i]; n.Store == r.Keep && n.Rank() == r.Nodes[may[0]].Rank() && !muchMore(n, r.Nodes[may[0]], weight) {
			return i
		}
	}
	return may[0]
}

// Rank is how much there is against the node's leading.
func (n Node) Rank() mq.Rank { return mq.RankOf(n.Avoid, n.Skewed, n.Slow) }

// nextReplica takes a zone that has fewest replicas, in it an old replica that is not much more loaded than the
// least loaded node, else that one.
func nextReplica(r Request, eligible []int, chosen Choice, zones map[string]int) int {
	var free []int
	for _, i := range eligible {
		if !taken(chosen, i) {
			free = append(free, i)
		}
	}
	weight := func(n Node) int { return n.Segments }
	sort.Slice(free, func(a, b int) bool {
		if x, y := r.Nodes[free[a]].Avoid, r.Nodes[free[b]].Avoid; x != y {
			return y
		}
		if x, y := zones[r.Nodes[free[a]].Zone], zones[r.Nodes[free[b]].Zone]; x != y {
			return x < y
		}
		return less(r, weight, free[a], free[b])
	})
	best := free[0]
	for _, i := range free {
		n := r.Nodes[i]
		if has(r.Old, n.Store) && n.Avoid == r.Nodes[best].Avoid && zones[n.Zone] == zones[r.Nodes[best].Zone] && !muchMore(n, r.Nodes[best], weight) {
			return i
		}
	}
	return best
}

func taken(chosen Choice, i int) bool {
	for _, c := range chosen {
		if c == i {
			return true
		}
	}
	return false
}

func capacity(n Node) int { return max(1, n.Capacity) }

// less orders by load for the capacity, then by a hash that spreads equal nodes over partitions, then by name.
func less(r Request, weight func(Node) int, a, b int) bool {
	x, y := r.Nodes[a], r.Nodes[b]
	// The segment to be placed counts, or an empty large node would look like an empty small one.
	if l, m := (weight(x)+1)*capacity(y), (weight(y)+1)*capacity(x); l != m {
		return l < m
	}
	if h, g := spread(r.Partition, x.Store), spread(r.Partition, y.Store); h != g {
		return h < g
	}
	return x.Name < y.Name
}

// muchMore says whether a is loaded more than b by more than the slack and a fifth.
func muchMore(a, b Node, weight func(Node) int) bool {
	x, y := weight(a)*capacity(b), weight(b)*capacity(a)
	return x > y+slack*capacity(a)*capacity(b) && x*5 > y*6
}

// spread is FNV-1a over the partition and the store.
func spread(p mq.PartitionID, s mq.StoreID) uint64 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for i := 0; i < 8; i++ {
		add(byte(uint64(p.Topic) >> (8 * i)))
	}
	for i := 0; i < 4; i++ {
		add(byte(p.Number >> (8 * i)))
	}
	for i := 0; i < len(s); i++ {
		add(s[i])
	}
	return h
}
