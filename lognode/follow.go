package lognode

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// follow passes on what etcd says: heads to their partitions, nodes to the peers.
func (n *Node) follow() {
	changes, cancel := n.view.Subscribe()
	defer cancel()
	seen := map[mq.PartitionID]int64{}
	complain := time.NewTicker(staleGrace)
	defer complain.Stop()
	for {
		n.peers.update(n.view.Nodes())
		var fresh []mq.Head
		for _, h := range n.view.HeadsOf(n.store.Identity().Store) {
			if seen[h.Partition] < h.Revision && n.follows(&h) {
				seen[h.Partition] = h.Revision
				n.partition(h.Partition).SetHead(h)
				n.toCopy(&h)
				fresh = append(fresh, h)
			}
		}
		if err := n.store.SetAllNamed(fresh); err != nil {
			n.log.Error("what etcd named could not be remembered", "err", err)
		}
		n.left(seen)
		n.complainOfStale()
		select {
		case <-changes:
		case <-complain.C:
		case <-n.ctx.Done():
			return
		}
	}
}

// left tells partitions whose head does not name this node any more.
func (n *Node) left(seen map[mq.PartitionID]int64) {
	for _, p := range n.all() {
		if h, ok := n.view.Head(p.ID()); ok && seen[p.ID()] < h.Revision {
			if !n.follows(&h) {
				continue
			}
			seen[p.ID()] = h.Revision
			p.SetHead(h)
		}
	}
}

const (
	// tidyEvery is how often a node looks for segments that nobody needs.
	tidyEvery = 5 * time.Second
	// tidyAge is how old a segment that etcd does not name must be before etcd is asked about it.
	tidyAge = 30 * time.Second
)

// tidy removes the segments of deleted topics and segments that this node need not hold (rule R5), and has leaders
// look at retention.
func (n *Node) tidy() {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	unnamed := map[mq.SegmentID]time.Time{}
	for {
		select {
		case <-tick.C:
			n.dropDeleted()
			n.dropUnnamed(unnamed)
			for _, p := range n.all() {
				p.Retain()
			}
		case <-n.ctx.Done():
			return
		}
	}
}

func (n *Node) dropDeleted() {
	deleted := map[mq.TopicID]bool{}
	for _, t := range n.view.DeletedTopics() {
		deleted[t.ID] = true
	}
	var ids []mq.SegmentID
	for _, info := range n.store.Segments() {
		if deleted[info.Segment.Partition.Topic] {
			ids = append(ids, info.Segment.ID)
		}
	}
	for _, p := range n.all() {
		if deleted[p.ID().Topic] {
			n.mu.Lock()
			delete(n.partitions, p.ID())
			n.mu.Unlock()
			p.Close()
		}
	}
	n.remove(ids)
}

func (n *Node) remove(ids []mq.SegmentID) {
	if len(ids) == 0 {
		return
	}
	if err := n.store.RemoveSegments(ids); err != nil {
		n.log.Error("segments could not be removed", "segments", ids, "err", err)
	}
}

// dropUnnamed is rule R5: an unnamed segment goes only when a linearizable read shows the partition's key
// beyond the revision that its creation was compared against, and the chain does not name it. A missing
// key proves nothing.
func (n *Node) dropUnnamed(since map[mq.SegmentID]time.Time) {
	here := map[mq.SegmentID]bool{}
	for _, info := range n.store.Segments() {
		s := info.Segment
		here[s.ID] = true
		if h, ok := n.view.Head(s.Partition); ok && names(h, s.ID) {
			delete(since, s.ID)
			continue
		}
		if since[s.ID].IsZero() {
			since[s.ID] = time.Now()
		}
		if time.Since(since[s.ID]) < tidyAge {
			continue
		}
		since[s.ID] = time.Now() // ask again later
		ctx, cancel := context.WithTimeout(n.ctx, 5*time.Second)
		head, sealed, err := n.meta.Chain(ctx, s.Partition)
		cancel()
		if err != nil || head.Revision <= s.Compared || names(head, s.ID) || n.among(sealed, s.ID) {
			continue
		}
		if p := n.known(s.Partition); p != nil {
			p.Drop(s.ID)
		}
		n.log.Info("removing a segment that this node need not hold", "segment", s.ID)
		n.remove([]mq.SegmentID{s.ID})
	}
	for id := range since {
		if !here[id] {
			delete(since, id)
		}
	}
}

func names(h mq.Head, id mq.SegmentID) bool {
	return h.Open != nil && h.Open.ID == id || h.Last != nil && h.Last.ID == id
}

// among says whether a sealed segment is named in the chain with this store as a holder of it. One that was given
// to other nodes meanwhile is not needed here any more.
func (n *Node) among(list []mq.Segment, id mq.SegmentID) bool {
	for i := range list {
		if list[i].ID == id {
			return list[i].Holds(n.store.Identity().Store)
		}
	}
	return false
}
