package coordinator

import (
	"testing"

	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/bus"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

func at(offset uint64) mq.Position { return mq.Position{Offset: offset} }

func TestFirstSegments(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, startAll(t, configs(t, 1)...)...)
	topic := c.topic("orders", 60)
	leads := map[mq.StoreID]int{}
	for _, h := range c.view.Heads(topic.ID) {
		if h.Replicas != 3 || h.Quorum != 2 || len(h.Open.Replicas) != 3 || h.Open.Quorum != 2 || h.Open.Number != 1 || h.Next != 2 {
			t.Fatalf("head %+v, open %+v", h, h.Open)
		}
		if h.Last != nil || h.Open.Base != (mq.Position{}) {
			t.Fatalf("a first segment begins at %s after %v", h.Open.Base, h.Last)
		}
		leads[h.Open.Leader.Store]++
	}
	for store, n := range leads {
		if n < 18 || n > 22 { // 60 over 3 equal nodes; a batch counts from a view that may lag
			t.Errorf("%s leads %d of 60", store, n)
		}
	}
	c.wait("a secret and an id", func(v *meta.View) bool { n, _ := v.NewestSecret(); return n > 0 && v.ClusterID() != "" })
	if id := c.view.ClusterID(); len(id) != 32 {
		t.Errorf("cluster id %q", id)
	}
	if n, secret := c.view.NewestSecret(); n != 1 || len(secret) != 32 {
		t.Errorf("secret %d of %d bytes", n, len(secret))
	}
}

func TestRestartedLeaderIsSealed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, startAll(t, configs(t, 1)...)...)
	p := mq.PartitionID{Topic: c.topic("orders", 1).ID}
	first := *c.head(p).Open
	leader := c.nodes[first.Leader.Store]
	// The leader's tail is longer than what it was acknowledged for: it counts all the same.
	tails := map[int]uint64{0: 9, 1: 7, 2: 5}
	for i, r := range first.Replicas {
		c.nodes[r.Store].append(first.ID, at(tails[i]))
	}
	if first.Replicas[0].Store != leader.store {
		t.Fatal("the leader is not the first replica")
	}
	leader.die()
	leader.start(c.store)
	h := c.next(p, first.ID)
	if h.Last == nil || h.Last.ID != first.ID || !h.Last.Sealed || h.Last.End != at(9) || h.Open.Base != at(9) || h.Open.Number != 2 {
		t.Fatalf("last %+v, open %+v; want the first one sealed at 9 and the next from there", h.Last, h.Open)
	}
	if h.Open.Leader != (mq.Incarnation{Store: leader.store, Boot: 2}) {
		t.Errorf("leader %s; only %s answered the end", h.Open.Leader, leader.store)
	}
}

func TestKilledLeaderFailsOver(t *testing.T) {
	t.Parallel()
	for name, poked := range map[string]bool{"poke": true, "lease": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, startAll(t, configs(t, 1)...)...)
			p := mq.PartitionID{Topic: c.topic("orders", 1).ID}
			first := *c.head(p).Open
			for i, r := range first.Replicas {
				c.nodes[r.Store].append(first.ID, at(uint64(10-i))) // the leader has 10, then 9, then 8
			}
			if poked {
				b := bus.Connect(c.view, "test", testLog(t))
				defer b.Close()
				for b.Flush(c.ctx) != nil {
					c.wait("a coordinator", func(v *meta.View) bool { return len(v.Coordinators()) == 1 })
				}
				c.nodes[first.Leader.Store].die()
				b.Look("the leader is gone")
			} else {
				c.nodes[first.Leader.Store].die()
			}
			h := c.next(p, first.ID)
			if h.Last.End != at(9) || h.Open.Leader.Store != first.Replicas[1].Store || len(h.Open.Replicas) != 2 || h.Open.Quorum != 2 {
				t.Fatalf("last %+v, open %+v; want it sealed at 9, led by who has 9, on two nodes", h.Last, h.Open)
			}
			// With one of two left there is no quorum for a next segment: it waits, and q is not lowered.
			second := *h.Open
			c.nodes[second.Leader.Store].die()
			c.wait("the lease of the second leader", func(v *meta.View) bool { return len(v.Nodes()) == 1 })
			if h := c.head(p); h.Open.ID != second.ID {
				t.Fatalf("opened %+v with one node for a quorum of two", h.Open)
			}
			c.nodes[first.Leader.Store].start(c.store)
			if h := c.next(p, second.ID); h.Open.Base != at(9) || h.Open.Number != 3 || h.Last.ID != first.ID {
				t.Fatalf("last %+v, open %+v; want the empty second replaced", h.Last, h.Open)
			}
		})
	}
}

