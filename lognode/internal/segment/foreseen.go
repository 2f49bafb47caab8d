package segment

import "github.com/splashdam/splashdam/shared/mq"

// Foreseen is the chain of a partition, read while the next segment was being made. The opening of that segment compares the
// revision that was read, so if etcd names it, nothing came in between and the rest follows from the head that says so: its leader
// need not read the chain again, which it could not while the coordinators are away. Nothing of safety rests on how new a head is: a
// leader whose segment was sealed meanwhile commits nothing, as one that was told so a moment after it had read.
type Foreseen struct {
	Next   mq.SegmentID // the segment that was being made
	Sealed []mq.Segment // as it was read, in order
}

// Foresee keeps a chain that was read with its head, while next was made for an opening that compares a revision, or after it was
// opened; nil if the head has another one: then that opening fails.
func Foresee(next *mq.Segment, compared int64, head *mq.Head, sealed []mq.Segment) *Foreseen {
	if head.Revision != compared && (head.Open == nil || head.Open.ID != next.ID) {
		return nil
	}
	return &Foreseen{Next: next.ID, Sealed: sealed}
}

// Under is the chain under a head, in order: what is sealed before the segment that is open. ok is false if the head is about another
// segment, or the two do not go together.
func (f *Foreseen) Under(h *mq.Head) (sealed []mq.Segment, ok bool) {
	if f == nil || h.Open == nil || h.Open.ID != f.Next {
		return nil, false
	}
	for i := range f.Sealed {
		if s := &f.Sealed[i]; s.Number >= h.Oldest && (h.Last == nil || s.Number < h.Last.Number) {
			sealed = append(sealed, *s)
		}
	}
	if h.Last != nil {
		sealed = append(sealed, *h.Last)
	}
	return sealed, h.CheckChain(sealed) == nil
}
