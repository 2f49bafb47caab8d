package lognode

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// repairLast is how often a node compares its copies of each partition's last sealed segment with etcd,
	// repairAll how often those of all sealed segments.
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
	tick := time.NewTicker(repairLast)
	defer tick.Stop()
	all := time.Now().Add(repairLast) // the first full look comes soon after the start
	for {
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			return
		}
		for _, h := range n.view.HeadsOf(n.store.Identity().Store) {
			if h.Last != nil {
				n.repairOne(h.Last, taken)
			}
		}
		if time.Now().Before(all) {
			continue
		}
		all = time.Now().Add(repairAll)
		var mine []mq.Segment
		adding := map[mq.SegmentID]bool{}
		note := func(s *mq.Segment) {
			if s != nil && s.Holds(n.store.Identity().Store) && s.ReplicaIndex(n.store.Identity().Store) < 0 {
				adding[s.ID] = true
			}
		}
		for _, h := range n.view.AllHeads() {
			note(h.Last)
		}
		err := n.meta.SealedSegments(n.ctx, func(s mq.Segment) bool {
			note(&s)
			if s.Holds(n.store.Identity().Store) && (adding[s.ID] || !replica.Resident(n.store, &s)) {
				mine = append(mine, s)
			}
			return true
		})
		if err != nil {
			n.log.Debug("sealed segments could not be listed", "err", err)
			continue
		}
		n.wants.heard(func(id mq.SegmentID) bool { return adding[id] })
		for i := range mine {
			n.repairOne(&mine[i], taken)
		}
	}
}

// copyAtOnce copies the last sealed segments that this node is to take over, without a rate: their partitions may be
// waiting for it (replication.md step 6).
func (n *Node) copyAtOnce() {
	unlimited := func(context.Context, int) error { return nil }
	tick := time.NewTicker(repairLast) // what could not be copied when the word came
	defer tick.Stop()
	for {
		select {
		case <-n.copies:
		case <-tick.C:
		case <-n.ctx.Done():
			return
		}
		id := n.store.Identity().Store
		for _, h := range n.view.HeadsOf(id) {
			if h.Last != nil && len(h.Last.Adding) > 0 && h.Last.ReplicaIndex(id) < 0 {
				n.repairOne(h.Last, unlimited)
			}
		}
	}
}

// toCopy tells copyAtOnce of a head.
func (n *Node) toCopy(h *mq.Head) {
	if id := n.store.Identity().Store; h.Last == nil || !h.Last.Holds(id) || h.Last.ReplicaIndex(id) >= 0 {
		return
	}
	select {
	case n.copies <- struct{}{}:
	default:
	}
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

func (n *Node) repairOne(s *mq.Segment, taken func(context.Context, int) error) {
	id := n.store.Identity().Store
	if !s.Holds(id) || n.ctx.Err() != nil || !n.claim(s.ID) {
		return
	}
	defer n.unclaim(s.ID)
	if !replica.Resident(n.store, s) {
		n.log.Info("repairing a copy", "segment", s.ID, "partition", s.Partition, "end", s.End)
		if err := n.partition(s.Partition).Repair(n.ctx, s, taken); err != nil {
			n.log.Warn("a copy could not be repaired yet", "segment", s.ID, "err", err)
			return
		}
		n.log.Info("a copy is whole again", "segment", s.ID)
	}
	if s.ReplicaIndex(id) < 0 {
		n.wants.copied(s.ID)
	}
}
