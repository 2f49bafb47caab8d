package lognode

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// moveWait bounds how long a node that stops waits for others to lead what it leads.
	moveWait = 3 * time.Second
	// lingerFor is how long it stays after that for what the new leaders need of it, which is a probe and perhaps a copy.
	lingerFor = 300 * time.Millisecond
)

// room is how many nodes can follow in the next segment of what a node leads, or 0 if none of the others has less against its leading
// than the node itself: the controller would give it the segment again. The node is one of them, unless it takes no segments. Where a
// slow disk is what there is against it only quick ones count, for the next segment is not to wait for one.
func room(me *meta.Node, nodes []meta.Node) (n int) {
	better := false
	count := func(x *meta.Node) {
		if x.Takes() && !(x.Slow && me.Rank() == mq.RankSlow) {
			n++
			better = better || x.Rank() < me.Rank()
		}
	}
	count(me)
	for i := range nodes {
		if nodes[i].Store != me.Store {
			count(&nodes[i])
		}
	}
	if !better {
		return 0
	}
	return n
}

// toHandOver are the open segments of which etcd names this run as the leader and that others can take: when everything stops at
// once nobody waits for anybody. me is what the node says of itself, or is about to.
func (n *Node) toHandOver(me meta.Node) (out []mq.SegmentID) {
	id, most := n.store.Identity(), room(&me, n.view.Nodes())
	for _, h := range n.view.HeadsOf(id.Store) {
		if h.Open != nil && h.Open.Leader == id && h.Open.Quorum <= most {
			out = append(out, h.Open.ID)
		}
	}
	return out
}

// known says whether the view shows what this node has against its leading. The controller follows registrations and reports apart, and
// without knowing of the first might choose this node again. Where the disk hangs there is no registration.
func (s *standing) known() bool {
	me, ok := s.n.view.Node(s.n.cfg.Name)
	return !ok || me.Rank() >= s.value.Rank()
}

// handOver asks for everything to be sealed that this node leads and others had better lead. It is called again while that is so:
// what the node was given all the same is another segment.
func (s *standing) handOver(reason string) {
	if s.known() {
		s.n.wants.seal(reason, s.n.toHandOver(s.value)...)
	}
}

// leave hands over what the node leads while it still serves, for a few seconds at most, then ends the registration.
func (s *standing) leave(ctx context.Context) {
	s.stopWatching()
	defer s.lease.Close()
	stopping := s.value
	stopping.Stopping = true
	led := len(s.n.toHandOver(stopping))
	if led == 0 {
		return
	}
	began := time.Now()
	moving, cancel := context.WithTimeout(ctx, moveWait)
	defer cancel()
	s.say(moving, func(v *meta.Node) { *v = stopping })
	_ = s.n.view.WaitFor(moving, func(*meta.View) bool { return s.known() })
	for moving.Err() == nil && len(s.n.toHandOver(s.value)) > 0 {
		s.handOver("the node stops")
		again, cancel := context.WithTimeout(moving, spaceEvery)
		_ = s.n.view.WaitFor(again, func(*meta.View) bool { return len(s.n.toHandOver(s.value)) == 0 })
		cancel()
	}
	s.n.log.Info("handed over", "led", led, "left", len(s.n.toHandOver(s.value)), "after", time.Since(began))
	linger := time.NewTimer(lingerFor) // the new leaders bring the ends of the sealed segments to a quorum, for which they may need this store
	defer linger.Stop()
	select {
	case <-linger.C:
	case <-ctx.Done():
	}
}
