package seal

import (
	"slices"

	"github.com/splashdam/splashdam/coordinator/internal/placement"
	"github.com/splashdam/splashdam/shared/mq"
)

// atEnd are the stores whose tail is the end, or that are intact up to it if it was forced and there is no other.
func atEnd(seg *mq.Segment, end mq.Position, answers map[mq.StoreID]Answer, forced bool) []mq.StoreID {
	var whole, damaged []mq.StoreID
	for _, r := range seg.Replicas {
		switch a := answers[r.Store]; {
		case a.Tail != end:
		case a.Known && a.Sealed:
			whole = append(whole, r.Store)
		case a.Damaged:
			damaged = append(damaged, r.Store)
		}
	}
	if forced && len(whole) == 0 {
		return damaged
	}
	return whole
}

// Taker is a node that answered just now under the incarnation that /nodes has.
type Taker struct {
	placement.Node
	Incarnation mq.Incarnation
}

// Plan is the next segment of a partition, without an id yet, after the open one ended at end (ignored when there is
// none). ok is false if too few takers are left. blamed, which are not among the takers, do not lead.
func Plan(h *mq.Head, end mq.Position, answers map[mq.StoreID]Answer, takers []Taker, prefer mq.StoreID, force *Force, blamed ...mq.StoreID) (next mq.Segment, chosen placement.Choice, ok bool) {
	r := placement.Request{Partition: h.Partition, Replicas: h.Replicas, Quorum: h.Quorum}
	for _, t := range takers {
		r.Nodes = append(r.Nodes, t.Node)
	}
	next = mq.Segment{Partition: h.Partition, Number: max(1, h.Next), Quorum: h.Quorum}
	if h.Last != nil {
		next.Base = h.Last.End
	}
	if h.Open != nil {
		_, enough := End(h.Open, answers)
		short := force != nil && !enough
		if next.Base = end; short { // what was given beyond the end is not known (R6)
			next.Base = mq.Position{Offset: end.Offset + mq.HoleJump}
		}
		r.AtEnd = atEnd(h.Open, end, answers, short)
		if r.AtEnd = notBlamed(r.AtEnd, blamed); len(r.AtEnd) == 0 && len(blamed) > 0 {
			// Only who is cut off has the end. Who leads next copies it from there, or finds that it was never acknowledged.
			r.AtEnd = notBlamed(sealed(h.Open, answers), blamed)
		}
		if len(r.AtEnd) == 0 && !(short && end == h.Open.Base) { // with nothing left anybody may lead
			return next, nil, false
		}
		if have := leaders(takers, r.AtEnd, true); !short && len(have) > 0 && len(leaders(takers, have, false)) == 0 {
			// Who has the end is to be emptied, full, slow or by a wrong clock, and answers: another replica can copy it from there.
			if others := leaders(takers, notBlamed(sealed(h.Open, answers), blamed), false); len(others) > 0 {
				r.AtEnd = others
			}
		}
		if slices.Contains(r.AtEnd, prefer) && slices.ContainsFunc(takers, func(t Taker) bool { return t.Store == prefer }) {
			r.AtEnd = []mq.StoreID{prefer}
		}
		for _, x := range h.Open.Replicas {
			r.Old = append(r.Old, x.Store)
		}
		if a, ok := answers[h.Open.Leader.Store]; ok && a.Node == h.Open.Leader {
			r.Keep = h.Open.Leader.Store // a live leader keeps its state over a roll
		}
	}
	chosen = placement.Choose(r)
	if chosen == nil {
		return next, nil, false
	}
	next.Leader = takers[chosen[0]].Incarnation
	for _, i := range chosen {
		next.Replicas = append(next.Replicas, mq.Replica{Store: takers[i].Store, Node: takers[i].Name})
	}
	return next, chosen, true
}

// leaders are those of some stores that are among the takers, with or without those that had better not lead.
func leaders(takers []Taker, stores []mq.StoreID, avoided bool) (out []mq.StoreID) {
	for _, t := range takers {
		if slices.Contains(stores, t.Store) && (avoided || t.Rank() == 0) {
			out = append(out, t.Store)
		}
	}
	return out
}

// Renewed is the head to go on with where the opening by an older one met that it had changed, if the open segment is still
// the same: repair changed who holds the last sealed segment, retention dropped some, or a loss was recorded. What was
// sealed for the older head stays sealed. The next segment is to be made again, by this head: nodes may remove one whose
// creation compared a revision that is over (R5).
func Renewed(old, now *mq.Head) (mq.Head, bool) {
	if old.Open == nil || now.Open == nil || now.Open.ID != old.Open.ID || now.Revision == old.Revision {
		return mq.Head{}, false
	}
	h := *now
	h.Replicas, h.Quorum = old.Replicas, old.Quorum // as the topic has them
	return h, true
}

// Chain is the head in which next follows the open segment, ended at end. An empty segment is replaced, not
// chained. displaced is the former last segment if another one took its place: it needs a key of its own. Where next
// does not begin at the end, because an operator forced that, the range between is recorded as a hole.
func Chain(h mq.Head, end mq.Position, next mq.Segment, force *Force) (head mq.Head, displaced *mq.Segment) {
	head = h
	if h.Open != nil && h.Open.Base != end {
		sealed := *h.Open
		sealed.Sealed, sealed.End = true, end
		head.Last, displaced = &sealed, h.Last
	}
	if force != nil && h.Open != nil && end.Before(next.Base) {
		head.Holes = append(slices.Clone(h.Holes), mq.Hole{From: end, To: next.Base, Segment: h.Open.ID, At: force.At,
			By: force.By, Node: force.Node})
	}
	head.Open, head.Next = &next, next.Number+1
	return head, displaced
}
