package store

import "github.com/splashdam/splashdam/shared/mq"

// RemoveSegments forgets segments, durably, with one sync; their space is given back in the background.
// Unknown ones are left out. Entries that are still queued are refused with ErrUnknownSegment.
func (s *Store) RemoveSegments(ids []mq.SegmentID) error {
	var list []fact
	for _, id := range ids {
		if _, ok := s.Segment(id); ok {
			list = append(list, fact{Remove: id})
		}
	}
	return s.remove(ids, list)
}

// GiveUp is RemoveSegments for a damaged copy that is to be fetched anew; the store remembers that it had one (GaveUp).
func (s *Store) GiveUp(id mq.SegmentID) error {
	return s.remove([]mq.SegmentID{id}, []fact{{Remove: id}, {GaveUp: id}})
}

// GaveUp says whether this store gave up a damaged copy of a segment: what a copy lacks that was made after that says
// nothing about what the store had.
func (s *Store) GaveUp(id mq.SegmentID) bool {
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	return s.facts.gaveUp[id]
}

func (s *Store) remove(ids []mq.SegmentID, list []fact) error {
	defer s.holds.take(ids...)()
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
	s.removeFooters(ids)
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
			if c.Remove == 0 {
				continue
			}
			marks = append(marks, mark{segment: c.Remove, removed: true})
		}
		return marks
	})
	if err != nil {
		return s.fail(err)
	}
	return nil
}
