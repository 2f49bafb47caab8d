package simulate

import (
	"slices"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/repair"
	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	repairEvery = 5 * time.Second
	// repairAfter is how long a holder is away until it is taken for lost; an hour of patience would be simulated for
	// nothing.
	repairAfter = 20 * time.Second
)

// suffixes is that of coordinator/suffix.go.
func (k *Controller) suffixes(heads []mq.Head, c *seal.Cluster) {
	for i := range heads {
		if h := &heads[i]; seal.LacksCopies(h, c, k.past[h.Partition]) > 0 {
			nodes := &repair.Cluster{Alive: k.takers(c)}
			k.host.ChangeReplicas(h.Partition, h.Last.ID, func(now *mq.Segment) bool {
				takers := repair.Join(now, now.Quorum-c.Living(now), nodes)
				now.Adding = append(slices.Clone(now.Adding), takers...)
				return len(takers) > 0
			})
		}
	}
}

func (k *Controller) takers(c *seal.Cluster) map[mq.StoreID]repair.Node {
	out := map[mq.StoreID]repair.Node{}
	for store, p := range k.book {
		if p.live && !c.Suspect[store] {
			out[store] = repair.Node{Replica: mq.Replica{Store: store, Node: p.Name}, Zone: p.Zone}
		}
	}
	return out
}

// repairs is the look of coordinator/repair.go, at the last sealed segments.
func (k *Controller) repairs(v View) {
	now := k.host.Now()
	if now-k.repaired < int64(repairEvery) {
		return
	}
	k.repaired = now
	c := &repair.Cluster{Alive: k.takers(&seal.Cluster{}), Lost: map[mq.StoreID]bool{}, Away: map[mq.StoreID]bool{}, Copied: v.Copied}
	for i := range v.Heads {
		last := v.Heads[i].Last
		if last == nil {
			continue
		}
		for _, r := range last.Holders() {
			if _, ok := c.Alive[r.Store]; ok {
				delete(k.away, r.Store)
				continue
			}
			if k.away[r.Store] == 0 {
				k.away[r.Store] = now
			}
			c.Away[r.Store] = true
			c.Lost[r.Store] = now-k.away[r.Store] >= int64(repairAfter)
		}
		if _, _, changed := repair.Next(last, v.Heads[i].Replicas, c); changed {
			k.host.ChangeReplicas(last.Partition, last.ID, func(now *mq.Segment) (changed bool) {
				now.Replicas, now.Adding, changed = repair.Next(now, v.Heads[i].Replicas, c)
				return changed
			})
		}
	}
}
