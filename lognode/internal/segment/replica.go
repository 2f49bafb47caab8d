package segment

import "github.com/splashdam/splashdam/shared/mq"

// Verdict is what a replica does with an entry it was offered.
type Verdict int

// The verdicts.
const (
	Take    Verdict = iota // write it; acknowledge when durable
	Have                   // it is below the queue's end already: nothing to write
	Gap                    // its predecessor is missing: ask for entries from Queued on
	Ignore                 // the same, and the leader was asked already: what was on its way comes again
	Sealed                 // nothing is taken any more
	Refused                // it is not from this segment's leader
	Differs                // it follows here what another entry precedes: I3 is broken
)

// Replica is one node's copy of one segment. One goroutine owns it.
type Replica struct {
	seg mq.Segment
	// tail is durable; queued is what the tail will be when everything given to the disk is durable.
	// Base <= tail <= queued.
	tail, queued mq.Position
	prev         mq.Position // position of the last queued entry in the chain; meaningful if queued > base
	unsure       bool        // prev is not known, since the queue was taken back
	// asked: the leader was asked to send from queued on and nothing has been taken since. Each entry that was on its
	// way would ask again and be answered with all of them: with a disk that takes nothing, twice as many each time.
	asked   bool
	sealing bool // nothing is taken any more; the flag may not be durable yet
	flagged bool // the seal flag is durable
	end     *mq.Position
	// streamed, once the end is decided, is up to where the copy may hold what came over the leader's stream: what is
	// behind it was copied.
	streamed mq.Position
	// commit is the newest commit position in what was taken over the stream, for I1; the zero position if nothing was.
	commit mq.Position
}

// NewReplica takes up a copy as the disk has it. prev is the position of the last entry on disk (any value if
// there is none).
func NewReplica(seg mq.Segment, tail, prev mq.Position, flagged bool, end *mq.Position) *Replica {
	return &Replica{seg: seg, tail: tail, queued: tail, prev: prev, sealing: flagged || end != nil, flagged: flagged, end: end,
		streamed: seg.Base} // with an end, what is on disk may have been copied
}

// Segment is what this is a copy of.
func (r *Replica) Segment() *mq.Segment { return &r.seg }

// Tail is the durable tail, Queued the tail once the disk is done with what it was given.
func (r *Replica) Tail() mq.Position   { return r.tail }
func (r *Replica) Queued() mq.Position { return r.queued }

// Acknowledged is the tail as far as the segment's leader may be told of it: what came over its stream. A copy is never
// an acknowledgement (R1), not to a leader either that does not know that its segment has ended: another one may have
// asked before the copy came, and recorded what nobody had as lost (R6).
func (r *Replica) Acknowledged() mq.Position {
	if r.end != nil && r.streamed.Before(r.tail) {
		return r.streamed
	}
	return r.tail
}

// Flagged says whether the seal flag is durable, Sealing whether nothing is taken any more.
func (r *Replica) Flagged() bool { return r.flagged }
func (r *Replica) Sealing() bool { return r.sealing }

// Offer judges an entry that came over the stream of from. With Take the caller gives it to the disk, in
// the order of the calls. (R1: only the leader's own stream counts; an entry offered after the seal is
// never written.)
func (r *Replica) Offer(e *mq.Entry, from mq.Incarnation) Verdict {
	switch {
	case from != r.seg.Leader || e.Boot != r.seg.Leader.Boot || e.Segment != r.seg.ID:
		return Refused
	case r.sealing:
		return Sealed
	case e.At.Before(r.queued):
		return Have
	case e.At != r.queued:
		if r.asked {
			return Ignore
		}
		r.asked = true
		return Gap
	case r.queued != r.seg.Base && e.Prev != r.prev && !r.unsure:
		return Differs
	}
	r.queued, r.prev, r.unsure, r.asked = e.Next(), e.At, false, false
	if r.commit.Before(e.Commit) {
		r.commit = e.Commit
	}
	return Take
}

// Differs says why an entry that was offered has the verdict Differs.
func (r *Replica) Differs(e *mq.Entry) error {
	return breach("I3", "an entry of %s at %s follows %s, and here %s is the one before", r.seg.String(), e.At, e.Prev, r.prev)
}

// Committed is up to where the leader has said that the segment is committed, in what was taken over its stream since
// this process began.
func (r *Replica) Committed() mq.Position { return r.commit }

// Copied judges an entry that was copied from another replica after the end was decided. It is taken
// only below the end and in order, and is never an acknowledgement to the segment's leader.
func (r *Replica) Copied(e *mq.Entry) Verdict {
	switch {
	case r.end == nil || e.Segment != r.seg.ID || r.end.Before(e.Next()):
		return Refused
	case e.At.Before(r.queued):
		return Have
	case e.At != r.queued:
		return Gap
	}
	r.queued, r.prev = e.Next(), e.At
	return Take
}

// Durable says that everything up to tail is on disk.
func (r *Replica) Durable(tail mq.Position) error {
	if r.queued.Before(tail) {
		return breach("I2", "durable %s is beyond queued %s in %s", tail, r.queued, r.seg.String())
	}
	if r.tail.Before(tail) {
		r.tail = tail
	}
	return nil
}

// Seal stops taking entries, at once and for good. When Tail has reached Queued the caller makes the
// flag durable, calls SetFlagged, and may then answer Tail (R2).
func (r *Replica) Seal() { r.sealing = true }

// SetFlagged says that the seal flag is durable.
func (r *Replica) SetFlagged() { r.sealing, r.flagged = true, true }

// Settled says whether a seal may be answered, once its flag is durable.
func (r *Replica) Settled() bool { return r.sealing && r.tail == r.queued }

// SetEnd records the decided end. It returns true if this copy is longer, and must be cut on disk to the
// end; the caller does that before it reads or copies again. A second end that differs is an error (I1).
func (r *Replica) SetEnd(end mq.Position) (cut bool, err error) {
	if r.end != nil {
		if *r.end != end {
			return false, breach("I1", "the end of %s was %s, now %s", r.seg.String(), *r.end, end)
		}
		return false, nil
	}
	r.sealing, r.end = true, &end
	if cut = end.Before(r.queued); cut {
		r.queued = end
		if end.Before(r.tail) {
			r.tail = end
		}
	}
	r.streamed = r.queued
	return cut, nil
}

// End is the decided end, or nil.
func (r *Replica) End() *mq.Position { return r.end }

// Unqueue takes the queue back to the entry at a position, because the disk had no room for it: it is as if it
// and those behind it had not come. It reports whether the queue was beyond it; the caller then asks the leader to
// send from there, once, after a pause.
func (r *Replica) Unqueue(at mq.Position) bool {
	if at.Before(r.tail) || !at.Before(r.queued) {
		return false
	}
	r.queued, r.unsure, r.asked = at, true, true
	if at.Before(r.streamed) {
		r.streamed = at
	}
	return true
}
