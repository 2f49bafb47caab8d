// Package repair decides, from state alone, who should hold a sealed segment when nodes are lost for good, or were away when
// it began. It is pure: the coordinator gives it what etcd and the reports say, and carries out the change as one transaction.
//
// A node that is lost is first joined by a node that copies the segment (mq.Segment.Adding), and leaves the
// list only when a quorum of others are known to be whole: until then whatever it holds may be all that is left, should it come back.
package repair

import (
	"cmp"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Node is a node that could hold a copy.
type Node struct {
	mq.Replica
	Zone string
	Load int // segments that it holds or is to hold
}

// Cluster is what the controller knows at one moment.
type Cluster struct {
	// Alive are the registered nodes that may take segments.
	Alive map[mq.StoreID]Node
	// Lost are stores that have been away for so long that they are not waited for, or that are to be emptied.
	Lost map[mq.StoreID]bool
	// Leaving are those of Lost that are to be emptied and answer: what they hold can be copied from them.
	Leaving map[mq.StoreID]bool
	// Away are stores that are not registered now. Until they are lost they keep their place, although another one copied the
	// segment meanwhile: theirs may be whole, and those of the holders that are left may not be.
	Away map[mq.StoreID]bool
	// Copied says which stores report which segments as whole. All holders of a segment that somebody copies do, or from which
	// somebody is to leave.
	Copied map[mq.StoreID]map[mq.SegmentID]bool
}

// Next is what a sealed segment's holders should become, of which there should be want, or as many as it has if those are more;
// false if nothing is to be changed now. A segment that began while nodes were away has fewer. The result shares
// nothing with s. It changes one thing at a time: the next look does the next.
//
// Nobody is let go, whether it is listed or was only to copy, unless a quorum of the other holders say now that they have the segment whole
// (spared): that it is lost, or not needed, says nothing of what it has.
func Next(s *mq.Segment, want int, c *Cluster) (replicas, adding []mq.Replica, changed bool) {
	replicas, adding = slices.Clone(s.Replicas), slices.Clone(s.Adding)
	lost := slices.IndexFunc(replicas, func(r mq.Replica) bool { return c.Lost[r.Store] && !c.Leaving[r.Store] })
	if lost < 0 { // what lies on a node that is to be emptied can be read as long as it is listed
		lost = slices.IndexFunc(replicas, func(r mq.Replica) bool { return c.Lost[r.Store] })
	}
	away := slices.ContainsFunc(replicas, func(r mq.Replica) bool { return c.Away[r.Store] && !c.Lost[r.Store] })
	coming := 0
	for i, a := range adding {
		copied := c.Copied[a.Store][s.ID]
		switch {
		case c.Lost[a.Store], lost < 0 && !away && !copied && len(replicas)+coming >= want: // it will not come, or is not needed any more
			if c.spared(s, a.Store) {
				return replicas, slices.Delete(adding, i, i+1), true
			}
		case copied && lost >= 0:
			if c.spared(s, replicas[lost].Store) {
				return append(slices.Delete(replicas, lost, lost+1), a), slices.Delete(adding, i, i+1), true
			}
		case copied && (!away || len(replicas) < want):
			return append(replicas, a), slices.Delete(adding, i, i+1), true
		}
		if !c.Lost[a.Store] {
			coming++
		}
	}
	leaving := slices.IndexFunc(replicas, func(r mq.Replica) bool { return c.Leaving[r.Store] })
	if leaving >= 0 && c.whole(s, replicas) >= max(1, s.Quorum, min(want, len(c.Alive))) {
		return slices.Delete(replicas, leaving, leaving+1), adding, true
	}
	gone, survivor := 0, false
	for _, r := range replicas {
		if c.Lost[r.Store] {
			gone++
		}
		survivor = survivor || !c.Lost[r.Store] || c.Leaving[r.Store]
	}
	lacking := max(want, len(replicas)) - (len(replicas) - gone)
	if lacking <= coming || !survivor { // without a survivor there is nothing to copy from
		return replicas, adding, false
	}
	n, ok := Choose(s, c)
	if !ok {
		return replicas, adding, false
	}
	return replicas, append(adding, n.Replica), true
}

// spared says whether a holder can be let go: a quorum of the others answer, and say that they have all of the segment.
func (c *Cluster) spared(s *mq.Segment, store mq.StoreID) bool {
	n := 0
	for _, r := range s.Holders() {
		answers := !c.Away[r.Store] && (!c.Lost[r.Store] || c.Leaving[r.Store])
		if r.Store != store && answers && c.Copied[r.Store][s.ID] {
			n++
		}
	}
	return n >= max(1, s.Quorum)
}

// whole counts the replicas that stay and say that they have all of the segment.
func (c *Cluster) whole(s *mq.Segment, replicas []mq.Replica) (n int) {
	for _, r := range replicas {
		if _, stays := c.Alive[r.Store]; stays && c.Copied[r.Store][s.ID] {
			n++
		}
	}
	return n
}

// Join chooses up to n nodes, one after the other as Choose does, that should copy a segment to become replicas of it.
func Join(s *mq.Segment, n int, c *Cluster) (adding []mq.Replica) {
	with := *s
	for ; n > 0; n-- {
		x, ok := Choose(&with, c)
		if !ok {
			break
		}
		adding = append(adding, x.Replica)
		with.Adding = append(slices.Clone(s.Adding), adding...)
	}
	return adding
}

// Choose is the living node with the least load that does not hold the segment, in a zone of its own if there is one;
// false if there is none.
func Choose(s *mq.Segment, c *Cluster) (Node, bool) {
	zones := map[string]bool{}
	for _, r := range append(slices.Clone(s.Replicas), s.Adding...) {
		if n, ok := c.Alive[r.Store]; ok && n.Zone != "" {
			zones[n.Zone] = true
		}
	}
	var free []Node
	for id, n := range c.Alive {
		if !s.Holds(id) && !c.Lost[id] {
			free = append(free, n)
		}
	}
	if len(free) == 0 {
		return Node{}, false
	}
	taken := func(n Node) int {
		if zones[n.Zone] {
			return 1
		}
		return 0
	}
	return slices.MinFunc(free, func(a, b Node) int {
		return cmp.Or(cmp.Compare(taken(a), taken(b)), cmp.Compare(a.Load, b.Load), cmp.Compare(a.Store, b.Store))
	}), true
}
