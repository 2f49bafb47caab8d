package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/splashdam/splashdam/shared/mq"
)

// holds orders the rare changes of a segment (create, seal, end, remove) among themselves, without one
// waiting for another segment's sync: those of many partitions share their syncs. Segment 0 stands for the store.
type holds struct {
	mu   sync.Mutex
	cond *sync.Cond
	held map[mq.SegmentID]struct{}
}

func newHolds() *holds {
	h := &holds{held: map[mq.SegmentID]struct{}{}}
	h.cond = sync.NewCond(&h.mu)
	return h
}

// take waits until none of the ids is held, holds them all and returns what lets go of them.
func (h *holds) take(ids ...mq.SegmentID) (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for slices.ContainsFunc(ids, func(id mq.SegmentID) bool { _, ok := h.held[id]; return ok }) {
		h.cond.Wait()
	}
	for _, id := range ids {
		h.held[id] = struct{}{}
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, id := range ids {
			delete(h.held, id)
		}
		h.cond.Broadcast()
	}
}

// ClusterID is the cluster that the store belongs to, "" while none was set.
func (s *Store) ClusterID() string {
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	return s.facts.cluster
}

// SetClusterID records the cluster, durably. ErrConflict when another one is recorded.
func (s *Store) SetClusterID(id string) error {
	defer s.holds.take(0)()
	switch was := s.ClusterID(); {
	case id == "":
		return errors.New("store: the cluster id is empty")
	case was == id:
		return nil
	case was != "":
		return fmt.Errorf("%w: store belongs to cluster %s, not %s", ErrConflict, was, id)
	}
	return s.recordFacts(fact{Cluster: id})
}

