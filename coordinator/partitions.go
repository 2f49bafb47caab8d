package coordinator

import (
	"context"
	"sort"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// urgency orders the targets of a round: first who can't work, then who could do better.
var urgency = map[seal.Reason]int{
	seal.Forced: 0, seal.Restarted: 0, seal.Gone: 0, seal.Suspected: 0, seal.Flagged: 0, seal.First: 1, seal.Asked: 2, seal.Moving: 3, seal.Redundancy: 3,
}

// pulse asks all live nodes whether they answer; who does not is suspect until the next pulse.
func (k *controller) pulse(ctx context.Context) {
	k.refresh(time.Now())
	suspect := seal.Pulse(ctx, k.calls, k.book.members(nil))
	for store := range suspect {
		if !k.suspect[store] {
			k.log.Info("a node does not answer", "node", k.book.nodes[store].Name, "store", store)
		}
	}
	k.suspect = suspect
}

// refresh takes the live nodes from the view. After a storm one TTL must pass, in which leases may come back.
func (k *controller) refresh(now time.Time) {
	if k.book.update(k.view.Nodes(), now) {
		k.log.Warn("many leases ended together; only restarted nodes are acted upon for a while", "for", k.cfg.LeaseTTL)
		k.calm = now.Add(k.cfg.LeaseTTL)
	}
}

// partitions moves what needs to be moved, one batch. more says that there is more than fits in it; due, if not 0,
// is when something should be looked at again.
func (k *controller) partitions(ctx context.Context) (more bool, due int64) {
	now := time.Now()
	k.refresh(now)
	heads := k.heads()
	loads := loadOf(heads)
	k.book.forget(loads)
	k.calls.Keep(k.book.addrs())
	cluster := k.observe(now)
	k.wishes(ctx, heads, &cluster)
	k.suffixes(ctx, heads, &cluster)
	targets, due := k.targets(heads, &cluster)
	k.figures.waiting.Set(float64(k.waiting()))
	if len(targets) == 0 {
		return false, due
	}
	more = len(targets) > seal.MaxTargets
	targets = targets[:min(len(targets), seal.MaxTargets)]
	round := seal.Round{
		Calls: k.calls, ID: k.cluster, Cluster: cluster, Members: k.book.members(loads), Log: k.log,
		Chains: seal.Chains{
			NextIDs: func(ctx context.Context, n uint64) (uint64, error) { return k.store.NextIDs(ctx, meta.SegmentIDs, n) },
			Open:    k.store.OpenSegments, Head: k.store.Head,
		},
	}
	for _, o := range round.Run(ctx, targets) {
		k.record(o, time.Now())
	}
	k.figures.rounds.Observe(time.Since(now).Seconds())
	// What waits now has a time of its own, which is soon.
	return more, k.watch.at(time.Now().Add(100 * time.Millisecond))
}

// heads are the heads of living topics, with the redundancy that their owners want now.
func (k *controller) heads() []mq.Head {
	all := k.view.AllHeads()
	out := all[:0]
	for _, h := range all {
		t, ok := k.view.TopicByID(h.Partition.Topic)
		if !ok || t.Deleted {
			delete(k.past, h.Partition)
			delete(k.moved, h.Partition)
			continue
		}
		if s := t.Settings; s.Replicas > 0 && s.Quorum > 0 {
			h.Replicas, h.Quorum = s.Replicas, s.Quorum
		}
		out = append(out, h)
	}
	return out
}

func loadOf(heads []mq.Head) map[mq.StoreID]load {
	out := map[mq.StoreID]load{}
	for _, h := range heads {
		if h.Open == nil {
			continue
		}
		for _, r := range h.Open.Replicas {
			l := out[r.Store]
			l.segments++
			if r.Store == h.Open.Leader.Store {
				l.leads++
			}
			out[r.Store] = l
		}
	}
	return out
}

// observe is what is known of the nodes now.
func (k *controller) observe(now time.Time) seal.Cluster {
	c := seal.Cluster{
		Now: k.watch.at(now), Alive: map[mq.StoreID]uint64{}, Suspect: k.suspect, Stormy: now.Before(k.calm),
		Flagged: map[mq.SegmentID]bool{}, Asked: map[mq.SegmentID]bool{}, Opening: map[mq.SegmentID]bool{},
		Moved: map[mq.PartitionID]bool{}, Drained: map[mq.StoreID]bool{}, Avoided: map[mq.StoreID]bool{}, Prefer: map[mq.PartitionID]mq.StoreID{},
		Forced: map[mq.PartitionID]*seal.Force{}, Behind: map[mq.SegmentID][]mq.StoreID{},
	}
	for store, p := range k.book.nodes {
		if p.live {
			c.Alive[store] = p.Boot
			c.Drained[store] = p.Draining
			if c.Avoided[store] = !p.Takes(); p.Takes() { // else a segment would seem to lack replicas that it can't have
				c.Takers++
			}
		}
	}
	for _, r := range k.view.Reports() {
		mark(c.Flagged, r.SealFlags)
		mark(c.Asked, r.SealWanted)
		mark(c.Opening, r.Opening)
		for _, b := range r.Behind {
			c.Behind[b.Segment] = b.Stores
		}
	}
	return c
}

func mark(m map[mq.SegmentID]bool, ids []mq.SegmentID) {
	for _, id := range ids {
		m[id] = true
	}
}

// targets are the partitions that need their next segment, the most urgent first.
func (k *controller) targets(heads []mq.Head, c *seal.Cluster) (targets []seal.Target, due int64) {
	for i := range heads {
		h := &heads[i]
		p := h.Partition
		if at, ok := k.moved[p]; ok {
			if h.Revision < at {
				c.Moved[p] = true
			} else {
				delete(k.moved, p)
			}
		}
		past := k.past[p]
		if now := past.Watched(h, c); now != past {
			past, k.past[p] = now, now
		}
		need := seal.Look(h, c, past)
		if need.Reason != seal.None {
			targets = append(targets, seal.Target{Head: *h, Need: need})
		} else if need.Due > 0 && (due == 0 || need.Due < due) {
			due = need.Due
		}
	}
	sort.SliceStable(targets, func(i, j int) bool {
		return urgency[targets[i].Need.Reason] < urgency[targets[j].Need.Reason]
	})
	return targets, due
}

// record remembers what became of a target.
func (k *controller) record(o seal.Outcome, now time.Time) {
	p, old := o.Target.Head.Partition, o.Target.Head.Open
	log := k.log.With("partition", p.String(), "reason", string(o.Target.Need.Reason))
	switch o.Result {
	case seal.Opened:
		k.past[p] = k.past[p].Moved(k.watch.at(now), o.Target.Need.Reason, old, &o.Segment)
		k.moved[p] = o.Revision
		k.figures.openings.WithLabelValues(string(o.Target.Need.Reason)).Inc()
		if old != nil && old.Leader != o.Segment.Leader {
			k.figures.failovers.Inc()
		}
		log.Info("segment opened", "segment", o.Segment.ID, "number", o.Segment.Number, "base", o.Segment.Base.String(),
			"leader", o.Segment.LeaderNode(), "replicas", len(o.Segment.Replicas))
	case seal.Changed:
		log.Info("somebody else changed the head")
		k.past[p] = k.past[p].Failed(k.watch.at(now))
	case seal.Waiting:
		past := k.past[p]
		if past.Tries == 0 {
			log.Info("the partition waits", "why", o.Err)
		} else {
			log.Debug("the partition still waits", "why", o.Err, "tries", past.Tries)
		}
		k.past[p] = past.Failed(k.watch.at(now))
	}
}

// waiting counts the partitions whose last try opened nothing.
func (k *controller) waiting() (n int) {
	for _, past := range k.past {
		if past.Tries > 0 {
			n++
		}
	}
	return n
}
