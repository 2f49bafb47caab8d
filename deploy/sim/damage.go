package sim

import (
	"slices"

	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// copyOn is a copy of a segment on a node's disk.
type copyOn struct {
	n *node
	c *lognode.Stored
}

// copiesOf are those of all nodes.
func (s *Sim) copiesOf(id mq.SegmentID) (out []copyOn) {
	for _, n := range s.nodes {
		for _, c := range n.disk.Segments() {
			if c.Segment.ID == id {
				out = append(out, copyOn{n, c})
			}
		}
	}
	return out
}

// at is the number of the entry at a position, or -1; intact says whether it is as it was written.
func (x copyOn) at(at mq.Position) (i int, intact bool) {
	for i, w := range x.c.Entries {
		if w.At == at {
			_, err := mq.ParseEntry(w.Data)
			return i, err == nil
		}
	}
	return -1, false
}

// breakEntry breaks one, so that the next start finds it.
func (x copyOn) breakEntry(i int) {
	x.n.sim.harms(x.n, x.c)
	x.c.Flip(len(x.c.Entries)-1-i, x.n.sim.rng.IntN(1000))
	x.c.Find()
}

func (x copyOn) restart() { x.n.sim.restartLater(x.n, x.n.sim.between(50*millisecond, 2*second)) }

// damageApart breaks an entry in copies of an open segment, in each another one, that others have intact (not only the victim, which may
// lose its own) and that is not the last. So the copies have everything together, and each knows how far it reached: they become what they
// were, without an operator.
func (s *Sim) damageApart(seg *mq.Segment) {
	if seg == nil {
		return
	}
	all := s.copiesOf(seg.ID)
	for k, x := range all {
		if len(x.c.Entries) < 2 || s.chance(20) {
			continue
		}
		i := s.rng.IntN(len(x.c.Entries) - 1)
		spared := false
		for l, other := range all {
			has, intact := other.at(x.c.Entries[i].At)
			if has >= 0 && !intact {
				spared = false
				break
			}
			spared = spared || l != k && intact && other.n != s.victim
		}
		if spared {
			x.restart()
			x.breakEntry(i)
		}
	}
}

// victimLoses is told before the victim's disk forgets something. Where a copy on another node is damaged at that moment, two copies of a
// segment are harmed, and nobody may be left who can say what was never acknowledged (R6): an operator may have to.
func (s *Sim) victimLoses() {
	for _, c := range s.victim.disk.Segments() {
		for _, x := range s.copiesOf(c.Segment.ID) {
			s.beyond = s.beyond || x.n != s.victim && x.c.Broken()
		}
	}
}

// harm is a copy of which a fault took or changed something, whatever became of it since.
type harm struct {
	segment mq.SegmentID
	store   mq.StoreID
}

func (s *Sim) harms(n *node, c *lognode.Stored) { s.harmed[harm{c.Segment.ID, n.disk.Store}] = true }

// undecided says whether it takes an operator to go on with a partition although only the victim has lost anything, so that all that was
// acknowledged is there (beyond is not set, and nothing is excused).
//
// What only a leader's disk has when its segment is sealed belongs to it, though nobody was told. If that disk loses it, the other holders
// say that they never had it, and it is recorded as lost (R6), as long as fewer than a quorum are missing. But the victim can be more than
// one holder: a lost directory is a holder that does not come back, and stays listed for as long as nobody has all of the segment; the new
// directory on the same machine is soon named to copy it, and may be lost as well, or damaged, before the others could be asked. Then a
// quorum of holders is missing. From what is left nobody can tell this from a new holder that had copied the whole end, which counted, and was
// served from the two that are gone. So the partition waits and says so, which is right, and goes on with an operator's word.
func (s *Sim) undecided(p mq.PartitionID) bool {
	for _, seg := range s.etcd.chain(p) {
		missing := 0
		for _, r := range seg.Holders() {
			gone := !slices.ContainsFunc(s.nodes, func(n *node) bool { return n.disk.Store == r.Store })
			if gone || s.harmed[harm{seg.ID, r.Store}] {
				missing++
			}
		}
		if missing >= seg.Quorum && s.left(&seg).Before(seg.DataEnd()) {
			return true
		}
	}
	return false
}

// damageAll damages all copies of a segment: their ends are gone, or the same entry is broken in all, or in each another one. What none has
// any more only an operator can give up.
func (s *Sim) damageAll(c *lognode.Stored) {
	way, same := s.rng.IntN(3), 0
	if n := len(c.Entries); n > 0 {
		same = s.rng.IntN(n)
	} else {
		way = 0
	}
	for _, x := range s.copiesOf(c.Segment.ID) {
		x.restart() // what waited for the disk comes first
		switch n := len(x.c.Entries); way {
		case 0:
			s.harms(x.n, x.c)
			x.c.LoseSuffix()
		case 1:
			if i, _ := x.at(c.Entries[same].At); i >= 0 {
				x.breakEntry(i)
			}
		default:
			if n > 0 {
				x.breakEntry(s.rng.IntN(n))
			}
		}
	}
}

// left is up to where the copies of a segment that are there have it together.
func (s *Sim) left(seg *mq.Segment) mq.Position {
	all := s.copiesOf(seg.ID)
	at := seg.Base
	for more := true; more && (!seg.Sealed || at.Before(seg.DataEnd())); {
		more = false
		for _, x := range all {
			if i, intact := x.at(at); intact && seg.Holds(x.n.disk.Store) {
				at, more = x.c.Entries[i].Next, true
				break
			}
		}
	}
	return at
}

// whole says whether some copy has all of a sealed segment.
func (s *Sim) whole(seg *mq.Segment) bool {
	if seg.Base == seg.DataEnd() {
		return true
	}
	for _, x := range s.copiesOf(seg.ID) {
		at := seg.Base
		for i := 0; i < len(x.c.Entries) && at.Before(seg.DataEnd()) && x.c.Entries[i].At == at; i++ {
			if _, err := mq.ParseEntry(x.c.Entries[i].Data); err != nil {
				break
			}
			at = x.c.Entries[i].Next
		}
		if seg.Holds(x.n.disk.Store) && !at.Before(seg.DataEnd()) {
			return true
		}
	}
	return false
}

// mended says whether every sealed segment has a whole copy again, or what it lacks was given up.
func (s *Sim) mended(p mq.PartitionID) bool {
	for _, seg := range s.etcd.chain(p) {
		if !s.whole(&seg) {
			return false
		}
	}
	return true
}

// quietAfter is how long after the faults every node has looked at what it has and told the others.
const quietAfter = forcePatience - second

// givenUp checks what an operator gave up: that nothing of it was acknowledged, unless faults may have taken away what was; and, where all
// nodes answer, that what the copies have together is kept.
func (s *Sim) givenUp(seg *mq.Segment, held, to mq.Position) {
	s.check.forces++
	if s.beyond {
		s.check.given[seg.Partition] = true
	} else {
		s.check.neverAcked(seg.Partition, held, to)
	}
	if !s.calm || s.now < s.calmSince+quietAfter {
		return
	}
	for _, n := range s.nodes {
		if !n.up || n.frozen > s.now {
			return
		}
	}
	if left := s.left(seg); held.Before(left) {
		s.fail("R6: segment %d of partition %d is given up from %s on, and its copies have it up to %s together", seg.ID, seg.Partition.Number, held, left)
	}
}
