package sim

import (
	"bytes"
	"slices"

	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// final looks at everything once the faults are over and the work should be done.
func (s *Sim) final() {
	if !s.finished() {
		s.fail("not everything was delivered %d s after the last fault:%s", (s.now-s.Chaos*second)/second, s.unfinished())
		return
	}
	for i := range s.etcd.heads {
		h := &s.etcd.heads[i]
		next := mq.Position{}
		found, journal := map[uint64]string{}, map[mq.Position]mq.Entry{}
		for _, seg := range s.etcd.chain(h.Partition) {
			if seg.Base != next && !forcedGap(h, next, seg.Base) {
				s.fail("I5: segment %d of partition %d begins at %s, not at %s", seg.ID, i, seg.Base, next)
			}
			next = seg.End
			s.segment(&seg, found, journal)
		}
		if h.Open.Base != next && !forcedGap(h, next, h.Open.Base) {
			s.fail("I5: the open segment %d of partition %d begins at %s, not at %s", h.Open.ID, i, h.Open.Base, next)
		}
		open := *h.Open
		open.End = mq.Position{Offset: 1 << 62}
		s.segment(&open, found, journal)
		s.settled(h, journal)
		for at := range s.check.acked {
			if at.partition == h.Partition && found[at.offset] != s.check.values[at] && !s.excused(at) {
				s.fail("lost: offset %d of partition %d was acknowledged with %q, the journal has %q", at.offset, i,
					s.check.values[at], found[at.offset])
			}
		}
	}
}

// segment compares the replicas of one segment (I3), takes its messages, and looks for a whole copy up to the end.
func (s *Sim) segment(seg *mq.Segment, found map[uint64]string, journal map[mq.Position]mq.Entry) {
	first := map[mq.Position][]byte{}
	sealed := seg.End.Offset < 1<<62
	whole := !sealed || seg.Base == seg.DataEnd()
	for _, n := range s.nodes {
		for _, c := range n.disk.Segments() {
			if c.Segment.ID != seg.ID || !seg.Holds(n.disk.Store) {
				continue
			}
			if s.replica(seg, c, first, found, journal) && !c.Tail.Before(seg.DataEnd()) {
				whole = true
			}
		}
	}
	if !whole {
		s.fail("I2: no whole copy of segment %d of partition %s up to %s is left", seg.ID, seg.Partition, seg.DataEnd())
	}
}

// replica reads one copy; false if an entry of it is damaged.
func (s *Sim) replica(seg *mq.Segment, c *lognode.Stored, first map[mq.Position][]byte, found map[uint64]string, journal map[mq.Position]mq.Entry) bool {
	at, intact := seg.Base, true
	for _, w := range c.Entries {
		if w.At != at {
			s.fail("I5: in segment %d an entry at %s follows %s", seg.ID, w.At, at)
		}
		at = w.Next
		if !w.At.Before(seg.DataEnd()) {
			continue
		}
		e, err := mq.ParseEntry(w.Data)
		if err != nil {
			intact = false
			continue
		}
		if other, ok := first[e.At]; ok && !bytes.Equal(other, w.Data) {
			s.fail("I3: replicas of segment %d differ at %s", seg.ID, e.At)
		}
		first[e.At], journal[e.At] = w.Data, e
		if err := lognode.Messages(&e, func(offset uint64, m lognode.Message) { found[offset] = string(m.Value) }); err != nil {
			s.fail("segment %d: %v", seg.ID, err)
		}
	}
	return intact
}

// forcedGap says whether the chain goes on further because an operator forced it, perhaps more than once in a row.
func forcedGap(h *mq.Head, from, to mq.Position) bool {
	for from != to {
		i := slices.IndexFunc(h.Holes, func(x mq.Hole) bool { return x.From == from && x.From != x.To && x.By != "" })
		if i < 0 {
			return false
		}
		from = h.Holes[i].To
	}
	return true
}

// settled checks what became of a partition's messages in its groups, and of its schedules.
func (s *Sim) settled(h *mq.Head, journal map[mq.Position]mq.Entry) {
	if s.check.given[h.Partition] {
		return
	}
	leader := s.byName(h.Open.LeaderNode()).run
	s.check.scheduledLeft(h.Partition, leader.Pending(h.Partition))
	for i := range s.groups {
		g := &s.groups[i]
		letters := s.letters(h, g.ID)
		s.check.settledAll(g, h.Partition, letters, journal)
		if g.Settings.Ordering == mq.OrderingKey {
			s.check.ordered(g.ID, h.Partition, letters)
		}
	}
}

// letters are the dead letters of a group in a partition, which its leader lists.
func (s *Sim) letters(h *mq.Head, g mq.GroupID) dead {
	out := dead{}
	for _, m := range s.byName(h.Open.LeaderNode()).run.Dead(h.Partition, g) {
		if _, twice := out[m.Offset]; twice {
			s.fail("offset %d of partition %d is listed twice as a dead letter of group %d", m.Offset, h.Partition.Number, g)
		}
		out[m.Offset] = m
	}
	return out
}