// recordFacts makes facts durable; a failure is the store's end, because a failed sync is not tried again.
func (s *Store) recordFacts(list ...fact) error {
	if err := s.Err(); err != nil {
		return err
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.facts.record(list...); err != nil {
		return s.fail(err)
	}
	poke(s.pokeLedger) // it tells how many facts there are
	return nil
}

// Named is the highest (number, revision) that the store saw named for a partition (rule R7); zeros when
// none.
func (s *Store) Named(p mq.PartitionID) mq.Named {
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	return s.facts.named[p]
}

// SetNamed raises what Named answers, durably. Less than what is recorded changes nothing.
func (s *Store) SetNamed(p mq.PartitionID, n mq.Named) error {
	return s.recordFacts(s.raise(nil, p, n)...)
}

// namedAtOnce is how many partitions are named in one frame.
const namedAtOnce = 10_000

// SetAllNamed is SetNamed for each head's open segment (or the last one that there was), with one sync for many.
func (s *Store) SetAllNamed(heads []mq.Head) error {
	var list []fact
	for i := range heads {
		if n, ok := heads[i].Named(); ok {
			list = s.raise(list, heads[i].Partition, n)
		}
	}
	for chunk := range slices.Chunk(list, namedAtOnce) {
		if err := s.recordFacts(chunk...); err != nil {
			return err
		}
	}
	return nil
}

// AllNamed calls f with what Named answers for every partition.
func (s *Store) AllNamed(f func(p mq.PartitionID, n mq.Named)) {
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	for p, n := range s.facts.named {
		f(p, n)
	}
}

func (s *Store) raise(list []fact, p mq.PartitionID, n mq.Named) []fact {
	if !s.Named(p).Less(n) {
		return list
	}
	return append(list, fact{Partition: &p, Number: n.Number, Revision: n.Revision})
}

// CreateSegments records segments that this store is to hold, with one sync for all, and the naming of their
// partitions at the etcd revisions that they were compared with. A segment that is already recorded with the same content is left
// alone; with other content nothing at all is created (ErrConflict). One that is given as sealed has its
// seal flag and end from the start, and takes copies up to the end.
func (s *Store) CreateSegments(segs []mq.Segment) error {
	ids := make([]mq.SegmentID, len(segs))
	for i := range segs {
		if ids[i] = segs[i].ID; ids[i] == 0 {
			return errors.New("store: segment id 0")
		}
	}
	defer s.holds.take(ids...)()
	var list []fact
	var fresh []mq.SegmentID
	for i := range segs {
		g := segs[i]
		if known, ok := s.Segment(g.ID); ok {
			if !sameSegment(&known.Segment, &g) {
				return fmt.Errorf("%w: %s is recorded, not %s", ErrConflict, &known.Segment, &g)
			}
		} else if !slices.Contains(fresh, g.ID) {
			g.Replicas = slices.Clone(g.Replicas)
			fresh = append(fresh, g.ID)
			list = append(list, fact{Create: &g})
		}
		list = s.raise(list, g.Partition, mq.Named{Number: g.Number, Revision: max(0, g.Compared)})
	}
	if err := s.inOrder(func() error { return s.placeNew(fresh, list) }); err != nil {
		return err
	}
	if err := s.recordFacts(list...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	for _, id := range fresh {
		s.segments[id] = newSegment(s.facts.segments[id])
	}
	return nil
}

// placeNew fills in where new segments begin. A segment that was removed and comes again must not share a
// volume with its old entries: the keys would be the same. Committer's goroutine.
func (s *Store) placeNew(fresh []mq.SegmentID, list []fact) error {
	if err := s.rollFor(fresh); err != nil {
		return err
	}
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	for i := range list {
		if list[i].Create != nil {
			s.facts.gen++ // taken now: another list may be on its way
			list[i].Gen, list[i].First = s.facts.gen, s.active.number
		}
	}
	return nil
}

// rollFor makes the active volume one without keys of these segments. Committer's goroutine.
func (s *Store) rollFor(ids []mq.SegmentID) error {
	if !slices.ContainsFunc(ids, func(id mq.SegmentID) bool { _, seen := s.activeSeen[id]; return seen }) {
		return nil
	}
	err := s.roll(true)
	if err != nil && !errors.Is(err, ErrStorageFull) {
		s.fail(err)
	}
	return err
}

// sameSegment compares what never changes in a segment.
func sameSegment(a, b *mq.Segment) bool {
	return a.ID == b.ID && a.Partition == b.Partition && a.Number == b.Number && a.Base == b.Base &&
		a.Quorum == b.Quorum && a.Leader == b.Leader && slices.Equal(a.Replicas, b.Replicas)
}

// SealSegments sets seal flags, durably, with one sync of the facts and one of the ledger. Appends queued
// before the call are committed first; later ones are refused (ErrSealed), copies up to a decided end
// excepted. When it returns, Segment answers the tail that the seal found. Nothing is sealed when one of
// the segments is unknown.
func (s *Store) SealSegments(ids []mq.SegmentID) error {
	defer s.holds.take(ids...)()
	var list []fact
	if err := s.inOrder(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range ids {
			if s.segments[id] == nil {
				return fmt.Errorf("%w: %d", ErrUnknownSegment, id)
			}
		}
		for _, id := range ids {
			if g := s.segments[id]; !g.facts.seal {
				g.facts.seal = true
				list = append(list, fact{Seal: id})
			}
		}
		return nil
	}); err != nil {
		return err
	}
	// The ledger carries the flag too, so that damage to the last line of the facts can't forget it. Which of them is durable first does
	// not matter, for nobody hears of the seal before both are: a partition has no leader meanwhile.
	marked := make(chan error, 1)
	go func() { marked <- s.recordMarks(ids) }()
	return errors.Join(s.recordFacts(list...), <-marked)
}

// recordMarks writes the ledger lines of segments now.
func (s *Store) recordMarks(ids []mq.SegmentID) error {
	err := s.ledger.record(func() []mark {
		s.mu.Lock()
		defer s.mu.Unlock()
		var marks []mark
		for _, id := range ids {
			if g := s.segments[id]; g != nil && !g.damaged {
				marks = append(marks, g.mark())
				delete(s.moved, id)
			}
		}
		return marks
	})
	if err != nil {
		return s.fail(err)
	}
	return nil
}
