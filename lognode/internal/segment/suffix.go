package segment

import (
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Found is what one holder of a sealed segment answered about its copy; the zero value is a holder that did not answer,
// or answered that it does not know the segment (R3: never an empty tail).
type Found struct {
	Tail  mq.Position
	Known bool
	// Damaged: it is not known, as something that it had is broken or missing, but intact up to Tail. That says nothing of
	// what it had.
	Damaged bool
	// Remade: a repair made the copy anew, from others. What it has counts, what it lacks says nothing: whatever it
	// acknowledged before is gone with its former copy.
	Remade bool
	// Entries is how many it has, and Sum the sum of their CRCs; 0 where that is not known.
	Entries, Sum uint64
}

// Whole says whether the copy has everything up to an end.
func (f Found) Whole(end mq.Position) bool { return (f.Known || f.Damaged) && !f.Tail.Before(end) }

// Spread is what a new leader has to do about the last sealed segment before it may serve (replication.md step 6): how many
// more copies must become whole, and which of the holders, by their place in found, can be given what they lack. found
// are all holders in the order of s.Holders(): one that copies the segment to become a replica counts as soon as it
// is whole, because the end is decided. A store that was fenced by a later leader (mq.Named)
// does not answer: otherwise a range that is spread here could be recorded as lost there.
func Spread(s *mq.Segment, found []Found) (lacking int, behind []int) {
	lacking = s.Quorum
	if s.Base == s.DataEnd() {
		return 0, nil
	}
	for i, f := range found {
		switch {
		case f.Whole(s.DataEnd()):
			lacking--
		case f.Known:
			behind = append(behind, i)
		}
	}
	return max(0, lacking), behind
}

// Force is an operator's word, which stands now, that a partition goes on with what is left of it.
type Force struct {
	Store mq.StoreID // must be among those that answer; "" for none in particular
	Empty bool       // also if nobody answers
}

// Lost judges how much of a sealed segment is left, if the rest may be recorded as lost (rule R6). found are what all
// holders in the order of s.Holders() answered after each had sealed its copy and refused, for good, all leaders before
// the one that asks. A damaged one counts only for an operator, who goes on with what is intact. below is false if nothing
// is lost. forced says that it is so only because of the operator's word (nil if there is none). An error says why
// nothing may be recorded.
//
// A range below the end that all but fewer than q holders lack was never acknowledged and never served: either takes q
// holders, and one of them would have answered. Nothing can change that behind the answers: they are given after the
// copy was sealed for the leader that wrote it, and refused to those before this one, who could have spread the range.
func Lost(s *mq.Segment, found []Found, force *Force) (held mq.Position, below, forced bool, err error) {
	all := s.Holders()
	held = s.Base
	intact := held // of damaged copies too
	missing, left, named := 0, 0, force != nil && force.Store == ""
	for i, f := range found {
		if f.Known || f.Damaged {
			left++
			named = named || force != nil && all[i].Store == force.Store
			if intact.Before(f.Tail) {
				intact = f.Tail
			}
		}
		if (!f.Known || f.Remade) && !f.Whole(s.DataEnd()) {
			missing++
		}
		if (f.Known || f.Whole(s.DataEnd())) && held.Before(f.Tail) {
			held = f.Tail
		}
	}
	switch {
	case !held.Before(s.DataEnd()):
		return s.DataEnd(), false, false, nil
	case missing < s.Quorum:
		return held, true, false, nil
	case named && (left > 0 || force.Empty):
		return intact, true, true, nil
	}
	return held, false, false, fmt.Errorf("%d of the %d holders of segment %d do not answer, or have lost what they had", missing, len(all), s.ID)
}

// AsHeld is a chain for those who read it: a segment of which a range is lost ends where its entries do. It shares nothing
// that changes with chain.
func AsHeld(chain []mq.Segment) []mq.Segment {
	out := slices.Clone(chain)
	for i := range out {
		out[i].End, out[i].Held = out[i].DataEnd(), nil
	}
	return out
}

// Gaps tells the offsets that are recorded as lost before the open segment's base: what lies between the entries of the
// segments of a chain, and all that there was if the chain is empty. It also tells gaps of no offsets.
func Gaps(chain []mq.Segment, base mq.Position, tell func(from, to uint64)) {
	if len(chain) == 0 {
		tell(0, base.Offset)
	}
	for i := range chain {
		next := base
		if i+1 < len(chain) {
			next = chain[i+1].Base
		}
		tell(chain[i].DataEnd().Offset, next.Offset)
	}
}

// GapBefore tells the offsets that are recorded as lost right before the first segment of a chain: no segment is there that they would
// lie behind (Gaps). What retention removed before it is none of them.
func GapBefore(chain []mq.Segment, holes []mq.Hole, tell func(from, to uint64)) {
	for _, h := range holes {
		if len(chain) > 0 && h.To == chain[0].Base {
			tell(h.From.Offset, h.To.Offset)
		}
	}
}

// GivenUp says whether an operator gave something up that ends behind a position. Somebody may know of it, though nobody here does.
func GivenUp(holes []mq.Hole, behind mq.Position) bool {
	return slices.ContainsFunc(holes, func(h mq.Hole) bool { return h.By != "" && behind.Before(h.To) })
}

// EndIn is where a segment ended, according to a head that has another open one; nil if the head is so new that it does
// not say.
func EndIn(h *mq.Head, s *mq.Segment) *mq.Position {
	switch {
	case h.Last != nil && h.Last.ID == s.ID:
		return &h.Last.End
	case h.Open != nil && h.Open.Base == s.Base: // it was empty, and replaced
		return &h.Open.Base
	}
	return nil
}

// Rolls says whether the state of a leader that serves, and everybody who waits for it, can go over to the open segment
// of a newer head, which its node leads too: nothing was lost in between, and nothing recorded as lost but what it knows, its
// holes. fresh says whether the node's copy of that segment can be led.
func (l *Leader) Rolls(h *mq.Head, holes []mq.Hole, fresh bool) bool {
	end := EndIn(h, &l.seg)
	return fresh && end != nil && *end == l.next && h.Open != nil && h.Open.Base == *end && !Lacks(holes, h)
}

// Lacks says whether a head has a hole that the state of a leader which was loaded with these holes does not know: it may have
// messages there, and requests that wait for them, which must not be answered as if they were kept. It has to be loaded anew.
func Lacks(holes []mq.Hole, h *mq.Head) bool { return len(mq.NewHoles(holes, h.Holes)) > 0 }

// Fresh says whether a copy can begin to be led: one incarnation leads a segment once, so nothing may be in it, and no
// seal may have come before.
func (r *Replica) Fresh() bool { return !r.sealing && r.queued == r.seg.Base }
