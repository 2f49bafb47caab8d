package router

import (
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// startPatience is for how long after this gateway's start requests wait for log nodes that have not registered yet: a
	// cluster that was just started has all of them in a moment.
	startPatience = 10 * time.Second
	// shortPatience is how long no node may have come or gone until requests don't wait for further ones any more.
	shortPatience = time.Second
)

// nodeCount remembers since when as many log nodes are registered as now.
type nodeCount struct {
	mu    sync.Mutex
	n     int
	since time.Time
}

// steady takes note of how many nodes there are, and says whether that is so for a while.
func (c *nodeCount) steady(n int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n != c.n || c.since.IsZero() {
		c.n, c.since = n, now
	}
	return now.Sub(c.since) >= shortPatience
}

// short is NotEnoughReplicas for a partition that can't have a leader, because fewer nodes are registered than its next segment
// needs; else nil.
func (r *Router) short(p mq.PartitionID) *mqerr.Error {
	h, ok := r.cfg.View.Head(p)
	if h.Open != nil {
		return nil
	}
	t, known := r.cfg.View.TopicByID(p.Topic)
	if !ok && known { // the controller has not made it yet
		h.Replicas, h.Quorum = t.Settings.Replicas, t.Settings.Quorum
	}
	n := len(r.cfg.View.Nodes())
	if n >= h.Quorum || known && t.Deleted {
		return nil
	}
	return mqerr.New(mqerr.NotEnoughReplicas, "the topic has %d replicas, of which %d (ack_quorum) must be there, each on a log node of its "+
		"own; %d are registered: start more log nodes, or make the topic with fewer replicas", h.Replicas, h.Quorum, n)
}

// Hopeless is NotEnoughReplicas for a partition that has no leader, because fewer nodes are registered than it needs, where
// waiting for further ones makes no sense; else nil.
func (r *Router) Hopeless(p mq.PartitionID) error {
	e := r.short(p)
	if e == nil {
		return nil
	}
	now := time.Now()
	if !r.count.steady(len(r.cfg.View.Nodes()), now) || now.Sub(r.started) < startPatience {
		return nil
	}
	return e
}
