package coordinator

import (
	"context"
	"slices"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/balance"
	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/mq"
)

// balanceEvery is how often leaders are spread evenly again, balanceMoves how many move at a time: each costs its
// partition a gap of some ten milliseconds.
const (
	balanceEvery = 10 * time.Second
	balanceMoves = 8
)

// wishes fills in which partitions another replica should lead: what operators asked for, and now and then what
// spreads leaders evenly while nothing else is to be done.
func (k *controller) wishes(ctx context.Context, heads []mq.Head, c *seal.Cluster) {
	open := make(map[mq.PartitionID]*mq.Segment, len(heads))
	for i := range heads {
		open[heads[i].Partition] = heads[i].Open
	}
	for p, m := range k.view.Moves() {
		k.lookBy(time.Now().Add(idle)) // until it is over and forgotten
		if s := open[p]; s != nil && s.ID == m.Segment && s.Leader.Store != m.To {
			c.Prefer[p] = m.To
		} else if s == nil || s.ID > m.Segment { // over: the segment was sealed
			if err := k.store.ForgetMove(ctx, p); err != nil {
				k.log.Debug("a move that is over could not be forgotten", "partition", p, "err", err)
			}
		}
	}
	k.forces(ctx, open, c)
	now := time.Now()
	switch next := k.balanced.Add(balanceEvery); {
	case c.Stormy:
		k.lookBy(k.calm)
		return
	case now.Before(next):
		k.lookBy(next)
		return
	case len(c.Prefer) > 0: // then a look is due soon
		return
	}
	k.balanced = now
	for p, to := range balance.Moves(k.leads(heads, c), balanceMoves) {
		c.Prefer[p] = to
		k.lookBy(now.Add(balanceEvery)) // for those that come next
	}
}

// leads are the partitions that may be moved without a need: their replicas are all there and not suspected. Who asks
// to be rid of what it leads, or is to be, is given none.
func (k *controller) leads(heads []mq.Head, c *seal.Cluster) []balance.Partition {
	var out []balance.Partition
	for i := range heads {
		s := heads[i].Open
		if s == nil || seal.Degraded(&heads[i], c) || k.past[heads[i].Partition].Tries > 0 {
			return nil // the cluster is not whole: it has other worries
		}
		p := balance.Partition{ID: heads[i].Partition, Leader: s.Leader.Store}
		for _, r := range s.Replicas {
			if page := k.book.nodes[r.Store]; page.candidate(load{}).Rank() == 0 && !c.Suspect[r.Store] {
				p.Replicas = append(p.Replicas, r.Store)
			}
		}
		if slices.Contains(p.Replicas, p.Leader) {
			out = append(out, p)
		}
	}
	return out
}

// forces fills in which partitions an operator forces, and forgets the wishes that are over.
func (k *controller) forces(ctx context.Context, open map[mq.PartitionID]*mq.Segment, c *seal.Cluster) {
	for p, f := range k.view.Forces() {
		k.lookBy(time.Now().Add(idle)) // it ends with time, too
		s, known := open[p]
		switch {
		case s != nil && f.Stands(s.ID) && f.Served: // its leader's
		case s != nil && f.Stands(s.ID):
			c.Forced[p] = &seal.Force{Store: f.Store, Node: f.Node, Empty: f.Empty, By: f.By, At: f.At}
		case !known || s == nil || s.ID > f.Segment:
			if err := k.store.ForgetForce(ctx, p); err != nil {
				k.log.Debug("a force that is over could not be forgotten", "partition", p, "err", err)
			}
		}
	}
}
