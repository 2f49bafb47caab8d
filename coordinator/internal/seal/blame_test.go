package seal

import (
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// four is calm with a fourth node.
func four() Cluster {
	c := calm()
	c.Alive["s4"], c.Takers = 1, 4
	return c
}

func TestWhoIsBlamedIsReplaced(t *testing.T) {
	none := func(*Cluster) {}
	for _, x := range []struct {
		name   string
		in     Cluster
		change func(*Cluster)
		behind []mq.StoreID // by the word of the leader, s1
		blamed []mq.StoreID
		reason Reason
	}{
		{"nobody", four(), none, nil, nil, None},
		{"a late follower, and a fourth node", four(), none, []mq.StoreID{"s3"}, []mq.StoreID{"s3"}, Redundancy},
		{"a late follower, and nobody to replace it", calm(), none, []mq.StoreID{"s3"}, []mq.StoreID{"s3"}, None},
		{"the fourth node is drained", four(), func(c *Cluster) { c.Drained = map[mq.StoreID]bool{"s4": true}; c.Takers-- },
			[]mq.StoreID{"s3"}, []mq.StoreID{"s3"}, None},
		{"the leader hears nobody who lives: it is the one that is cut off", calm(), none, []mq.StoreID{"s2", "s3"}, []mq.StoreID{"s1"}, Redundancy},
		{"the leader that is cut off was to be avoided anyway", calm(), func(c *Cluster) { c.Avoided = map[mq.StoreID]bool{"s1": true}; c.Takers-- },
			[]mq.StoreID{"s2", "s3"}, []mq.StoreID{"s1"}, Redundancy},
		{"the others are dead, not silent", calm(), func(c *Cluster) { delete(c.Alive, "s2"); delete(c.Alive, "s3"); c.Takers = 1 },
			[]mq.StoreID{"s2", "s3"}, nil, None},
		{"one is dead, the other can't be heard: without the leader there is no quorum", calm(),
			func(c *Cluster) { delete(c.Alive, "s2"); c.Takers = 2 }, []mq.StoreID{"s2", "s3"}, []mq.StoreID{"s1"}, None},
		{"a node that is no replica", four(), none, []mq.StoreID{"s4"}, nil, None},
	} {
		h, c := open(), x.in
		x.change(&c)
		c.Behind = map[mq.SegmentID][]mq.StoreID{h.Open.ID: x.behind, 77: {"s2"}}
		if got := Blamed(&h, &c); !slices.Equal(got, x.blamed) {
			t.Errorf("%s: %v is blamed, not %v", x.name, got, x.blamed)
		}
		if need := Look(&h, &c, History{}); need.Reason != x.reason {
			t.Errorf("%s: sealed for %q, not %q", x.name, need.Reason, x.reason)
		}
	}
}

// The next segment is without those that are to blame, unless it can't be.
func TestPlanIsWithoutTheBlamed(t *testing.T) {
	h, c := open(), four()
	c.Behind = map[mq.SegmentID][]mq.StoreID{h.Open.ID: {"s2", "s3"}} // so it is s1, the leader
	answers := map[mq.StoreID]Answer{}
	for _, s := range []mq.StoreID{"s1", "s2", "s3"} {
		answers[s] = Answer{Node: mq.Incarnation{Store: s, Boot: 1}, Known: true, Sealed: true, Tail: pos(12)}
	}
	r := &Round{Cluster: c}
	for _, x := range takers(1, 2, 3, 4) {
		r.Members = append(r.Members, Member{Node: x.Node, Incarnation: x.Incarnation, Live: true})
	}
	m := &move{Outcome: Outcome{Target: Target{Head: h}}, answers: answers, end: pos(12), exclude: map[mq.StoreID]bool{}}
	if planned := r.plan([]*move{m}); len(planned) != 1 || m.next.ReplicaIndex("s1") >= 0 || len(m.next.Replicas) != 3 {
		t.Fatalf("planned %+v", m.next)
	}
	for s, a := range answers { // only the leader has the end
		if a.Tail = pos(11); s != "s1" {
			answers[s] = a
		}
	}
	m.next = mq.Segment{}
	if planned := r.plan([]*move{m}); len(planned) != 1 || m.next.ReplicaIndex("s1") >= 0 || m.next.Base != pos(12) {
		t.Fatalf("with the end on the leader alone: %+v", m.next)
	}
	m.next, m.done, r.Members = mq.Segment{}, false, r.Members[:2] // s1 and s2 are all there is
	if planned := r.plan([]*move{m}); len(planned) != 1 || m.next.ReplicaIndex("s1") < 0 {
		t.Fatalf("with two nodes, of which a quorum needs both: %+v", m.next)
	}
}
