package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/coordinator"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// chains watches a cluster's metadata as its nodes do.
func chains(t *testing.T, c *Cluster) (*meta.Store, *meta.View) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := meta.Connect(ctxFor(t), c.etcdEndpoints(), log)
	must(t, err)
	view := meta.NewView(store, log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = view.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		must(t, store.Close())
	})
	return store, view
}

// lacking says what is wrong with the holders of a segment: each must be registered, three in number, and none
// still copying.
func lacking(v *meta.View, s *mq.Segment) string {
	if len(s.Replicas) != 3 || len(s.Adding) > 0 {
		return fmt.Sprintf("%s: replicas %v, copying %v", s, s.Replicas, s.Adding)
	}
	for _, r := range s.Replicas {
		if _, ok := v.NodeByStore(r.Store); !ok {
			return fmt.Sprintf("%s: replica on a store that is gone: %v", s, s.Replicas)
		}
	}
	return ""
}

// healed waits until every segment of a topic is on three living stores.
func healed(t *testing.T, store *meta.Store, view *meta.View, topic string) (sealed int) {
	t.Helper()
	ctx := ctxFor(t)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for why := "never looked"; ; {
		select {
		case <-ctx.Done():
			t.Fatalf("not healed: %s", why)
		case <-tick.C:
		}
		tp, ok := view.Topic(topic)
		if !ok {
			continue
		}
		was := why
		why, sealed = "", 0
		for n := range tp.Settings.Partitions {
			head, list, err := store.Chain(ctx, mq.PartitionID{Topic: tp.ID, Number: n})
			switch {
			case err != nil: // the coordinators may be changing their leader
				why = fmt.Sprintf("%v; before that: %s", err, was)
				continue
			case head.Open == nil:
				why = "no open segment"
				continue
			}
			for _, s := range append(list, *head.Open) {
				if bad := lacking(view, &s); bad != "" {
					why = bad
				}
			}
			sealed += len(list)
		}
		if why == "" {
			return sealed
		}
	}
}

// A node that lost its directory is another node: what the old one held is copied to it from the survivors, and
// with one of those away nothing is missing.
func TestMuseum13EndLostNodeIsAnotherNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Nodes: 3, CoordinatorConfig: func(_ int, cfg *coordinator.Config) { cfg.RepairAfter = time.Second }})
	store, view := chains(t, c)
	one := via(t, c, 1)
	one.topic("kept", `{"partitions":2,"replicas":3}`)
	for i := range 40 {
		one.publish("kept", fmt.Sprintf("v-%d", i))
	}
	must(t, c.Node(2).Kill())
	must(t, os.RemoveAll(filepath.Join(dir, c.Node(2).Name())))
	must(t, c.Node(2).Start(ctxFor(t)))
	if sealed := healed(t, store, view, "kept"); sealed == 0 {
		t.Fatal("no segment was sealed: the test shows nothing")
	}
	must(t, c.Node(1).Kill())
	for i := 40; i < 50; i++ {
		publishAnyway(t, one, "kept", fmt.Sprintf("v-%d", i))
	}
	if got := values(one.receiveN("kept", "g", 50, "")); !slices.Equal(got, numbered("v", 50)) {
		t.Errorf("after the repair: %v", got)
	}
}

// leaderOf is the open segment of a topic's partition 0 as etcd has it.
func leaderOf(t *testing.T, store *meta.Store, view *meta.View, topic string) *mq.Segment {
	t.Helper()
	ctx := ctxFor(t)
	must(t, view.WaitFor(ctx, func(v *meta.View) bool { _, ok := v.Topic(topic); return ok }))
	tp, _ := view.Topic(topic)
	head, err := store.Head(ctx, mq.PartitionID{Topic: tp.ID})
	must(t, err)
	if head.Open == nil {
		t.Fatal("no open segment")
	}
	return head.Open
}

// A leader moves where an operator wants it, and away from a node that is drained; publishing goes on, and a
// receipt that the old leader gave still settles.
func TestEndMoveAndDrain(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3})
	store, view := chains(t, c)
	one := via(t, c, 1)
	one.topic("moved", `{"partitions":1,"replicas":3}`)
	one.publish("moved", "v-0")
	got := one.receiveN("moved", "g", 1, "")
	seg := leaderOf(t, store, view, "moved")
	to := seg.Replicas[(seg.ReplicaIndex(seg.Leader.Store)+1)%3]
	must(t, store.SetMove(ctxFor(t), seg.Partition, meta.Move{Segment: seg.ID, To: to.Store}))
	led := func(by mq.StoreID) func(*meta.View) bool {
		return func(v *meta.View) bool {
			h, ok := v.Head(seg.Partition)
			return ok && h.Open != nil && h.Open.Leader.Store == by
		}
	}
	must(t, view.WaitFor(ctxFor(t), led(to.Store)))
	publishAnyway(t, one, "moved", "v-1")
	one.settle("ack", got, "")

	must(t, store.SetDrain(ctxFor(t), to.Node, true))
	must(t, view.WaitFor(ctxFor(t), func(v *meta.View) bool {
		h, _ := v.Head(seg.Partition)
		return h.Open != nil && h.Open.ReplicaIndex(to.Store) < 0
	}))
	publishAnyway(t, one, "moved", "v-2")
	must(t, store.SetDrain(ctxFor(t), to.Node, false))
	if rest := values(one.receiveN("moved", "g", 2, "")); !slices.Equal(rest, []string{"v-1", "v-2"}) {
		t.Errorf("after the moves: %v", rest)
	}
}

// A topic that is made while one of three nodes is away begins with two replicas. When that node is back, it has all of it.
func TestEndThirdReplicaComesLater(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3, CoordinatorConfig: func(_ int, cfg *coordinator.Config) { cfg.RepairAfter = time.Second }})
	store, view := chains(t, c)
	one := via(t, c, 1)
	must(t, c.Node(2).Stop(ctxFor(t)))
	one.topic("short", `{"partitions":2,"replicas":3}`)
	for i := range 10 {
		one.publish("short", fmt.Sprintf("v-%d", i))
	}
	if seg := leaderOf(t, store, view, "short"); len(seg.Replicas) != 2 {
		t.Fatalf("with two nodes there are the replicas %v", seg.Replicas)
	}
	must(t, c.Node(2).Start(ctxFor(t)))
	if sealed := healed(t, store, view, "short"); sealed == 0 {
		t.Fatal("no segment was sealed: the test shows nothing")
	}
}
