package sim

import (
	"cmp"
	"fmt"
	"slices"

	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

type place struct {
	partition mq.PartitionID
	offset    uint64
}

type groupPlace struct {
	group mq.GroupID
	place
}

// fence orders the hand-overs of a message.
type fence struct{ segment, counter uint64 }

func (f fence) less(o fence) bool {
	return f.segment < o.segment || f.segment == o.segment && f.counter < o.counter
}

// hand is one delivery that a consumer saw.
type hand struct {
	fence
	attempt uint32
	stream  uint64
	decided int64
}

// checker sees what clients see, and never looks into a node before the end.
type checker struct {
	s        *Sim
	values   map[place]string
	where    map[string]place       // values has it the other way round
	wishes   map[string]*wish       // what was scheduled, by value
	numbers  map[place]string       // values by the numbers of schedules that were acknowledged
	acked    map[place]bool         // publishes that were acknowledged
	segments map[mq.SegmentID][]ack // the same, by segment
	ends     map[mq.SegmentID]mq.Position
	traits   map[string]traits // by value
	hands    map[groupPlace][]hand
	tries    map[groupPlace][]*try
	done     map[groupPlace]doneAt   // acked by a consumer or rejected, and answered
	acks     map[groupPlace]bool     // those that are acked
	gone     map[uint64]bool         // streams whose unconfirmed hand-overs were given back
	released map[released]bool       // hand-overs that a consumer gave back, or asked to
	given    map[mq.PartitionID]bool // partitions that an operator forced: what was settled may be lost with the rest

	limits map[mq.GroupID]uint32 // of attempts

	published, delivered, repeated, zombies, holes, forces int
}

// released is a hand-over of a message to a group.
type released struct {
	groupPlace
	fence
}

type ack struct {
	next  mq.Position
	value string
}

type doneAt struct {
	time  int64
	fence fence
}

func newChecker(s *Sim) *checker {
	return &checker{s: s, values: map[place]string{}, where: map[string]place{}, wishes: map[string]*wish{}, numbers: map[place]string{}, acks: map[groupPlace]bool{}, acked: map[place]bool{}, segments: map[mq.SegmentID][]ack{},
		ends: map[mq.SegmentID]mq.Position{}, hands: map[groupPlace][]hand{}, traits: map[string]traits{}, tries: map[groupPlace][]*try{}, done: map[groupPlace]doneAt{}, gone: map[uint64]bool{},
		released: map[released]bool{}, given: map[mq.PartitionID]bool{}}
}

// value is I4: an offset has one value.
func (c *checker) value(at place, v string) {
	if have, ok := c.values[at]; ok && have != v {
		c.s.fail("I4: offset %d of partition %d was %q and is %q", at.offset, at.partition.Number, have, v)
	}
	if was, ok := c.where[v]; ok && was != at && !c.given[at.partition] {
		c.s.fail("%q is at offset %d of partition %d, and was at %d", v, at.offset, at.partition.Number, was.offset)
	}
	c.values[at], c.where[v] = v, at
}

// acknowledged is an answered publish. I1: it is below its segment's end, for ever.
func (c *checker) acknowledged(p mq.PartitionID, a lognode.Appended, values []string) {
	for i, v := range values {
		at := place{p, a.First + uint64(i)}
		c.value(at, v)
		if hole, ok := c.s.etcd.find(p).Lost(at.offset); ok && hole.By == "" {
			c.s.fail("R6: offset %d of partition %d is recorded as lost and was acknowledged", at.offset, p.Number)
		}
		c.acked[at] = true
		c.published++
	}
	if end, ok := c.ends[a.Segment]; ok && end.Before(a.Next) && !c.s.excused(place{p, a.First}) {
		c.s.fail("I1: %q was acknowledged up to %s of segment %d, which has ended at %s", values[0], a.Next, a.Segment, end)
	}
	c.segments[a.Segment] = append(c.segments[a.Segment], ack{a.Next, values[0]})
}

// neverAcked checks a range that is recorded as lost though at most one machine lost anything: nothing in it was acknowledged.
func (c *checker) neverAcked(p mq.PartitionID, from, to mq.Position) {
	for at := range c.acked {
		if at.partition == p && from.Offset <= at.offset && at.offset < to.Offset {
			c.s.fail("R6: offset %d of partition %d was acknowledged and is recorded as lost", at.offset, p.Number)
		}
	}
}

// ended is a decided end, and where the next segment begins.
func (c *checker) ended(seg *mq.Segment, end, next mq.Position) {
	c.ends[seg.ID] = end
	for _, a := range c.segments[seg.ID] {
		if end.Before(a.next) && end == next {
			c.s.fail("I1: segment %d ends at %s, and %q was acknowledged up to %s", seg.ID, end, a.value, a.next)
		}
	}
}

// handed is a delivery.
func (c *checker) handed(g mq.GroupID, m lognode.Delivered, decided int64, stream uint64) {
	at := placeOf(m)
	key := groupPlace{g, at}
	h := hand{fenceOf(m), m.Attempt, stream, decided}
	c.value(at, string(m.Value))
	c.expired(g, m, decided)
	if w := c.wishes[string(m.Value)]; w != nil {
		c.came(w, m, decided)
	}
	if c.delivered++; len(c.hands[key]) > 0 {
		c.repeated++
	}
	if d, ok := c.done[key]; ok && decided > d.time && !c.given[at.partition] {
		if open := c.s.etcd.find(at.partition).Open; h.attempt == 1 && open != nil && h.fence.segment < open.Number {
			c.zombies++ // a leader that does not know yet that it is none hands out first attempts without asking
		} else {
			c.s.fail("offset %d of partition %d was settled in group %d (fence %v) and came back (%+v)", at.offset,
				at.partition.Number, g, d.fence, h)
		}
	}
	if limit := c.limits[g]; limit > 0 && m.Attempt > limit {
		c.s.fail("offset %d of partition %d: attempt %d of %d", at.offset, at.partition.Number, m.Attempt, limit)
	}
	for _, before := range c.hands[key] {
		if c.given[at.partition] {
			break
		}
		c.counted(key, before, h)
	}
	c.hands[key] = append(c.hands[key], h)
}

// counted: an attempt that is not the first commits before it is handed out, and so no later one has its number,
// unless it was given back.
func (c *checker) counted(at groupPlace, a, b hand) {
	if b.fence.less(a.fence) {
		a, b = b, a
	}
	if a.fence == b.fence {
		c.s.fail("offset %d of partition %d was handed out twice with fence %v", at.offset, at.partition.Number, a.fence)
	}
	if a.attempt > 1 && b.attempt <= a.attempt && !c.gone[a.stream] && !c.released[released{at, a.fence}] {
		c.s.fail("offset %d of partition %d: attempt %d (fence %v) after attempt %d (fence %v)", at.offset, at.partition.Number,
			b.attempt, b.fence, a.attempt, a.fence)
	}
}

// settled is an answered settle.
func (c *checker) settled(g mq.GroupID, m lognode.Delivered, t *try, code lognode.Code) {
	if t.refused = code != lognode.SettleOK; t.refused || t.outcome != lognode.Ack && t.outcome != lognode.Reject {
		return
	}
	key := groupPlace{g, placeOf(m)}
	if t.outcome == lognode.Ack {
		c.acks[key] = true
	}
	if _, ok := c.done[key]; !ok {
		c.done[key] = doneAt{c.s.now, fenceOf(m)}
	}
}

// finished says whether everything is delivered and settled, after the faults.
func (s *Sim) finished() bool {
	for i := range s.etcd.heads {
		h := &s.etcd.heads[i]
		if h.Open == nil {
			return false
		}
		n := s.byName(h.Open.LeaderNode())
		if n.run == nil || !n.run.Written(h.Partition) { // what is on its way is in no journal yet
			return false
		}
		if s.beyond && !s.mended(h.Partition) {
			return false
		}
		for _, g := range s.groups {
			f, ok := n.run.Figures(h.Partition, g.ID)
			if !ok || f.Lag > 0 || f.Committed == 0 {
				return false
			}
		}
	}
	return len(s.check.undelivered()) == 0 && s.check.dueAll()
}

// undelivered are the acknowledged messages that a group has not seen, the first few of them.
func (c *checker) undelivered() (out []groupPlace) {
	for key := range c.acked {
		for _, g := range c.s.groups {
			at := groupPlace{g.ID, key}
			few := c.limits[g.ID] > 0 && c.limits[g.ID] < manyAttempts // all of them may be lost on the way
			if len(c.hands[at]) == 0 && !few && !c.s.excused(key) && !c.mayExpire(c.values[key]) {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, func(a, b groupPlace) int {
		return cmp.Or(cmp.Compare(a.partition.Number, b.partition.Number), cmp.Compare(a.offset, b.offset), cmp.Compare(a.group, b.group))
	})
	return out[:min(len(out), 10)]
}

// unfinished says why not.
func (s *Sim) unfinished() string {
	text := ""
	for i := range s.etcd.heads {
		h := &s.etcd.heads[i]
		if h.Open == nil {
			text += fmt.Sprintf(" partition %d has no segment;", i)
			continue
		}
		n := s.byName(h.Open.LeaderNode())
		if n.run == nil {
			text += fmt.Sprintf(" partition %d: %s, which leads segment %d, is down;", i, n.name, h.Open.ID)
			continue
		}
		for _, g := range s.groups {
			f, ok := n.run.Figures(h.Partition, g.ID)
			if !ok {
				text += fmt.Sprintf(" partition %d: %s does not serve segment %d (named leader %s, is %s): %s;", i, n.name, h.Open.ID,
					h.Open.Leader, n.run.Identity(), n.run.Why(h.Partition))
				break
			}
			if f.Lag > 0 || !n.run.Written(h.Partition) {
				text += fmt.Sprintf(" partition %d group %d at %s segment %d: %+v;", i, g.ID, n.name, h.Open.ID, f)
			}
		}
	}
	for i := range s.etcd.heads {
		if !s.mended(s.etcd.heads[i].Partition) {
			text += fmt.Sprintf(" partition %d has a segment without a whole copy;", i)
		}
	}
	for _, at := range s.check.undelivered() {
		text += fmt.Sprintf(" offset %d of partition %d did not reach group %d;", at.offset, at.partition.Number, at.group)
	}
	for _, w := range s.check.wishes {
		if s.check.awaited(w) {
			text += fmt.Sprintf(" schedule %d of partition %d did not come;", w.number, w.partition.Number)
			break
		}
	}
	for _, c := range s.ctls {
		if c.reign != nil {
			text += fmt.Sprintf(" %s reigns: %s;", c.name, c.reign.Why())
		}
	}
	return text
}
