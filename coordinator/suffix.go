package coordinator

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/repair"
	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/mq"
)

// suffixLate is how long after its opening a partition is still taken for one that may not serve yet, if its leader
// does not say so itself.
const suffixLate = 10 * time.Second

// suffixes has the last sealed segments of partitions copied at once that can't be served without: the new leader brings
// the end of that segment to a quorum first (replication.md step 6), and fewer than a quorum of its replicas live.
// Waiting until they are taken for lost, as the repair of other sealed segments does, would take a minute.
func (k *controller) suffixes(ctx context.Context, heads []mq.Head, c *seal.Cluster) {
	var nodes *repair.Cluster
	for i := range heads {
		h := &heads[i]
		if !k.mayWait(h, c) || living(h.Last, c) >= h.Last.Quorum || living(h.Last, c) == 0 {
			continue
		}
		if nodes == nil {
			nodes = k.takers(c)
		}
		if err := k.copyAtOnce(ctx, h.Last, nodes, c); err != nil {
			k.log.Warn("the last segment could not be given another holder", "partition", h.Partition, "err", err)
		}
	}
}

// mayWait says whether the leader of a partition may be waiting for the last segment's end to be on a quorum.
func (k *controller) mayWait(h *mq.Head, c *seal.Cluster) bool {
	if h.Open == nil || h.Last == nil || h.Last.Base == h.Last.DataEnd() {
		return false
	}
	past := k.past[h.Partition]
	return c.Opening[h.Open.ID] || past.Segment == h.Open.ID && past.Opened != 0 && c.Now-past.Opened < int64(suffixLate)
}

// living counts the holders of a segment that are registered and answer.
func living(s *mq.Segment, c *seal.Cluster) (n int) {
	for _, r := range s.Holders() {
		if _, ok := c.Alive[r.Store]; ok && !c.Suspect[r.Store] {
			n++
		}
	}
	return n
}

// takers are the nodes that can take copies now.
func (k *controller) takers(c *seal.Cluster) *repair.Cluster {
	out := &repair.Cluster{Alive: map[mq.StoreID]repair.Node{}, Lost: map[mq.StoreID]bool{}}
	for store, p := range k.book.nodes {
		if p.live && !p.Draining && !p.Full && !p.Stopping && !c.Suspect[store] {
			out.Alive[store] = repair.Node{Replica: mq.Replica{Store: store, Node: p.Name}, Zone: p.Zone}
		}
	}
	return out
}

// copyAtOnce names the nodes that copy the segment, one for each holder that lacks to a quorum. Who is lost leaves the
// list as elsewhere, when the copies are whole.
func (k *controller) copyAtOnce(ctx context.Context, s *mq.Segment, nodes *repair.Cluster, c *seal.Cluster) error {
	return k.store.ChangeReplicas(ctx, s.Partition, s.ID, s.Number, func(now *mq.Segment) bool {
		changed := false
		for n := living(now, c); n < now.Quorum; n++ {
			taker, ok := repair.Choose(now, nodes)
			if !ok {
				break
			}
			now.Adding = append(now.Adding, taker.Replica)
			changed = true
			k.log.Info("the last segment is copied at once: its partition waits for it", "segment", now.ID,
				"partition", now.Partition, "node", taker.Node)
		}
		return changed
	})
}
