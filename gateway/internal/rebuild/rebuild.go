// Package rebuild makes the chains of partitions out of what log nodes hold of their segments, for a cluster whose
// metadata was lost (replication rule R7). It is pure: the gateway brings what the nodes say, and writes what comes out.
//
// A segment that has an entry anywhere was once open and named: nobody takes entries for another one. So the chain is the
// segments that have some, in the order of their numbers. Each must begin where the one before ended; what does not join the
// newest ones by that rule was removed by retention, or is lost.
package rebuild

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Holding is what one node says of its copy of a segment.
type Holding struct {
	Holder  mq.Replica
	Segment mq.Segment   // the creation record
	Tail    mq.Position  // how far the copy is intact
	End     *mq.Position // the decided end, if the node knows it
	Damaged bool
}

// Chain is what was found of one partition.
type Chain struct {
	Head   mq.Head
	Sealed []mq.Segment // those that have a key of their own, oldest first
	// LeftOut are segments that have entries and do not join the rest of the chain.
	LeftOut []mq.Segment
	// Lost says what is known to be missing, in words.
	Lost []string
}

// segment is what all holders together know of one segment.
type segment struct {
	mq.Segment
	tail    mq.Position
	end     *mq.Position
	holders []mq.Replica
}

// Chains makes the chain of each partition. named is the highest segment number that any node saw of a partition; known are heads
// that are remembered for their holes.
func Chains(holdings []Holding, named map[mq.PartitionID]uint64, known map[mq.PartitionID]mq.Head) []Chain {
	segments := map[mq.PartitionID]map[mq.SegmentID]*segment{}
	next := map[mq.PartitionID]uint64{}
	for _, h := range holdings {
		p := h.Segment.Partition
		next[p] = max(next[p], h.Segment.Number+1, named[p]+1)
		if segments[p] == nil {
			segments[p] = map[mq.SegmentID]*segment{}
		}
		s := segments[p][h.Segment.ID]
		if s == nil {
			s = &segment{Segment: h.Segment, tail: h.Segment.Base}
			s.Compared, s.Adding, s.Held, s.Sealed, s.End = 0, nil, nil, false, mq.Position{}
			segments[p][h.Segment.ID] = s
		}
		s.take(&h)
	}
	out := make([]Chain, 0, len(segments))
	for p, all := range segments {
		out = append(out, chain(p, all, next[p], known[p]))
	}
	slices.SortFunc(out, func(a, b Chain) int {
		return cmp.Or(cmp.Compare(a.Head.Partition.Topic, b.Head.Partition.Topic), cmp.Compare(a.Head.Partition.Number, b.Head.Partition.Number))
	})
	return out
}

func (s *segment) take(h *Holding) {
	if s.tail.Before(h.Tail) {
		s.tail = h.Tail
	}
	if h.End != nil {
		s.end = h.End
	}
	s.holders = append(s.holders, h.Holder)
}

// chain puts the segments of one partition in order.
func chain(p mq.PartitionID, all map[mq.SegmentID]*segment, next uint64, known mq.Head) Chain {
	var list []*segment
	var newest *segment // also if it is empty: it says how many replicas the topic has
	for _, s := range all {
		if newest == nil || newest.Number < s.Number || newest.Number == s.Number && newest.ID < s.ID {
			newest = s
		}
		if s.Base.Before(s.tail) || s.end != nil && s.Base.Before(*s.end) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *segment) int { return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.ID, b.ID)) })
	c := Chain{Head: mq.Head{Partition: p, Replicas: len(newest.Replicas), Quorum: newest.Quorum, Next: next}}
	for i := len(list) - 1; i >= 0; i-- {
		s := list[i]
		if i < len(list)-1 && !c.join(s, list[i+1], &known) {
			for _, out := range list[:i+1] {
				c.LeftOut = append(c.LeftOut, out.Segment)
			}
			list = list[i+1:]
			break
		}
	}
	if len(list) == 0 {
		return c
	}
	last := list[len(list)-1]
	for _, s := range list {
		s.Replicas = s.replicas()
		if s != last {
			c.Sealed = append(c.Sealed, s.Segment)
		}
	}
	c.close(last)
	if len(c.Sealed) > 0 || c.Head.Last != nil {
		c.Head.Oldest = list[0].Number
	}
	slices.SortFunc(c.Head.Holes, func(a, b mq.Hole) int { return a.From.Compare(b.From) })
	return c
}

// join decides where s ends, before the segment that follows it; false if they do not belong together.
func (c *Chain) join(s, after *segment, known *mq.Head) bool {
	end := after.Base
	switch {
	case s.end != nil:
		end = *s.end
	case s.tail.Before(after.Base): // nobody heard of the end: it is where the next one begins, or a gap begins at the tail
		if _, ok := holeFor(known, after.Base); ok || after.Base.Offset-s.tail.Offset == mq.HoleJump {
			end = s.tail
		}
	}
	if end != after.Base {
		hole, ok := holeFor(known, after.Base)
		if !ok && (end.Offset+mq.HoleJump != after.Base.Offset || after.Base.Seq != 0) {
			return false
		}
		if !ok {
			hole = mq.Hole{To: after.Base, Segment: s.ID, By: "unknown: metadata was rebuilt"}
		}
		hole.From = end // whoever answers now may hold more of it than was known, or less
		c.Head.Holes = append(c.Head.Holes, hole)
	}
	s.Sealed, s.End = true, end
	c.keepHeld(s, known)
	return true
}

// keepHeld takes over that a range below a segment's end was recorded as lost, and says if more is missing now.
func (c *Chain) keepHeld(s *segment, known *mq.Head) {
	for _, h := range known.Holes {
		if h.Segment == s.ID && h.To == s.End {
			held := h.From
			s.Held = &held
			c.Head.Holes = append(c.Head.Holes, h)
		}
	}
	if s.tail.Before(s.DataEnd()) {
		c.Lost = append(c.Lost, fmt.Sprintf("nobody that answers holds segment %d from %s to %s", s.ID, s.tail, s.DataEnd()))
	}
}

// holeFor is the known hole that ends at a position.
func holeFor(known *mq.Head, to mq.Position) (mq.Hole, bool) {
	for _, h := range known.Holes {
		if h.To == to {
			return h, true
		}
	}
	return mq.Hole{}, false
}

// close puts the newest segment into the head: as the last one if its end was decided, else as the open one, whose leader is gone: the
// controller seals it, and its replicas say where it ends, as ever.
func (c *Chain) close(last *segment) {
	if last.end != nil {
		last.Sealed, last.End = true, *last.end
		if last.tail.Before(last.End) {
			c.Lost = append(c.Lost, fmt.Sprintf("nobody that answers holds segment %d from %s to %s", last.ID, last.tail, last.End))
		}
		c.Head.Last = &last.Segment
		return
	}
	c.Head.Open = &last.Segment
	if n := len(c.Sealed); n > 0 {
		before := c.Sealed[n-1]
		c.Head.Last, c.Sealed = &before, c.Sealed[:n-1]
	}
}

// replicas are the recorded ones and those that hold the segment beside: they copied it from others. The open segment's are
// as recorded: acknowledgements were counted over them.
func (s *segment) replicas() []mq.Replica {
	if !s.Sealed && s.end == nil {
		return s.Replicas
	}
	out := slices.Clone(s.Replicas)
	for _, h := range s.holders {
		if !slices.ContainsFunc(out, func(r mq.Replica) bool { return r.Store == h.Store }) {
			out = append(out, h)
		}
	}
	return out
}
