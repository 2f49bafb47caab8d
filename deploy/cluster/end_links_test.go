package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// cutOff is a cluster with links that can be cut, and a topic of one partition.
type cutOff struct {
	t     *testing.T
	links *links
	c     *Cluster
	one   caller
	store *meta.Store
	view  *meta.View
	sent  int
}

func newCutOff(t *testing.T, nodes, gateways int) *cutOff {
	l := newLinks()
	x := &cutOff{t: t, links: l, c: start(t, l.over(Options{Nodes: nodes, Gateways: gateways}))}
	x.store, x.view = chains(t, x.c)
	x.one = via(t, x.c, 1)
	x.one.topic("cut", fmt.Sprintf(`{"partitions":1,"replicas":%d}`, min(nodes, 3))) // by default as many as are registered just now
	x.publish()
	return x
}

func (x *cutOff) publish() {
	x.t.Helper()
	publishAnyway(x.t, x.one, "cut", fmt.Sprintf("v-%d", x.sent))
	x.sent++
}

// until waits for a head that is as it should be.
func (x *cutOff) until(what string, ok func(open *mq.Segment) bool) *mq.Segment {
	x.t.Helper()
	p := leaderOf(x.t, x.store, x.view, "cut").Partition
	var last mq.Segment
	err := x.view.WaitFor(ctxFor(x.t), func(v *meta.View) bool {
		h, known := v.Head(p)
		if !known || h.Open == nil {
			return false
		}
		last = *h.Open
		return ok(&last)
	})
	if err != nil {
		x.t.Fatalf("%s: %v; it is %+v", what, err, last)
	}
	return &last
}

func (x *cutOff) open() *mq.Segment {
	return x.until("an open segment", func(*mq.Segment) bool { return true })
}

// nothingLost reads everything: what was published is there once, also where an answer was lost.
func (x *cutOff) nothingLost() {
	x.t.Helper()
	got := values(x.one.read("cut"))
	if want := numbered("v", x.sent); !slices.Equal(got, want) {
		x.t.Errorf("read %v, want %v", got, want)
	}
}

func follower(s *mq.Segment) mq.Replica {
	return s.Replicas[(s.ReplicaIndex(s.Leader.Store)+1)%len(s.Replicas)]
}

// A follower lives, and its leader does not hear it: another node takes its place, and nobody waits for that. When the
// link is mended it is a node like any other.
func TestEndFollowerCutFromItsLeader(t *testing.T) {
	t.Parallel()
	x := newCutOff(t, 4, 1)
	was := x.until("three replicas", func(s *mq.Segment) bool { return len(s.Replicas) == 3 })
	gone := follower(was)
	x.links.cut(was.LeaderNode(), gone.Node)
	began := time.Now()
	x.publish()
	now := x.until("the silent follower is replaced", func(s *mq.Segment) bool { return s.ReplicaIndex(gone.Store) < 0 && len(s.Replicas) == 3 })
	t.Logf("replaced %s after the cut", time.Since(began))
	if now.Leader != was.Leader {
		t.Errorf("the leader, who had a quorum, is %s and was %s", now.LeaderNode(), was.LeaderNode())
	}
	x.publish()
	x.links.heal(was.LeaderNode(), gone.Node)
	x.publish()
	x.nothingLost()
}

// A leader lives, and is heard by the coordinator but by neither follower: it commits nothing, and is replaced.
func TestEndLeaderCutFromItsFollowers(t *testing.T) {
	t.Parallel()
	x := newCutOff(t, 3, 1)
	was := x.until("three replicas", func(s *mq.Segment) bool { return len(s.Replicas) == 3 })
	for _, r := range was.Replicas {
		if r.Store != was.Leader.Store {
			x.links.cut(was.LeaderNode(), r.Node)
		}
	}
	began := time.Now()
	x.publish()
	t.Logf("the first publish was acknowledged %s after the cut", time.Since(began))
	if now := x.open(); now.Leader.Store == was.Leader.Store {
		t.Error("it was acknowledged by a leader without followers")
	}
	for _, r := range was.Replicas {
		x.links.heal(was.LeaderNode(), r.Node)
	}
	x.publish()
	x.until("three replicas again", func(s *mq.Segment) bool { return len(s.Replicas) == 3 })
	x.nothingLost()
}

// A leader is cut from the coordinator, and hears its followers: its lease ends, and its followers are asked without it.
func TestEndLeaderCutFromTheCoordinator(t *testing.T) {
	t.Parallel()
	x := newCutOff(t, 3, 1)
	was := x.until("three replicas", func(s *mq.Segment) bool { return len(s.Replicas) == 3 })
	x.links.cut(was.LeaderNode(), "coordinator-1")
	x.until("another leader", func(s *mq.Segment) bool { return s.Leader.Store != was.Leader.Store })
	x.publish()
	x.links.heal(was.LeaderNode(), "coordinator-1")
	must(t, x.view.WaitFor(ctxFor(t), func(v *meta.View) bool { _, ok := v.NodeByStore(was.Leader.Store); return ok }))
	x.publish()
	x.nothingLost()
}

// A gateway that does not reach the leader says so in time, and the others go on; what it had leased comes back when its
// half of the connection is known to be dead. Mended, it serves again.
func TestEndGatewayCutFromALeader(t *testing.T) {
	t.Parallel()
	x := newCutOff(t, 1, 2)
	other := via(t, x.c, 2)
	leased := x.one.receiveN("cut", "g", 1, "")
	x.links.cut("gateway-1", "node-1")
	x.one.untilStatus(503, "GET", "/v1/topics/cut/messages?limit=1", "")
	publishAnyway(t, other, "cut", fmt.Sprintf("v-%d", x.sent))
	x.sent++
	other.settle("ack", leased, "") // a receipt is good at any gateway
	x.links.heal("gateway-1", "node-1")
	x.one.untilStatus(200, "GET", "/v1/topics/cut/messages?limit=1", "")
	x.publish()
	x.nothingLost()
}
