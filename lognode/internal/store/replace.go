package store

import (
	"errors"
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// Replacement is a new copy of a damaged segment that is made beside the old one. Reads are answered from the old one until
// Commit puts the new one in its place with one durable fact; a crash before that leaves the old one as it was. It takes room
// for the entries a second time. Its methods are for one goroutine.
type Replacement struct {
	s *Store
	g *segment
}

// Replace begins to replace the damaged copy of a sealed segment. seg is the new one's creation record, and end where the
// segment was decided to end. One replacement of a segment is made at a time. ErrUnknownSegment when there is no copy to
// replace, ErrConflict when that is not damaged, is of another segment or is being replaced, ErrStorageFull when there is no room.
func (s *Store) Replace(seg mq.Segment, end mq.Position) (*Replacement, error) {
	defer s.holds.take(seg.ID)()
	known, ok := s.Segment(seg.ID)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %d", ErrUnknownSegment, seg.ID)
	case !known.Damaged || !sameSegment(&known.Segment, &seg) || known.End != nil && *known.End != end:
		return nil, fmt.Errorf("%w: %s is recorded and damaged: %v; %s can't replace it", ErrConflict, &known.Segment, known.Damaged, &seg)
	}
	f := segmentFacts{segment: seg, seal: true, end: &end}
	err := s.inOrder(func() error {
		s.mu.RLock()
		_, busy := s.replacing[seg.ID]
		s.mu.RUnlock()
		if busy {
			return fmt.Errorf("%w: %s is being replaced", ErrConflict, &seg)
		}
		if err := s.rollFor([]mq.SegmentID{seg.ID}); err != nil { // the keys are those of the old copy
			return err
		}
		s.facts.mu.Lock()
		defer s.facts.mu.Unlock()
		s.facts.gen++
		f.gen, f.first = s.facts.gen, s.active.number
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.recordFacts(fact{Replacing: seg.ID, Gen: f.gen, First: f.first}); err != nil {
		return nil, err
	}
	r := &Replacement{s: s, g: newSegment(f)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replacing[seg.ID] = r.g
	return r, nil
}

// Add appends entries in order, as Append does, and waits until they are synced. After an error the replacement is good for
// Abandon only.
func (r *Replacement) Add(entries ...[]byte) error {
	appends := make([]Append, len(entries))
	done := make(chan error, len(entries))
	for i, data := range entries {
		e, err := mq.ParseEntry(data)
		if err != nil {
			return err
		}
		appends[i] = Append{Segment: e.Segment, At: e.At, Next: e.Next(), Data: data, into: r.g, Done: func(err error) { done <- err }}
	}
	if err := r.s.Append(appends...); err != nil {
		return err
	}
	var errs []error
	for range appends {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// Commit puts the new copy in the place of the old one, durably, if it reaches up to a position: the end, or what is kept before
// it. ErrConflict when it does not, or when it does not hold what was written to the old copy (as many entries, with the same sum
// of CRCs) although both end there; ErrUnknownSegment when the segment was removed meanwhile.
func (r *Replacement) Commit(upTo mq.Position) error {
	s, g := r.s, r.g
	id := g.facts.segment.ID
	defer s.holds.take(id)()
	s.mu.RLock()
	old, mine := s.segments[id], s.replacing[id] == g
	var err error
	switch {
	case old == nil || !mine:
		err = fmt.Errorf("%w: %d was removed, or is replaced already", ErrUnknownSegment, id)
	case g.tail != upTo:
		err = fmt.Errorf("%w: the new copy of segment %d ends at %s, not at %s", ErrConflict, id, g.tail, upTo)
	case old.tail == g.tail && (old.count != g.count || old.sum != g.sum):
		err = fmt.Errorf("%w: segment %d was written with %d entries (sum %x), the new copy has %d (%x)", ErrConflict, id, old.count, old.sum, g.count, g.sum)
	}
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	seg := g.facts.segment
	if err := s.recordFacts(fact{Create: &seg, Gen: g.facts.gen, First: g.facts.first}, fact{ID: id, End: g.facts.end}); err != nil {
		return err
	}
	err = s.inOrder(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.retireLocked(s.segments[id])
		s.segments[id] = g
		delete(s.replacing, id)
		return nil
	})
	if err != nil {
		return err
	}
	poke(s.pokeJan)
	return s.recordMarks([]mq.SegmentID{id})
}

// Abandon gives up a replacement that was not committed, and its space; the old copy stays. After Commit it does nothing.
func (r *Replacement) Abandon() error {
	s, id := r.s, r.g.facts.segment.ID
	err := s.inOrder(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.replacing[id] == r.g {
			s.retireLocked(r.g)
			delete(s.replacing, id)
			delete(s.activeParts, id)
		}
		return nil
	})
	poke(s.pokeJan)
	return err
}

// mayLieIn says whether keys of the segment that are found in a volume without a list are of this creation.
func (f *segmentFacts) mayLieIn(number uint32) bool {
	return number >= f.first && (f.below == 0 || number < f.below)
}

// copiesLocked goes over all copies that have something in the volumes; Store.mu is held.
func (s *Store) copiesLocked(yield func(*segment) bool) {
	for _, g := range s.segments {
		if !yield(g) {
			return
		}
	}
	for _, g := range s.replacing {
		if !yield(g) {
			return
		}
	}
}

// copyLocked is the copy of a segment that was created as gen, or nil; Store.mu is held.
func (s *Store) copyLocked(id mq.SegmentID, gen uint64) *segment {
	for _, g := range []*segment{s.segments[id], s.replacing[id]} {
		if g != nil && g.facts.gen == gen {
			return g
		}
	}
	return nil
}
