package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// ClusterID is the cluster that the store belongs to, "" while none was set.
func (s *Store) ClusterID() string {
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	return s.facts.cluster
}

// SetClusterID records the cluster, durably. ErrConflict when another one is recorded.
func (s *Store) SetClusterID(id string) error {
	s.admin.Lock()
	defer s.admin.Unlock()
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
	return nil
}

// Named is the highest (number, revision) that the store saw named for a partition (rule R7); zeros when
// none.
func (s *Store) Named(p mq.PartitionID) (number uint64, revision int64) {
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	n := s.facts.named[p]
	return n.number, n.revision
}

// SetNamed raises what Named answers, durably. Less than what is recorded changes nothing.
func (s *Store) SetNamed(p mq.PartitionID, number uint64, revision int64) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	return s.recordFacts(s.raise(nil, p, number, revision)...)
}

func (s *Store) raise(list []fact, p mq.PartitionID, number uint64, revision int64) []fact {
	n, r := s.Named(p)
	if !(named{n, r}).less(named{number, revision}) {
		return list
	}
	return append(list, fact{Partition: &p, Number: number, Revision: revision})
}

// CreateSegments records segments that this store is to hold, with one sync, and the naming of their
// partitions at an etcd revision. A segment that is already recorded with the same content is left
// alone; with other content nothing at all is created (ErrConflict). One that is given as sealed has its
// seal flag and end from the start, and takes copies up to the end.
func (s *Store) CreateSegments(segs []mq.Segment, revision int64) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	var list []fact
	var fresh []mq.SegmentID
	for i := range segs {
		g := segs[i]
		if g.ID == 0 {
			return errors.New("store: segment id 0")
		}
		if known, ok := s.Segment(g.ID); ok {
			if !sameSegment(&known.Segment, &g) {
				return fmt.Errorf("%w: %s is recorded, not %s", ErrConflict, &known.Segment, &g)
			}
		} else if !slices.Contains(fresh, g.ID) {
			g.Replicas = slices.Clone(g.Replicas)
			fresh = append(fresh, g.ID)
			list = append(list, fact{Create: &g})
		}
		list = s.raise(list, g.Partition, g.Number, revision)
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
	for _, id := range fresh {
		if _, seen := s.activeSeen[id]; seen {
			if err := s.roll(true); err != nil {
				if !errors.Is(err, ErrStorageFull) {
					s.fail(err)
				}
				return err
			}
			break
		}
	}
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	gen := s.facts.gen
	for i := range list {
		if list[i].Create != nil {
			gen++
			list[i].Gen, list[i].First = gen, s.active.number
		}
	}
	return nil
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
	s.admin.Lock()
	defer s.admin.Unlock()
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
	// The ledger carries the flag too, so that damage to the last line of the facts can't forget it.
	if err := s.recordMarks(ids); err != nil {
		return err
	}
	return s.recordFacts(list...)
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

// SetEnd records the decided end of a segment, durably, and sets its seal flag: reads end there and
// copies up to it are taken. Entries beyond it are cut; what is below it never is. ErrConflict when
// another end is recorded, when the end is below the base, or when it lies within an entry; ErrDamaged
// when the entries beyond it can't be read (the replica is to be removed and fetched again).
func (s *Store) SetEnd(id mq.SegmentID, end mq.Position) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	info, ok := s.Segment(id)
	switch {
	case !ok:
		return fmt.Errorf("%w: %d", ErrUnknownSegment, id)
	case info.End != nil && *info.End == end:
		return nil
	case info.End != nil:
		return fmt.Errorf("%w: %s ends at %s, not at %s", ErrConflict, &info.Segment, info.End, end)
	case end.Before(info.Segment.Base):
		return fmt.Errorf("%w: %s can't end at %s", ErrConflict, &info.Segment, end)
	}
	// The flag first: no entry may slip in beyond the end while it is being made durable.
	if err := s.inOrder(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.segments[id].facts.seal = true
		return nil
	}); err != nil {
		return err
	}
	over, err := s.beyond(id, end)
	if err != nil {
		return err
	}
	if err := s.recordFacts(fact{ID: id, End: &end}); err != nil {
		return err
	}
	if err := s.inOrder(func() error { return s.cut(id, end, over) }); err != nil {
		return err
	}
	return s.recordMarks([]mq.SegmentID{id})
}

