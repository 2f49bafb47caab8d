package sim

import (
	"bytes"

	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// final looks at everything once the faults are over and the work should be done.
func (s *Sim) final() {
	if !s.finished() {
		if s.holes(); s.check.holes > 0 {
			return
		}
		s.fail("not everything was delivered %d s after the last fault:%s", (s.now-s.Chaos*second)/second, s.unfinished())
		return
	}
	for i := range s.etcd.heads {
		h := &s.etcd.heads[i]
		next := mq.Position{}
		found := map[uint64]string{}
		for _, seg := range s.etcd.chain(h.Partition) {
			if seg.Base != next {
				s.fail("I5: segment %d of partition %d begins at %s, not at %s", seg.ID, i, seg.Base, next)
			}
			next = seg.End
			s.segment(&seg, found)
		}
		if h.Open.Base != next {
			s.fail("I5: the open segment %d of partition %d begins at %s, not at %s", h.Open.ID, i, h.Open.Base, next)
		}
		open := *h.Open
		open.End = mq.Position{Offset: 1 << 62}
		s.segment(&open, found)
		for at := range s.check.acked {
			if at.partition == h.Partition && found[at.offset] != s.check.values[at] {
				s.fail("lost: offset %d of partition %d was acknowledged with %q, the journal has %q", at.offset, i,
					s.check.values[at], found[at.offset])
			}
		}
	}
}

// segment compares the replicas of one segment (I3), takes its messages, and looks for a whole copy up to the end.
func (s *Sim) segment(seg *mq.Segment, found map[uint64]string) {
	first := map[mq.Position][]byte{}
	sealed := seg.End.Offset < 1<<62
	whole := !sealed || seg.Base == seg.End
	for _, n := range s.nodes {
		for _, c := range n.disk.Segments() {
			if c.Segment.ID != seg.ID || seg.ReplicaIndex(n.disk.Store) < 0 {
				continue
			}
			if s.replica(seg, c, first, found) && !c.Damaged && !c.Tail.Before(seg.End) {
				whole = true
			}
		}
	}
	if !whole {
		s.fail("I2: no whole copy of segment %d of partition %s up to %s is left", seg.ID, seg.Partition, seg.End)
	}
}

// replica reads one copy; false if an entry of it is damaged.
func (s *Sim) replica(seg *mq.Segment, c *lognode.Stored, first map[mq.Position][]byte, found map[uint64]string) bool {
	at, intact := seg.Base, true
	for _, w := range c.Entries {
		if w.At != at {
			s.fail("I5: in segment %d an entry at %s follows %s", seg.ID, w.At, at)
		}
		at = w.Next
		e, err := mq.ParseEntry(w.Data)
		if err != nil {
			intact = false
			continue
		}
		if !e.At.Before(seg.End) {
			continue
		}
		if other, ok := first[e.At]; ok && !bytes.Equal(other, w.Data) {
			s.fail("I3: replicas of segment %d differ at %s", seg.ID, e.At)
		}
		first[e.At] = w.Data
		if err := lognode.Values(&e, func(offset uint64, v []byte) { found[offset] = string(v) }); err != nil {
			s.fail("segment %d: %v", seg.ID, err)
		}
	}
	return intact
}

// holes finds ranges below an end that no replica has any more. That is rule R6's last sentence: where only the victim
// held a suffix and lost it before it was copied, nobody was answered for it, and the partition waits for the range to
// be recorded as a hole (which no component does yet). Acknowledged messages in one are lost.
func (s *Sim) holes() {
	for i := range s.etcd.heads {
		h := &s.etcd.heads[i]
		for _, seg := range s.etcd.chain(h.Partition) {
			at := seg.Base
			for at.Before(seg.End) {
				next, ok := s.anyAt(&seg, at)
				if !ok {
					break
				}
				at = next
			}
			if !at.Before(seg.End) {
				continue
			}
			s.check.holes++
			for p := range s.check.acked {
				if p.partition == h.Partition && at.Offset <= p.offset && p.offset < seg.End.Offset {
					s.fail("lost: offset %d of partition %d was acknowledged and is in no replica of segment %d", p.offset, i, seg.ID)
				}
			}
		}
	}
}

// anyAt is the position behind the entry at a position of a segment, if any replica can give it.
func (s *Sim) anyAt(seg *mq.Segment, at mq.Position) (mq.Position, bool) {
	for _, n := range s.nodes {
		for _, c := range n.disk.Segments() {
			if c.Segment.ID != seg.ID || c.Damaged {
				continue
			}
			for _, w := range c.Entries {
				if _, err := mq.ParseEntry(w.Data); w.At == at && err == nil {
					return w.Next, true
				}
			}
		}
	}
	return at, false
}
