package mq

import (
	"fmt"
	"slices"
	"time"
)

// Replica names one holder of a segment. Store is the identity; Node is the configured name under
// which the store was registered when the segment was made, used to find its address.
type Replica struct {
	Store StoreID `json:"store"`
	Node  string  `json:"node"`
}

// Segment is a piece of a partition's journal with a fixed set of replicas and one incarnation of
// one leader. What it says is decided in etcd and never changes but for Sealed and End.
type Segment struct {
	ID        SegmentID   `json:"id"`
	Partition PartitionID `json:"partition"`
	// Number rises by one at every opening in the partition, chained or replaced: a fence never repeats.
	Number   uint64      `json:"number"`
	Base     Position    `json:"base"`
	Replicas []Replica   `json:"replicas"`
	Quorum   int         `json:"quorum"`
	Leader   Incarnation `json:"leader"`
	Sealed   bool        `json:"sealed,omitempty"`
	End      Position    `json:"end"`
	// Held is where the entries of a sealed segment end, if that is below End because the rest is lost: the range
	// between is recorded as a hole (rule R6). Nil for all but a few.
	Held *Position `json:"held,omitempty"`
	// Adding are nodes that copy this sealed segment to become replicas of it; they hold nothing for sure yet.
	Adding []Replica `json:"adding,omitempty"`
	// Compared is the ModRevision of the partition's key that the opening was compared against (rule R5). It is
	// in a node's own creation record only, never in etcd.
	Compared int64 `json:"compared,omitempty"`
}

// LeaderNode is the configured name of the leader's node, or "" if the leader is not a replica.
func (s *Segment) LeaderNode() string {
	for _, r := range s.Replicas {
		if r.Store == s.Leader.Store {
			return r.Node
		}
	}
	return ""
}

// ReplicaIndex is the place of a store among the replicas, or -1.
func (s *Segment) ReplicaIndex(id StoreID) int {
	for i, r := range s.Replicas {
		if r.Store == id {
			return i
		}
	}
	return -1
}

// Holds says whether a store is a replica, or is to become one.
func (s *Segment) Holds(id StoreID) bool {
	for _, r := range s.Adding {
		if r.Store == id {
			return true
		}
	}
	return s.ReplicaIndex(id) >= 0
}

// DataEnd is where the entries of a sealed segment end: its End, or below that where the rest was recorded as lost.
func (s *Segment) DataEnd() Position {
	if s.Held != nil {
		return *s.Held
	}
	return s.End
}

// Holders are the replicas and those that copy the segment to become one.
func (s *Segment) Holders() []Replica {
	if len(s.Adding) == 0 {
		return s.Replicas
	}
	return append(slices.Clone(s.Replicas), s.Adding...)
}

// SealAnswers is how many replicas must answer a seal: any such set meets every ack quorum.
func (s *Segment) SealAnswers() int { return len(s.Replicas) - s.Quorum + 1 }

// Ended is where a segment ends, from the tails that replicas answered after their seal flags were durable: the
// highest one. ok is false while fewer than SealAnswers replicas have answered. A replica that does not know
// the segment is not in tails: unknown is never an empty tail (R3).
func (s *Segment) Ended(tails map[StoreID]Position) (end Position, ok bool) {
	n := 0
	end = s.Base
	for _, r := range s.Replicas {
		tail, answered := tails[r.Store]
		if !answered || tail.Before(s.Base) { // a tail before the base is not a tail of this segment
			continue
		}
		n++
		if end.Before(tail) {
			end = tail
		}
	}
	return end, n >= s.SealAnswers()
}

// String is for logs.
func (s *Segment) String() string {
	return fmt.Sprintf("segment %d (%s number %d base %s)", s.ID, s.Partition, s.Number, s.Base)
}

// HoleJump is how many offsets further a partition goes on after an operator forced it: the segment that could not be
// asked for its end may have given offsets beyond what is left of it, and no offset ever has two values (rule R6).
const HoleJump = 1 << 32

// MaxHoles bounds the holes of one partition's head. A partition that has as many takes no more: it waits. Retention
// takes holes away with the segments before them.
const MaxHoles = 100

// Hole is a range of a partition that is lost and recorded as such (replication rule R6), from From (inclusive) to To
// (exclusive).
type Hole struct {
	From Position `json:"from"`
	To   Position `json:"to"`
	// Segment is the one whose entries are lost.
	Segment SegmentID `json:"segment,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// By says who forced it; "" where nothing in the range was ever acknowledged, so that nobody had to be asked.
	By string `json:"by,omitempty"`
	// Node is the replica that the operator named as the one to go on with, if any.
	Node string `json:"node,omitempty"`
}

// NewHoles are those of now that were not there before, compared by the range that they are.
func NewHoles(before, now []Hole) []Hole {
	return slices.DeleteFunc(slices.Clone(now), func(h Hole) bool {
		return slices.ContainsFunc(before, func(b Hole) bool { return b.From == h.From && b.To == h.To })
	})
}

// Head is the value of a partition's key in etcd: the open segment (nil when none could be opened
// yet), the segment sealed last (nil while the first one is open), the number that the next opening
// gets, and recorded holes. Older sealed segments have a key each.
type Head struct {
	Partition PartitionID `json:"partition"`
	Replicas  int         `json:"replicas"`
	Quorum    int         `json:"quorum"`
	Next      uint64      `json:"next"`
	Open      *Segment    `json:"open,omitempty"`
	Last      *Segment    `json:"last,omitempty"`
	// Oldest is the number of the first segment that still exists; 0 while none was removed.
	Oldest uint64 `json:"oldest,omitempty"`
	Holes  []Hole `json:"holes,omitempty"`
	// Revision is the key's ModRevision in etcd when this value was read; not part of the value.
	Revision int64 `json:"-"`
}

// Lose is the head with a hole recorded; if it is in the last sealed segment, with that one's Held too. false if the
// head has as many holes as it may. The result shares nothing that changes with h.
func (h Head) Lose(hole Hole) (Head, bool) {
	if len(h.Holes) >= MaxHoles {
		return h, false
	}
	h.Holes = append(slices.Clone(h.Holes), hole)
	slices.SortFunc(h.Holes, func(a, b Hole) int { return a.From.Compare(b.From) })
	if h.Last != nil && h.Last.ID == hole.Segment {
		last := *h.Last
		last.Held = &hole.From
		h.Last = &last
	}
	return h, true
}

// Lost says whether an offset lies in a recorded hole, and in which one.
func (h *Head) Lost(offset uint64) (Hole, bool) {
	for _, x := range h.Holes {
		if x.From.Offset <= offset && offset < x.To.Offset {
			return x, true
		}
	}
	return Hole{}, false
}

// Forget drops the holes that end at or below a position, because retention removed what was before it.
func (h *Head) Forget(first Position) {
	h.Holes = slices.DeleteFunc(slices.Clone(h.Holes), func(x Hole) bool { return !first.Before(x.To) })
}
