package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/ports"
)

// patience bounds every wait of these tests; it is no expectation of speed.
const patience = 3 * time.Minute

func testLog(t testing.TB) *slog.Logger {
	level := slog.LevelError
	if os.Getenv("SPLASHDAM_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
}

// freeAddrs finds n addresses of this machine that are the test's own.
func freeAddrs(t testing.TB, n int) []string {
	t.Helper()
	block, err := ports.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { block.Release() })
	out, taken := make([]string, n), map[int]bool{}
	for i := range out {
		p, err := block.Choose(taken)
		if err != nil {
			t.Fatal(err)
		}
		out[i], taken[p] = fmt.Sprint("127.0.0.1:", p), true
	}
	return out
}

// configs are the configurations of n coordinators of one cluster.
func configs(t testing.TB, n int) []Config {
	addrs := freeAddrs(t, 4*n)
	out := make([]Config, n)
	var peers []Peer
	for i := range out {
		c := DefaultConfig()
		c.Name = fmt.Sprintf("coordinator-%d", i+1)
		c.Dir = filepath.Join(t.TempDir(), c.Name)
		c.EtcdClient, c.EtcdPeer, c.NATS, c.NATSRoute = addrs[4*i], addrs[4*i+1], addrs[4*i+2], addrs[4*i+3]
		c.Patience = 20 * time.Second // a node that lives answers, on a busy machine late: where that is decides who leads
		peers = append(peers, Peer{c.Name, c.EtcdPeer, c.NATSRoute})
		out[i] = c
	}
	for i := range out {
		if n > 1 {
			out[i].Peers = peers
		}
	}
	return out
}

// startAll starts coordinators together and stops them with the test.
func startAll(t testing.TB, cfgs ...Config) []*Coordinator {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := make([]*Coordinator, len(cfgs))
	errs := make(chan error, len(cfgs))
	for i, cfg := range cfgs {
		go func() {
			var err error
			out[i], err = Start(ctx, cfg, testLog(t), nil)
			errs <- err
		}()
	}
	for range cfgs {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, c := range out {
			stopped(t, c)
		}
	})
	return out
}

func stopped(t testing.TB, c *Coordinator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// cluster is a coordinator with fake nodes, seen through a client's eyes.
type cluster struct {
	t     testing.TB
	ctx   context.Context
	store *meta.Store
	view  *meta.View
	nodes map[mq.StoreID]*fakeNode
}

// newCluster connects to coordinators over sockets and starts n nodes.
func newCluster(t testing.TB, n int, coordinators ...*Coordinator) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	c := &cluster{t: t, ctx: ctx, nodes: map[mq.StoreID]*fakeNode{}}
	var endpoints []string
	for _, x := range coordinators {
		endpoints = append(endpoints, x.EtcdClient())
	}
	var err error
	if c.store, err = meta.Connect(ctx, endpoints, testLog(t)); err != nil {
		t.Fatal(err)
	}
	c.view = meta.NewView(c.store, testLog(t))
	run, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.view.Run(run)
	}()
	for i, addr := range freeAddrs(t, n) {
		node := newFakeNode(t, fmt.Sprintf("node-%d", i+1), mq.StoreID(strings.Repeat(fmt.Sprint(i+1), 32)))
		node.addr = addr
		node.start(c.store)
		c.nodes[node.store] = node
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.stop()
		}
		end()
		<-done
		c.store.Close()
	})
	return c
}

// wait returns when ok holds of the view.
func (c *cluster) wait(what string, ok func(v *meta.View) bool) {
	c.t.Helper()
	if err := c.view.WaitFor(c.ctx, ok); err != nil {
		c.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// topic makes a topic and waits until every partition has an open segment.
func (c *cluster) topic(name string, partitions uint32) meta.Topic {
	c.t.Helper()
	c.wait("the nodes", func(v *meta.View) bool { return len(v.Nodes()) == len(c.nodes) })
	s := mq.DefaultTopicSettings()
	s.Partitions = partitions
	topic, err := c.store.CreateTopic(c.ctx, name, s)
	if err != nil {
		c.t.Fatal(err)
	}
	c.wait("open partitions", func(v *meta.View) bool {
		heads := v.Heads(topic.ID)
		for _, h := range heads {
			if h.Open == nil {
				return false
			}
		}
		return len(heads) == int(partitions)
	})
	return topic
}

// head is the head of a partition as etcd has it.
func (c *cluster) head(p mq.PartitionID) mq.Head {
	c.t.Helper()
	h, err := c.store.Head(c.ctx, p)
	if err != nil {
		c.t.Fatal(err)
	}
	return h
}

// next waits until another segment than id is open.
func (c *cluster) next(p mq.PartitionID, id mq.SegmentID) mq.Head {
	c.t.Helper()
	var out mq.Head
	c.wait("the next segment of "+p.String(), func(v *meta.View) bool {
		h, ok := v.Head(p)
		out = h
		return ok && h.Open != nil && h.Open.ID != id
	})
	return out
}
