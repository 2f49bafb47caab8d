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
	s.retireLocked(s.segments[id])
	s.retireLocked(s.replacing[id])
	delete(s.segments, id)
	delete(s.replacing, id)
	delete(s.activeParts, id)
	delete(s.moved, id)
}

// retireLocked gives back what one copy has in the volumes; nil is none. Store.mu is held, on the committer's goroutine.
func (s *Store) retireLocked(g *segment) {
	if g == nil {
		return
	}
	g.absent = true
	for _, p := range g.whole() {
		p.vol.live -= p.bytes
		p.vol.parts--
	}
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
