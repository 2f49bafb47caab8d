package seal

import (
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Blamed are the replicas of an open segment that live and do not do their part, by the word of its leader: followers that
// are late, or that it does not hear. Where so many are silent that nothing is committed, it is the leader that is cut
// off, as everybody here answers.
func Blamed(h *mq.Head, c *Cluster) []mq.StoreID {
	s := h.Open
	if s == nil || len(c.Behind[s.ID]) == 0 {
		return nil
	}
	living := 0
	var behind []mq.StoreID
	for _, r := range s.Replicas {
		if _, ok := c.Alive[r.Store]; !ok || c.Suspect[r.Store] {
			continue
		}
		living++
		if r.Store != s.Leader.Store && slices.Contains(c.Behind[s.ID], r.Store) {
			behind = append(behind, r.Store)
		}
	}
	if len(behind) > 0 && living >= s.Quorum && living-len(behind) < s.Quorum {
		return []mq.StoreID{s.Leader.Store}
	}
	return behind
}

func notBlamed(stores, blamed []mq.StoreID) []mq.StoreID {
	return slices.DeleteFunc(slices.Clone(stores), func(s mq.StoreID) bool { return slices.Contains(blamed, s) })
}

// sealed are the replicas that sealed their copy of a segment.
func sealed(s *mq.Segment, answers map[mq.StoreID]Answer) (out []mq.StoreID) {
	for _, r := range s.Replicas {
		if a := answers[r.Store]; a.Known && a.Sealed {
			out = append(out, r.Store)
		}
	}
	return out
}

// replaceable says whether a segment without those that are to blame is better off: another node takes their place, or it
// can commit again.
func replaceable(h *mq.Head, c *Cluster) bool {
	blamed := Blamed(h, c)
	if len(blamed) == 0 {
		return false
	}
	others := c.room(h)
	for _, b := range blamed {
		if !c.Avoided[b] {
			others--
		}
	}
	if slices.Contains(blamed, h.Open.Leader.Store) {
		return others >= h.Quorum
	}
	living := 0
	for _, r := range h.Open.Replicas {
		if _, ok := c.Alive[r.Store]; ok && !slices.Contains(blamed, r.Store) {
			living++
		}
	}
	return living < min(h.Replicas, others)
}
