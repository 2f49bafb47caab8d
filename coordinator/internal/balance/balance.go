// Package balance decides which partitions should be led elsewhere so that nodes lead about equally many. It is
// pure. After a failure the survivors lead everything; when the node is back, leaders move to it a few at a time.
package balance

import (
	"cmp"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Partition is one partition that may move: its leader and the replicas that may lead, the leader among them.
type Partition struct {
	ID       mq.PartitionID
	Leader   mq.StoreID
	Replicas []mq.StoreID
}

// Moves answers at most limit partitions with their new leaders. Each makes the difference between two nodes
// smaller: a partition moves only to a replica that leads at least two fewer than its leader, so that what is even
// within one stays as it is and nothing moves to and fro.
func Moves(partitions []Partition, limit int) map[mq.PartitionID]mq.StoreID {
	leads := map[mq.StoreID]int{}
	for _, p := range partitions {
		for _, r := range p.Replicas {
			leads[r] += 0
		}
		leads[p.Leader]++
	}
	order := slices.Clone(partitions)
	slices.SortFunc(order, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.ID.Topic, b.ID.Topic), cmp.Compare(a.ID.Number, b.ID.Number))
	})
	out := map[mq.PartitionID]mq.StoreID{}
	for len(out) < limit {
		var best *Partition
		var to mq.StoreID
		gain := 1
		for i := range order {
			p := &order[i]
			if _, moves := out[p.ID]; moves {
				continue
			}
			for _, r := range p.Replicas {
				if g := leads[p.Leader] - leads[r]; g > gain {
					best, to, gain = p, r, g
				}
			}
		}
		if best == nil {
			break
		}
		leads[best.Leader]--
		leads[to]++
		out[best.ID] = to
	}
	return out
}
