package coordinator

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/splashdam/splashdam/shared/leaks"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

const leaseTTL = 2e9

// topicWith makes a topic with one partition while n nodes are registered.
func (c *cluster) topicWith(n int, name string) meta.Topic {
	c.t.Helper()
	c.wait("the nodes", func(v *meta.View) bool { return len(v.Nodes()) == n })
	s := mq.DefaultTopicSettings()
	s.Partitions = 1
	topic, err := c.store.CreateTopic(c.ctx, name, s)
	if err != nil {
		c.t.Fatal(err)
	}
	c.wait("an open partition", func(v *meta.View) bool {
		h, ok := v.Head(mq.PartitionID{Topic: topic.ID})
		return ok && h.Open != nil
	})
	return topic
}

// TestRestartOfEverything: one node, one coordinator, both restarted; the chain goes on where it was.
func TestRestartOfEverything(t *testing.T) {
	t.Parallel()
	cfgs := configs(t, 1)
	coordinator := startAll(t, cfgs...)[0]
	c := newCluster(t, 1, coordinator)
	p := mq.PartitionID{Topic: c.topic("orders", 1).ID}
	first := *c.head(p).Open
	if first.Quorum != 1 || len(first.Replicas) != 1 {
		t.Fatalf("on a single node: %+v", first)
	}
	node := c.nodes[first.Leader.Store]
	node.append(first.ID, at(3))
	id, err := c.store.ClusterID(c.ctx)
	if err != nil {
		t.Fatal(err)
	}
	node.die()
	stopped(t, coordinator)
	startAll(t, cfgs...)
	node.start(c.store)
	h := c.next(p, first.ID)
	if h.Last.End != at(3) || h.Open.Leader.Boot != 2 {
		t.Fatalf("last %+v, open %+v", h.Last, h.Open)
	}
	if now, err := c.store.ClusterID(c.ctx); err != nil || now != id {
		t.Errorf("cluster id %q became %q (%v)", id, now, err)
	}
}

// TestThreeCoordinators: the one that leads stops; another one takes over and fails a leader over.
func TestThreeCoordinators(t *testing.T) {
	t.Parallel()
	coordinators := startAll(t, configs(t, 3)...)
	c := newCluster(t, 3, coordinators...)
	p := mq.PartitionID{Topic: c.topic("orders", 1).ID}
	first := *c.head(p).Open
	name, err := c.store.Controller(c.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range coordinators {
		if x.cfg.Name == name {
			stopped(t, x)
		}
	}
	c.nodes[first.Leader.Store].die()
	c.next(p, first.ID)
	c.wait("the registration of the stopped one to end", func(v *meta.View) bool { return len(v.Coordinators()) == 2 })
	if now, err := c.store.Controller(c.ctx); err != nil || now == name {
		t.Errorf("%q leads after %q (%v)", now, name, err)
	}
}

func TestDeletedTopicLosesItsKeys(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, startAll(t, configs(t, 1)...)...)
	topic := c.topic("orders", 5)
	if _, err := c.store.CreateGroup(c.ctx, topic.ID, "g", mq.DefaultGroupSettings()); err != nil {
		t.Fatal(err)
	}
	if err := c.store.DeleteTopic(c.ctx, "orders", 0); err != nil {
		t.Fatal(err)
	}
	c.wait("the keys to go", func(v *meta.View) bool { return len(v.Heads(topic.ID)) == 0 && len(v.Groups(topic.ID)) == 0 })
	again := c.topic("orders", 2)
	if again.ID <= topic.ID {
		t.Errorf("id %d after %d", again.ID, topic.ID)
	}
	if old, ok := c.view.TopicByID(topic.ID); !ok || !old.Deleted {
		t.Errorf("the tombstone of the old topic is %+v", old)
	}
}

// TestRefusingNodeIsPassedOver: a node that can't make segments is left out, and no id is used twice.
func TestRefusingNodeIsPassedOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, startAll(t, configs(t, 1)...)...)
	var bad *fakeNode
	for _, n := range c.nodes {
		bad = n
	}
	bad.with(func() { bad.refuse = "the disk is full" })
	topic := c.topic("orders", 4)
	for _, h := range c.view.Heads(topic.ID) {
		if h.Open.ReplicaIndex(bad.store) >= 0 || len(h.Open.Replicas) != 2 {
			t.Errorf("%+v is on a node that refused it", h.Open)
		}
	}
}

func TestStartStop(t *testing.T) {
	before := goleak.IgnoreCurrent()
	defer func() {
		if err := leaks.Left(before); err != nil {
			t.Error(err)
		}
	}()
	cfg := configs(t, 1)[0]
	for range 2 {
		c, err := Start(context.Background(), cfg, testLog(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		stopped(t, c)
		stopped(t, c) // twice is fine
	}
	other := configs(t, 1)[0]
	c, err := Start(context.Background(), cfg, testLog(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped(t, c)
	other.NATS = cfg.NATS
	if c, err := Start(context.Background(), other, testLog(t), nil); err == nil {
		stopped(t, c)
		t.Error("two NATS servers on one port")
	}
	other = configs(t, 1)[0]
	other.EtcdClient = cfg.EtcdClient
	if c, err := Start(context.Background(), other, testLog(t), nil); err == nil {
		stopped(t, c)
		t.Error("two etcd members on one port")
	}
}
