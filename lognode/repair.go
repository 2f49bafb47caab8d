package lognode

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/shared/beat"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// repairLast is how often a node compares its copies of partitions' last sealed segments with etcd where a head has
	// changed, repairAll how often those of all sealed segments; a copy that is found damaged has it look at once.
	repairLast = 2 * time.Second
	repairAll  = 30 * time.Second
	// repairBytes is how many bytes a second a node takes from others for repairs.
	repairBytes = 32 << 20
)

// repair makes the copies whole that etcd says this node has: a follower that was behind when its segment was
// sealed, a copy that a disk damaged, a segment that this node is to take over. One at a time, within a rate.
func (n *Node) repair() {
	limit := rate.NewLimiter(repairBytes, 4*repairBytes)
	taken := func(ctx context.Context, bytes int) error { return limit.WaitN(ctx, min(bytes, 4*repairBytes)) }
	tick := beat.NewTicker(repairLast)
	defer tick.Stop()
	feed := n.view.FollowHeads(repairAll)
	defer feed.Close()
	last := map[mq.PartitionID]bool{} // of which the last sealed segment may not be whole here
	damages := n.store.Damages()
	leaving := n.leaving()
	full := looks{next: time.Now().Add(repairLast)} // the first one comes soon after the start
	for {
		select {
		case <-tick.C:
		case <-n.store.DamageFound():
		case <-n.ctx.Done():
			return
		}
		heads, found := feed.Take(time.Now()), n.store.Damages()
		if found != damages {
			heads, damages = n.view.HeadsOf(n.store.Identity().Store), found
			full.soon()
			n.wants.again() // what was said to be whole may be what is damaged
		}
		if now := n.leaving(); !maps.Equal(now, leaving) {
			leaving = now
			full.soon()
		}
		for i := range heads {
			last[heads[i].Partition] = true
		}
		n.repairHeads(last, taken)
		if full.due(time.Now()) {
			n.repairSealed(taken)
		}
	}
}

// looks says when a node looks at all sealed segments.
type looks struct{ last, next time.Time }

// soon brings the next one forward, as a copy was found damaged or a node is to be emptied: at once, but for one that has just
// been. A disk that gives up is damaged everywhere, and each look lists all segments there are.
func (l *looks) soon() {
	if soon := l.last.Add(repairLast); soon.Before(l.next) {
		l.next = soon
	}
}

// due says whether it is time for one, which then begins.
func (l *looks) due(now time.Time) bool {
	if now.Before(l.next) {
		return false
	}
	l.last, l.next = now, now.Add(repairAll)
	return true
}

// leaving are the nodes that are to be emptied.
func (n *Node) leaving() map[mq.StoreID]bool {
	out := map[mq.StoreID]bool{}
	for _, x := range n.view.Nodes() {
		if x.Draining {
			out[x.Store] = true
		}
	}
	return out
}

// vouches says whether the controller waits for a store's word that its copy of a sealed segment is whole: to make it a replica, or to
// let another one go that is lost or to be emptied.
func vouches(id mq.StoreID, s *mq.Segment, leaving map[mq.StoreID]bool) bool {
	if s == nil || !s.Holds(id) {
		return false
	}
	return len(s.Adding) > 0 || slices.ContainsFunc(s.Replicas, func(r mq.Replica) bool { return leaving[r.Store] })
}

// repairSealed lists all sealed segments, and makes the copies whole that this node should have of them.
func (n *Node) repairSealed(taken func(context.Context, int) error) {
	id, leaving := n.store.Identity().Store, n.leaving()
	var mine []mq.Segment
	asked, held := map[mq.SegmentID]bool{}, map[mq.SegmentID]bool{}
	for _, h := range n.view.AllHeads() {
		if vouches(id, h.Last, leaving) {
			asked[h.Last.ID] = true
			mine = append(mine, *h.Last)
		}
	}
	err := n.meta.SealedSegments(n.ctx, func(s mq.Segment) bool {
		if s.Holds(id) {
			asked[s.ID] = vouches(id, &s, leaving)
			if held[s.ID] = true; asked[s.ID] || !replica.Resident(n.store, &s) {
				mine = append(mine, s)
			}
		}
		return true
	})
	if err != nil {
		n.log.Debug("sealed segments could not be listed", "err", err)
		return
	}
	n.mu.Lock()
	n.listed = held
	n.mu.Unlock()
	n.wants.heard(func(id mq.SegmentID) bool { return asked[id] })
	for i := range mine {
		n.repairOne(&mine[i], taken)
	}
}

// repairHeads makes the copies of partitions' last sealed segments whole, and takes those out of the list that are.
func (n *Node) repairHeads(list map[mq.PartitionID]bool, taken func(context.Context, int) error) {
	for p := range list {
		if h, ok := n.view.Head(p); !ok || h.Last == nil || n.repairOne(h.Last, taken) {
			delete(list, p)
		}
	}
}

// copyAtOnce copies the last sealed segments that this node is to take over, without a rate: their partitions may be
// waiting for it (replication.md step 6).
func (n *Node) copyAtOnce() {
	unlimited := func(context.Context, int) error { return nil }
	changes, cancel := n.view.Subscribe()
	defer cancel()
	feed := n.view.FollowHeads(followAll)
	defer feed.Close()
	lacking := map[mq.PartitionID]bool{}
	tick := beat.NewTicker(repairLast) // what could not be copied when the word came
	defer tick.Stop()
	for {
		look := false
		select {
		case <-changes:
		case <-tick.C:
			look = true
		case <-n.ctx.Done():
			return
		}
		for _, h := range feed.Take(time.Now()) {
			if n.toCopy(&h) {
				lacking[h.Partition], look = true, true
			}
		}
		for p := range lacking {
			if h, ok := n.view.Head(p); !ok || !n.toCopy(&h) {
				delete(lacking, p)
			} else if look {
				n.repairOne(h.Last, unlimited)
			}
		}
	}
}

// toCopy says whether this node is to take over a partition's last sealed segment.
func (n *Node) toCopy(h *mq.Head) bool {
	id := n.store.Identity().Store
	return h.Last != nil && h.Last.Holds(id) && h.Last.ReplicaIndex(id) < 0
}

// claim takes a segment's copy for one of the loops that repair; false if another one is at it.
func (n *Node) claim(id mq.SegmentID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.repairing[id] {
		return false
	}
	n.repairing[id] = true
	return true
}

func (n *Node) unclaim(id mq.SegmentID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.repairing, id)
}

// repairOne makes one copy whole, and says whether there is nothing left to do about it: where this node is only to
// become a replica it goes on to say that it has the copy until etcd lists it.
func (n *Node) repairOne(s *mq.Segment, taken func(context.Context, int) error) (over bool) {
	id := n.store.Identity().Store
	if !s.Holds(id) {
		return true
	}
	if n.ctx.Err() != nil || !n.claim(s.ID) {
		return false
	}
	defer n.unclaim(s.ID)
	if !replica.Resident(n.store, s) {
		n.log.Info("repairing a copy", "segment", s.ID, "partition", s.Partition, "end", s.End)
		if err := n.partition(s.Partition).Repair(n.ctx, s, taken); err != nil {
			n.log.Warn("a copy could not be repaired yet", "segment", s.ID, "err", err)
			return false
		}
		n.log.Info("a copy is whole again", "segment", s.ID)
	}
	if vouches(id, s, n.leaving()) {
		n.wants.copied(s.ID)
	}
	return s.ReplicaIndex(id) >= 0
}
