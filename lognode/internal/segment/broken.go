package segment

import (
	"errors"
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// Broken is an invariant of replication that does not hold: a fault of this program, or of a disk that gives back what was
// never written. Whoever meets one stops the partition and nothing else. The invariants:
//
//	I1  what was acknowledged is before the end of its segment, for ever
//	I2  what was acknowledged is durable on a quorum of replicas
//	I3  all replicas of a segment agree wherever both have an entry
//	I4  a message offset has one value, before and after every failover
//	I5  positions in a chain neither overlap nor leave a gap, but for recorded holes
type Broken struct {
	Invariant string // "I1" to "I5"
	What      error
}

// Error says which invariant, and what was seen.
func (b *Broken) Error() string { return b.Invariant + " is broken: " + b.What.Error() }

// Unwrap is what was seen.
func (b *Broken) Unwrap() error { return b.What }

// breach makes a Broken.
func breach(invariant, format string, args ...any) error {
	return &Broken{Invariant: invariant, What: fmt.Errorf(format, args...)}
}

// Invariant is which invariant an error says is broken, "" if none.
func Invariant(err error) string {
	if b := (*Broken)(nil); errors.As(err, &b) {
		return b.Invariant
	}
	return ""
}

// CheckHead is what a new value of a partition's head may not say: that the segment which was open before ended below
// what was known as committed in it (I1), or a chain with a gap or an overlap (I5).
func CheckHead(h *mq.Head, before *mq.Segment, committed mq.Position) error {
	if before != nil && (h.Open == nil || h.Open.ID != before.ID) {
		if end := EndIn(h, before); end != nil && !h.Keeps(*end, committed) {
			return breach("I1", "%s ends at %s, and was committed up to %s", before, *end, committed)
		}
	}
	if h.Last != nil {
		return CheckChain(h, []mq.Segment{*h.Last})
	}
	return nil
}

// CheckChain is I5 for the sealed segments of a chain, read with the head.
func CheckChain(h *mq.Head, sealed []mq.Segment) error {
	if err := h.CheckChain(sealed); err != nil {
		return breach("I5", "%w", err)
	}
	return nil
}

// CheckReplay is I4 for a new leader: what it has replayed, up to next and with messages below offset, is before the base
// of its own segment. Otherwise it would give offsets a second time.
func CheckReplay(base, next mq.Position, offset uint64) error {
	if base.Before(next) || base.Offset < offset {
		return breach("I4", "the next segment begins at %s, and the chain before it has entries up to %s and messages up to %d", base, next, offset)
	}
	return nil
}

// CheckCopies is I3 for the copies of a sealed segment: those that have it whole have as many entries, with the same sum.
// all are the holders in the order of found.
func CheckCopies(s *mq.Segment, all []mq.Replica, found []Found) error {
	first := -1
	for i, f := range found {
		if !f.Known || f.Tail != s.End || f.Entries == 0 {
			continue // it is short, or its node is too old to say
		}
		if first < 0 {
			first = i
			continue
		}
		if o := found[first]; o.Entries != f.Entries || o.Sum != f.Sum {
			return breach("I3", "the copies of %s on %s and %s differ: %d entries with sum %x, and %d with sum %x", s,
				all[first].Node, all[i].Node, o.Entries, o.Sum, f.Entries, f.Sum)
		}
	}
	return nil
}

// OwnCopy is I3 for a leader, whose own copy has to take what it has just placed.
func (l *Leader) OwnCopy(v Verdict, at mq.Position) error {
	if v != Take {
		return breach("I3", "the leader's own copy of %s does not take %s", l.seg.String(), at)
	}
	return nil
}