// excess is an entry beyond a decided end.
type excess struct {
	at, prev, next mq.Position
	bytes          int64
	sum            uint64
	stamp          int64
}

// beyond lists the entries that an end cuts off, last first, and the one before them if it is there.
func (s *Store) beyond(id mq.SegmentID, end mq.Position) (over []excess, err error) {
	scanErr := s.ScanBack(id, mq.Position{Offset: ^uint64(0), Seq: ^uint32(0)}, func(at mq.Position, data []byte) bool {
		var e mq.Entry
		if e, err = mq.ParseEntryHeader(data); err != nil {
			return false
		}
		if at.Before(end) && end.Before(e.Next()) {
			err = fmt.Errorf("%w: the end %s lies within the entry at %s", ErrConflict, end, at)
			return false
		}
		over = append(over, excess{at: at, prev: e.Prev, next: e.Next(), bytes: int64(len(data)), sum: entrySum(data), stamp: e.Stamp})
		return !at.Before(end)
	})
	return over, errors.Join(scanErr, err)
}

// cut takes entries beyond the end off the segment, and deletes them where their volume still takes
// writes. Elsewhere the end keeps them out of sight, now and after a restart. Committer's goroutine.
func (s *Store) cut(id mq.SegmentID, end mq.Position, over []excess) error {
	s.mu.Lock()
	g := s.segments[id]
	g.facts.end = &end
	var keys [][]byte
	for _, x := range over {
		if x.at.Before(end) {
			break
		}
		p := g.parts[len(g.parts)-1]
		if p.vol == s.active {
			keys = append(keys, entryKey(id, x.at))
		}
		p.count--
		p.bytes -= x.bytes
		p.sum -= x.sum
		p.next, p.last = x.at, x.prev
		p.vol.live -= x.bytes
		if p.count == 0 {
			p.vol.parts--
			g.parts = g.parts[:len(g.parts)-1]
			if p.vol == s.active {
				delete(s.activeParts, id)
			}
		}
	}
	if n := len(over); n > 0 && over[n-1].at.Before(end) && len(g.parts) > 0 {
		g.parts[len(g.parts)-1].lastStamp = over[n-1].stamp
	}
	g.recount()
	v := s.active
	s.mu.Unlock()
	if len(keys) == 0 || s.space.full() {
		return nil
	}
	if err := v.deleteKeys(keys); err != nil {
		return s.fail(err)
	}
	return nil
}

// deleteKeys removes entries, a bounded number in a transaction.
func (v *volume) deleteKeys(keys [][]byte) error {
	for chunk := range slices.Chunk(keys, groupEntries) {
		txn := v.db.NewTransactionAt(v.ts.Load(), true)
		for _, key := range chunk {
			if err := txn.Delete(key); err != nil {
				txn.Discard()
				return fmt.Errorf("store: %w", err)
			}
		}
		if err := v.commit(txn); err != nil {
			return err
		}
	}
	return nil
}

// RemoveSegments forgets segments, durably, with one sync; their space is given back in the background.
// Unknown ones are left out. Entries that are still queued are refused with ErrUnknownSegment.
func (s *Store) RemoveSegments(ids []mq.SegmentID) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	var list []fact
	for _, id := range ids {
		if _, ok := s.Segment(id); ok {
			list = append(list, fact{Remove: id})
		}
	}
	if err := s.recordFacts(list...); err != nil {
		return err
	}
	if err := s.inOrder(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range ids {
			s.dropLocked(id)
		}
		return nil
	}); err != nil {
		return err
	}
	poke(s.pokeJan)
	return s.ledgerRemoved(list)
}

// dropLocked takes a segment out of memory; Store.mu is held, on the committer's goroutine.
func (s *Store) dropLocked(id mq.SegmentID) {
	g := s.segments[id]
	if g == nil {
		return
	}
	g.absent = true
	for _, p := range g.parts {
		p.vol.live -= p.bytes
		p.vol.parts--
	}
	delete(s.segments, id)
	delete(s.activeParts, id)
	delete(s.moved, id)
}

// ledgerRemoved takes removed segments out of the ledger.
func (s *Store) ledgerRemoved(list []fact) error {
	err := s.ledger.record(func() []mark {
		marks := make([]mark, 0, len(list))
		for _, c := range list {
			marks = append(marks, mark{segment: c.Remove, removed: true})
		}
		return marks
	})
	if err != nil {
		return s.fail(err)
	}
	return nil
}
