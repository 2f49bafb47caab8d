package lognode

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/beat"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// followAll is how often those who follow heads look at all of them although none has changed.
const followAll = time.Minute

// follow passes on what etcd says: heads to their partitions, nodes to the peers.
func (n *Node) follow() {
	changes, cancel := n.view.Subscribe()
	defer cancel()
	feed := n.view.FollowHeads(followAll)
	defer feed.Close()
	seen := map[mq.PartitionID]int64{}
	complain := beat.NewTicker(staleGrace)
	defer complain.Stop()
	for {
		n.peers.update(n.view.Nodes())
		n.take(append(feed.Take(time.Now()), n.headsOfMade()...), seen)
		n.complainOfStale()
		select {
		case <-changes:
		case <-complain.C:
		case <-n.ctx.Done():
			return
		}
	}
}

// take passes heads on that are newer than what was seen: those that name this node, and those of partitions that it
// knows, which may name it no more.
func (n *Node) take(heads []mq.Head, seen map[mq.PartitionID]int64) {
	id := n.store.Identity().Store
	var named []mq.Head
	for i := range heads {
		h := &heads[i]
		mine := h.Open != nil && h.Open.ReplicaIndex(id) >= 0 || h.Last != nil && h.Last.Holds(id)
		if seen[h.Partition] >= h.Revision || !mine && n.known(h.Partition) == nil || !n.follows(h) {
			continue
		}
		seen[h.Partition] = h.Revision
		n.partition(h.Partition).SetHead(*h)
		if mine {
			named = append(named, *h)
		}
	}
	if err := n.store.SetAllNamed(named); err != nil {
		n.log.Error("what etcd named could not be remembered", "err", err)
	}
}

// headsOfMade are the heads of the partitions that were made here since it was asked last: they may have been seen, and
// passed over, before.
func (n *Node) headsOfMade() (out []mq.Head) {
	n.mu.Lock()
	made := n.made
	n.made = nil
	n.mu.Unlock()
	for _, p := range made {
		if h, ok := n.view.Head(p); ok {
			out = append(out, h)
		}
	}
	return out
}

const (
	// tidyEvery is how often a node looks for segments that nobody needs.
	tidyEvery = 5 * time.Second
	// tidyAll is how often it looks through all that it has; in between only while there is something to expect.
	tidyAll = time.Minute
	// tidyAge is how old a segment that etcd does not name must be before etcd is asked about it.
	tidyAge = 30 * time.Second
)

// tidied is what the last look through everything saw.
type tidied struct {
	unnamed  map[mq.SegmentID]time.Time // segments that etcd does not name, since when or since it was asked
	deleted  int64                      // deleted topics; another number says that some were deleted, or forgotten
	settings int64                      // the newest revision of a topic
	again    time.Time
}

// tidy removes the segments of deleted topics and segments that this node need not hold (rule R5), and has leaders
// look at retention.
func (n *Node) tidy() {
	tick := beat.NewTicker(tidyEvery)
	defer tick.Stop()
	was := tidied{unnamed: map[mq.SegmentID]time.Time{}}
	for {
		select {
		case now := <-tick.C:
			n.tidyOnce(&was, now)
		case <-n.ctx.Done():
			return
		}
	}
}

func (n *Node) tidyOnce(was *tidied, now time.Time) {
	deleted := n.view.Deletions()
	if deleted.Count() != was.deleted || len(was.unnamed) > 0 || !now.Before(was.again) {
		was.deleted, was.again = deleted.Count(), now.Add(tidyAll)
		if !n.dropDeleted(deleted) {
			was.again = now // again with the next tick
		}
		n.dropUnnamed(was.unnamed)
	}
	settings := int64(0)
	for _, t := range n.view.Topics() {
		settings = max(settings, t.Revision)
	}
	for _, p := range n.all() {
		if settings != was.settings {
			p.Retain()
		} else {
			p.RetainDue(now)
		}
	}
	was.settings = settings
}

// dropDeleted is false if something is still to be removed.
func (n *Node) dropDeleted(deleted meta.Deletions) bool {
	if deleted.Count() == 0 {
		return true
	}
	var ids []mq.SegmentID
	for _, info := range n.store.Segments() {
		if deleted.Has(info.Segment.Partition.Topic) {
			ids = append(ids, info.Segment.ID)
		}
	}
	for _, p := range n.all() {
		if deleted.Has(p.ID().Topic) {
			n.mu.Lock()
			delete(n.partitions, p.ID())
			n.mu.Unlock()
			p.Close()
		}
	}
	return n.remove(ids)
}

// remove is false if it failed.
func (n *Node) remove(ids []mq.SegmentID) bool {
	if len(ids) == 0 {
		return true
	}
	err := n.store.RemoveSegments(ids)
	if err != nil {
		n.log.Error("segments could not be removed", "segments", ids, "err", err)
	}
	return err == nil
}

// dropUnnamed is rule R5: an unnamed segment goes only when a linearizable read shows the partition's key
// beyond the revision that its creation was compared against, and the chain does not name it. A missing
// key proves nothing. Those that were named when all were listed are not asked about: a node with many old segments would
// do little else.
func (n *Node) dropUnnamed(since map[mq.SegmentID]time.Time) {
	n.mu.Lock()
	listed := n.listed
	n.mu.Unlock()
	here := map[mq.SegmentID]bool{}
	for _, info := range n.store.Segments() {
		s := info.Segment
		here[s.ID] = true
		if h, ok := n.view.Head(s.Partition); ok && names(h, s.ID) || listed[s.ID] {
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
