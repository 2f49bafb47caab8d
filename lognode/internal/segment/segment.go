// Package segment is the protocol of one open segment, without I/O: the leader's side gives positions,
// follows tails and decides what is committed; the replica's side decides which entries it may take and
// what it may answer to a seal. The caller moves bytes, makes things durable and tells this package what
// happened.
//
// The rules are those of BookKeeper's ledgers and of Delos (OSDI 2020): a fixed set of replicas, one
// incarnation of one leader, an ack quorum, and an end by sealing. Invariants:
//
//   - A position is given once. The leader never reuses one, and a restarted leader never resumes.
//   - Commit is the highest position that a quorum holds durably, and never moves back.
//   - A replica's tail moves only by entries of its own leader's stream, each naming the tail as its
//     predecessor; never after a seal.
//
// Package segment is pure: it knows no clock, no network and no disk.
package segment

import (
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Leader is the leader's side of one open segment. One goroutine owns it.
type Leader struct {
	seg  mq.Segment
	self int

	next  mq.Position // where the next entry goes
	prev  mq.Position // the last entry's position in the chain
	stamp int64       // the last entry's stamp
	// tails are the durable tails that each replica acknowledged, in the order of seg.Replicas.
	// Every tail is at most next.
	tails []mq.Position
	// commit is at most next and never moves back.
	commit mq.Position
	// chained is false until everything before base is known to be committed: commit does not move before.
	chained bool
	sealed  bool
	sorted  []mq.Position // scratch
}

// NewLeader begins at the segment's base. prev is the position of the chain's last entry before base,
// equal to base if there is none; stamp is that entry's stamp.
func NewLeader(seg mq.Segment, prev mq.Position, stamp int64) (*Leader, error) {
	self := seg.ReplicaIndex(seg.Leader.Store)
	if self < 0 {
		return nil, fmt.Errorf("segment: leader %s of %s is not among its replicas", seg.Leader, seg.String())
	}
	if seg.Quorum < 1 || seg.Quorum > len(seg.Replicas) {
		return nil, fmt.Errorf("segment: quorum %d of %d replicas in %s", seg.Quorum, len(seg.Replicas), seg.String())
	}
	l := &Leader{seg: seg, self: self, next: seg.Base, prev: prev, stamp: stamp, commit: seg.Base}
	l.tails = make([]mq.Position, len(seg.Replicas))
	for i := range l.tails {
		l.tails[i] = seg.Base
	}
	return l, nil
}

// Segment is what the leader leads.
func (l *Leader) Segment() *mq.Segment { return &l.seg }

// Self is the leader's own place among the replicas.
func (l *Leader) Self() int { return l.self }

// Next is where the next entry goes; Commit is the position below which everything is committed.
func (l *Leader) Next() mq.Position   { return l.next }
func (l *Leader) Commit() mq.Position { return l.commit }

// Prev is the position of the chain's last entry, and Stamp its time.
func (l *Leader) Prev() mq.Position { return l.prev }
func (l *Leader) Stamp() int64      { return l.stamp }

// Tail is what a replica acknowledged.
func (l *Leader) Tail(replica int) mq.Position { return l.tails[replica] }

// Chained says that everything before the segment is committed (its suffix is on a quorum), and lets
// commits begin. It reports whether the commit position moved.
func (l *Leader) Chained() bool {
	l.chained = true
	return l.advance()
}

// Seal stops the leader: no further entry gets a position. It is for good.
func (l *Leader) Seal() { l.sealed = true }

// Sealed says whether Seal was called.
func (l *Leader) Sealed() bool { return l.sealed }

// Place gives the next entry its position, predecessor, commit position and stamp: now, or the last stamp
// if the clock stepped back. The entry may be sent to every replica at once; its callers are answered
// when Commit has passed its Next. Place must not be called after Seal.
func (l *Leader) Place(e *mq.Entry, now int64) error {
	if l.sealed {
		return fmt.Errorf("segment: %s is sealed", l.seg.String())
	}
	l.stamp = max(l.stamp, now)
	e.Segment, e.At, e.Prev, e.Commit = l.seg.ID, l.next, l.prev, l.commit
	e.Stamp, e.Boot = l.stamp, l.seg.Leader.Boot
	l.prev, l.next = e.At, e.Next()
	return nil
}

// Acked records that a replica's tail is durable, and reports whether the commit position moved. A tail
// that moves back is an old answer and is ignored. One beyond what was ever placed is a broken replica
// and an error: it must not count.
func (l *Leader) Acked(replica int, tail mq.Position) (bool, error) {
	if l.next.Before(tail) {
		return false, breach("I2", "replica %s of %s acknowledges %s, beyond %s",
			l.seg.Replicas[replica].Node, l.seg.String(), tail, l.next)
	}
	if !l.tails[replica].Before(tail) {
		return false, nil
	}
	l.tails[replica] = tail
	return l.advance(), nil
}

// advance moves commit to the quorum-th highest tail.
func (l *Leader) advance() bool {
	if !l.chained {
		return false
	}
	l.sorted = append(l.sorted[:0], l.tails...)
	slices.SortFunc(l.sorted, func(a, b mq.Position) int { return b.Compare(a) })
	held := l.sorted[l.seg.Quorum-1]
	if !l.commit.Before(held) {
		return false
	}
	l.commit = held
	return true
}

// Check is I2: a broken invariant, or nil.
func (l *Leader) Check() error {
	if l.next.Before(l.commit) {
		return breach("I2", "commit %s is beyond next %s in %s", l.commit, l.next, l.seg.String())
	}
	holders := 0
	for _, t := range l.tails {
		if !t.Before(l.commit) {
			holders++
		}
	}
	if holders < l.seg.Quorum {
		return breach("I2", "commit %s of %s is held by %d replicas", l.commit, l.seg.String(), holders)
	}
	return nil
}