// TestMuseum17ServingLeaderIsLeftAlone: a lease that ended is no proof.
func TestMuseum17ServingLeaderIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, startAll(t, configs(t, 1)...)...)
	p := mq.PartitionID{Topic: c.topic("orders", 1).ID}
	first := *c.head(p).Open
	leader := c.nodes[first.Leader.Store]
	// Its registration ends but it answers and commits: the trouble is etcd's.
	leader.entry.Close()
	c.wait("the end of the lease", func(v *meta.View) bool { return len(v.Nodes()) == 2 })
	other := c.topicWith(2, "other") // a round over the same nodes
	if h := c.head(p); h.Open.ID != first.ID {
		t.Fatalf("a serving leader was sealed: %+v", h.Open)
	}
	if n := len(c.view.Heads(other.ID)); n != 1 {
		t.Fatalf("%d heads", n)
	}
	// It stops committing: now the missing registration counts.
	leader.with(func() { leader.stalled = true })
	if h := c.next(p, first.ID); h.Open.Leader.Store == leader.store {
		t.Fatalf("an unregistered node leads: %+v", h.Open)
	}
}

func TestReportsSeal(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, startAll(t, configs(t, 1)...)...)
	p := mq.PartitionID{Topic: c.topic("orders", 1).ID}
	first := *c.head(p).Open
	for _, r := range first.Replicas {
		c.nodes[r.Store].append(first.ID, at(4))
	}
	leader := c.nodes[first.Leader.Store]
	report, err := c.store.Register(c.ctx, meta.ReportKey(leader.store),
		meta.Report{Store: leader.store, SealWanted: []mq.SegmentID{first.ID}}, leaseTTL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer report.Close()
	h := c.next(p, first.ID)
	if h.Open.Leader != first.Leader || h.Last.End != at(4) {
		t.Fatalf("open %+v after %+v; a live leader keeps its place over a roll", h.Open, h.Last)
	}
	// A follower that finds its seal flag set asks for the next one; the former last moves to a key of its own.
	second := *h.Open
	for _, r := range second.Replicas {
		c.nodes[r.Store].append(second.ID, at(6))
	}
	if err := report.Update(c.ctx, meta.Report{Store: leader.store, SealFlags: []mq.SegmentID{second.ID}}); err != nil {
		t.Fatal(err)
	}
	h = c.next(p, second.ID)
	_, chain, err := c.store.Chain(c.ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(chain) != 2 || chain[0].ID != first.ID || chain[1].ID != second.ID || chain[1].End != h.Open.Base || chain[0].End != chain[1].Base {
		t.Fatalf("chain %+v, open %+v", chain, h.Open)
	}
}

// TestManyPartitionsMoveInSeveralRounds: more than fit in one.
func TestManyPartitionsMoveInSeveralRounds(t *testing.T) {
	t.Parallel()
	const n = 2*seal.MaxTargets + 50
	c := newCluster(t, 3, startAll(t, configs(t, 1)...)...)
	topic := c.topic("orders", n)
	leads, ids := map[mq.StoreID]int{}, map[mq.SegmentID]bool{}
	var dead mq.StoreID
	for _, h := range c.view.Heads(topic.ID) {
		leads[h.Open.Leader.Store]++
		ids[h.Open.ID] = true
		dead = h.Open.Leader.Store
		for _, r := range h.Open.Replicas {
			c.nodes[r.Store].append(h.Open.ID, at(1))
		}
	}
	for store, l := range leads {
		if l < n/3-20 || l > n/3+20 {
			t.Errorf("%s leads %d of %d", store, l, n)
		}
	}
	c.nodes[dead].die()
	c.wait("others lead all partitions", func(v *meta.View) bool {
		for _, h := range v.Heads(topic.ID) {
			if h.Open.Leader.Store == dead {
				return false
			}
		}
		return true
	})
	moved := 0
	for _, h := range c.view.Heads(topic.ID) {
		if h.Open.Number == 1 {
			continue
		}
		base := mq.Position{}
		if h.Last != nil {
			moved++
			base = at(1)
		}
		if h.Open.Base != base || h.Last != nil && h.Last.End != base || ids[h.Open.ID] {
			t.Fatalf("last %+v, open %+v", h.Last, h.Open)
		}
		ids[h.Open.ID] = true
	}
	if moved < leads[dead]-balanceMoves { // a few may have been moved before anything was in them
		t.Errorf("%d partitions have a next segment, %d were led by the dead node", moved, leads[dead])
	}
}
