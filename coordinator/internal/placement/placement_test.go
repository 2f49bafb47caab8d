package placement

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

func stores(t *rapid.T, from []Node, label string) []mq.StoreID {
	var out []mq.StoreID
	for _, n := range from {
		if rapid.Bool().Draw(t, label+n.Name) {
			out = append(out, n.Store)
		}
	}
	return out
}

// TestChoose checks what must hold of any choice, whatever the weights.
func TestChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []Node
		for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
			nodes = append(nodes, Node{
				Name: fmt.Sprintf("node-%d", i), Store: mq.StoreID(fmt.Sprintf("%032x", i+1)),
				Zone:     rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "zone"),
				Capacity: rapid.IntRange(0, 3).Draw(t, "capacity"),
				Avoid:    rapid.IntRange(0, 3).Draw(t, "avoid") == 0,
				Skewed:   rapid.IntRange(0, 3).Draw(t, "skewed") == 0,
				Segments: rapid.IntRange(0, 50).Draw(t, "segments"), Leads: rapid.IntRange(0, 20).Draw(t, "leads"),
			})
		}
		replicas := rapid.IntRange(1, 5).Draw(t, "replicas")
		r := Request{
			Partition: mq.PartitionID{Topic: mq.TopicID(rapid.Uint64Range(1, 9).Draw(t, "topic"))},
			Replicas:  replicas, Quorum: rapid.IntRange(1, replicas).Draw(t, "quorum"), Nodes: nodes,
			Old: stores(t, nodes, "old"), AtEnd: stores(t, nodes, "at end"),
		}
		if len(nodes) > 0 {
			r.Keep = rapid.SampledFrom(nodes).Draw(t, "keep").Store
		}
		got := Choose(r)
		if len(nodes) < r.Quorum {
			if got != nil {
				t.Fatalf("%v chosen from fewer nodes than a quorum", got)
			}
			return
		}
		if got == nil {
			t.Fatalf("nothing chosen from %d nodes for a quorum of %d", len(nodes), r.Quorum)
		}
		want := r.Replicas
		if nodes[got[0]].Rank() > 0 { // a good node shall have the end too, the next time
			want++
		}
		if len(got) < r.Quorum || len(got) > want {
			t.Fatalf("%d replicas; %d wanted, quorum %d", len(got), want, r.Quorum)
		}
		seen := map[int]bool{}
		for _, i := range got {
			if seen[i] {
				t.Fatalf("node %d twice in %v", i, got)
			}
			seen[i] = true
		}
		if x := nodes[got[0]]; x.Skewed && !x.Avoid && !slices.ContainsFunc(got, func(i int) bool { return nodes[i].Rank() < x.Rank() }) &&
			slices.ContainsFunc(nodes, func(n Node) bool { return n.Rank() < x.Rank() }) {
			t.Fatalf("%v: nobody can lead next", got)
		}
		if len(r.AtEnd) > 0 && !has(r.AtEnd, nodes[got[0]].Store) {
			t.Fatalf("leader %s did not answer the end", nodes[got[0]].Name)
		}
		if fmt.Sprint(Choose(r)) != fmt.Sprint(got) {
			t.Fatal("the same question has two answers")
		}
	})
}

func plain(n int) []Node {
	var out []Node
	for i := range n {
		out = append(out, Node{Name: fmt.Sprintf("n%d", i), Store: mq.StoreID(fmt.Sprintf("s%d", i))})
	}
	return out
}

// TestFirstSegmentsSpread opens many partitions and counts what each node got.
func TestFirstSegmentsSpread(t *testing.T) {
	nodes := plain(5)
	for n := range uint32(100) {
		c := Choose(Request{Partition: mq.PartitionID{Topic: 1, Number: n}, Replicas: 3, Quorum: 2, Nodes: nodes})
		nodes[c[0]].Leads++
		for _, i := range c {
			nodes[i].Segments++
		}
	}
	for _, n := range nodes { // 100 leaderships and 300 replicas over 5 nodes
		if n.Leads != 20 || n.Segments < 58 || n.Segments > 62 {
			t.Errorf("%s leads %d and holds %d", n.Name, n.Leads, n.Segments)
		}
	}
}

func TestZonesSpread(t *testing.T) {
	nodes := plain(6)
	for i := range nodes {
		nodes[i].Zone = string(rune('a' + i/2))
	}
	for n := range uint32(30) {
		c := Choose(Request{Partition: mq.PartitionID{Topic: 1, Number: n}, Replicas: 3, Quorum: 2, Nodes: nodes})
		zones := map[string]bool{}
		for _, i := range c {
			zones[nodes[i].Zone] = true
			nodes[i].Segments++
		}
		if len(zones) != 3 {
			t.Fatalf("partition %d is in zones %v only", n, zones)
		}
	}
}

