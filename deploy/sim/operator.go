package sim

import (
	coordinator "github.com/splashdam/splashdam/coordinator/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// operator is who forces partitions, by name.
const operator = "operator"

// forcePatience is how long after the faults an operator waits for a partition before giving up what it lacks.
const forcePatience = 15 * second

// force sets an operator's wish for a partition's open segment: with whichever replicas answer, or a named one; with
// empty also if none does.
func (s *Sim) force(p mq.PartitionID, store mq.StoreID, empty bool) {
	h := s.etcd.find(p)
	if h.Open == nil {
		return
	}
	s.trace("an operator forces partition %d, segment %d, with %q", p.Number, h.Open.ID, store)
	s.etcd.forces[p] = force{h.Open.ID, coordinator.Force{Store: store, Empty: empty, By: operator}}
	s.etcd.changed()
}

// operate watches, after faults that took away what nobody else has, or because of which nobody can say what others had, for partitions that
// do not come back, and forces them.
func (s *Sim) operate() {
	s.in(5*second, nil, s.operate)
	if s.now < s.Chaos*second+forcePatience {
		return
	}
	for i := range s.etcd.heads {
		h := &s.etcd.heads[i]
		if h.Open == nil || !s.beyond && !s.undecided(h.Partition) {
			continue
		}
		n := s.byName(h.Open.LeaderNode())
		if n.run == nil {
			continue
		}
		for _, g := range s.groups {
			if f, ok := n.run.Figures(h.Partition, g.ID); !ok || f.Lag > 0 {
				s.force(h.Partition, "", true)
				break
			}
		}
		for _, seg := range s.etcd.chain(h.Partition) { // the cluster says what can't be read any more
			if s.left(&seg).Before(seg.DataEnd()) {
				s.force(h.Partition, "", true)
				break
			}
		}
	}
}
