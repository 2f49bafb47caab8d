package coordinator

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/repair"
	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/mq"
)

// suffixes has the last sealed segments of partitions copied at once that can't be served without (seal.LacksCopies).
func (k *controller) suffixes(ctx context.Context, heads []mq.Head, c *seal.Cluster) {
	var nodes *repair.Cluster
	for i := range heads {
		h := &heads[i]
		if seal.LacksCopies(h, c, k.past[h.Partition]) == 0 {
			continue
		}
		if nodes == nil {
			nodes = k.takers(c)
		}
		if err := k.copyAtOnce(ctx, h.Last, nodes, c); err != nil {
			k.lookBy(time.Now().Add(idle))
			k.log.Warn("the last segment could not be given another holder", "partition", h.Partition, "err", err)
		}
	}
}

// takers are the nodes that can take copies now.
func (k *controller) takers(c *seal.Cluster) *repair.Cluster {
	out := &repair.Cluster{Alive: map[mq.StoreID]repair.Node{}, Lost: map[mq.StoreID]bool{}}
	for store, p := range k.book.nodes {
		if p.live && p.Takes() && !c.Suspect[store] {
			out.Alive[store] = repair.Node{Replica: mq.Replica{Store: store, Node: p.Name}, Zone: p.Zone}
		}
	}
	return out
}

// copyAtOnce names the nodes that copy the segment, one for each holder that lacks to a quorum. Who is lost leaves the
// list as elsewhere, when the copies are whole.
func (k *controller) copyAtOnce(ctx context.Context, s *mq.Segment, nodes *repair.Cluster, c *seal.Cluster) error {
	return k.store.ChangeReplicas(ctx, s.Partition, s.ID, s.Number, func(now *mq.Segment) bool {
		takers := repair.Join(now, now.Quorum-c.Living(now), nodes)
		for _, t := range takers {
			k.log.Info("the last segment is copied at once: its partition waits for it", "segment", now.ID,
				"partition", now.Partition, "node", t.Node)
		}
		now.Adding = append(now.Adding, takers...)
		return len(takers) > 0
	})
}