// TestGrowth: rolls of a loaded cluster move followers to a new node until it holds its share, and no further.
func TestGrowth(t *testing.T) {
	nodes := plain(4)
	held := map[uint32]Choice{}
	for round := range 3 {
		alive := nodes[:3]
		if round > 0 {
			alive = nodes
		}
		moved := 0
		for n := range uint32(60) {
			r := Request{Partition: mq.PartitionID{Topic: 1, Number: n}, Replicas: 3, Quorum: 2, Nodes: alive}
			for k, i := range held[n] {
				r.Old, r.AtEnd = append(r.Old, nodes[i].Store), append(r.AtEnd, nodes[i].Store)
				nodes[i].Segments--
				if k == 0 {
					nodes[i].Leads--
					r.Keep = nodes[i].Store
				}
			}
			c := Choose(r)
			for k, i := range c {
				if !taken(held[n], i) {
					moved++
				}
				nodes[i].Segments++
				if k == 0 {
					nodes[i].Leads++
				}
			}
			held[n] = c
		}
		switch {
		case round == 1 && nodes[3].Segments < 30: // a fair share is 45
			t.Errorf("the new node got %d of 180", nodes[3].Segments)
		case round == 2 && moved > 40:
			t.Errorf("%d replicas moved though the load was near even", moved)
		}
	}
}

func TestAvoidedNodesOnlyForAQuorum(t *testing.T) {
	nodes := plain(3)
	nodes[2].Avoid = true
	r := Request{Replicas: 3, Quorum: 2, Nodes: nodes}
	if c := Choose(r); len(c) != 2 || taken(c, 2) {
		t.Errorf("%v: a draining node was taken without need", c)
	}
	nodes[1].Avoid = true
	if c := Choose(r); len(c) != 3 {
		t.Errorf("%v: a quorum needs the nodes to avoid", c)
	}
}

// A node that is to be emptied has the only copy: it leads once more, with a good one beside it, which leads the next time.
func TestTheLastReplicaLeavesInTwoSteps(t *testing.T) {
	nodes := plain(3)
	nodes[1].Avoid = true
	r := Request{Partition: mq.PartitionID{Topic: 1}, Replicas: 1, Quorum: 1, Nodes: nodes, Old: []mq.StoreID{"s1"}, AtEnd: []mq.StoreID{"s1"}, Keep: "s1"}
	c := Choose(r)
	if len(c) != 2 || c[0] != 1 {
		t.Fatalf("%v, want the node that has the end and one more", c)
	}
	r.Old = []mq.StoreID{"s1", nodes[c[1]].Store}
	r.AtEnd = r.Old
	if next := Choose(r); len(next) != 1 || next[0] != c[1] {
		t.Fatalf("%v, want node %d alone", next, c[1])
	}
}

// A slow disk does a replica no harm; its node leads only where no other may, and before one that is full.
func TestSlowNodesLeadLast(t *testing.T) {
	for name, c := range map[string]struct {
		slow, avoid []int
		atEnd       []mq.StoreID
		leads       []int // any of them
	}{
		"one is slow":                      {[]int{0}, nil, nil, []int{1, 2}},
		"two are":                          {[]int{0, 1}, nil, nil, []int{2}},
		"all are":                          {[]int{0, 1, 2}, nil, nil, []int{0, 1, 2}},
		"only a slow one has the end":      {[]int{0}, nil, []mq.StoreID{"s0"}, []int{0}},
		"the others that have it are full": {[]int{0}, []int{1, 2}, nil, []int{0}},
	} {
		nodes := plain(3)
		nodes[0].Leads = -1 // it would be chosen by its load
		for _, i := range c.slow {
			nodes[i].Slow = true
		}
		for _, i := range c.avoid {
			nodes[i].Avoid = true
		}
		got := Choose(Request{Replicas: 3, Quorum: 2, Nodes: nodes, AtEnd: c.atEnd, Keep: "s0"})
		if len(got) != 3 || !slices.Contains(c.leads, got[0]) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A node with a wrong clock is a replica like any other, and leads what nobody else can lead; the next one can.
func TestAWrongClockOnlyFollows(t *testing.T) {
	nodes := plain(3)
	nodes[1].Skewed = true
	nodes[0].Leads, nodes[2].Leads = 50, 50
	r := Request{Replicas: 3, Quorum: 2, Nodes: nodes, AtEnd: []mq.StoreID{"s0", "s1", "s2"}, Keep: "s1"}
	if c := Choose(r); len(c) != 3 || c[0] == 1 {
		t.Errorf("%v: want three replicas, and another leader", c)
	}
	r.AtEnd = []mq.StoreID{"s1"}
	if c := Choose(r); len(c) != 3 || c[0] != 1 {
		t.Errorf("%v: want three replicas, and the leader that has the end", c)
	}
	r.Replicas, r.Quorum = 1, 1
	if c := Choose(r); len(c) != 2 || c[0] != 1 {
		t.Errorf("%v: want two replicas in place of one, or nobody else ever has the end", c)
	}
	r.Replicas, r.Quorum = 3, 2
	nodes[0].Slow, nodes[2].Slow = true, true
	r.AtEnd = []mq.StoreID{"s0", "s1"}
	if c := Choose(r); len(c) != 3 || c[0] != 0 { // which doesn't ask to be rid of it while there are no quick ones
		t.Errorf("%v: want three replicas, and the leader with the slow disk", c)
	}
	nodes[0].Skewed, nodes[2].Skewed = true, true
	nodes[1].Slow = true
	r.AtEnd = []mq.StoreID{"s0", "s1"}
	if c := Choose(r); len(c) != 3 || c[0] != 1 {
		t.Errorf("%v: want the leader of before, as all clocks are wrong", c)
	}
}
