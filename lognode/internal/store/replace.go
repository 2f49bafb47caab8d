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
	// claim is what a copy of an open segment must reach again, nil for one of a sealed segment.
	claim *mq.Position
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
	return s.beginReplacement(segmentFacts{segment: seg, seal: true, end: &end}, nil)
}

// Restore begins to make the damaged copy of an open segment what it was: a new one that reaches exactly as far as the old one did
// (Claim), under the same creation record, with the seal flag if there was one. ErrUnknownSegment when there is no copy,
// ErrConflict when it is not damaged, its end is decided or not known, or it is being replaced, ErrStorageFull when there is no
// room.
func (s *Store) Restore(id mq.SegmentID) (*Replacement, error) {
	defer s.holds.take(id)()
	claim, err := s.Claim(id)
	if err != nil {
		return nil, err
	}
	known, _ := s.Segment(id)
	return s.beginReplacement(segmentFacts{segment: known.Segment}, &claim)
}

// beginReplacement makes a replacement with these facts. The segment is held.
func (s *Store) beginReplacement(f segmentFacts, claim *mq.Position) (*Replacement, error) {
	id := f.segment.ID
	err := s.inOrder(func() error {
		s.mu.RLock()
		_, busy := s.replacing[id]
		s.mu.RUnlock()
		if busy {
			return fmt.Errorf("%w: %s is being replaced", ErrConflict, &f.segment)
		}
		if err := s.rollFor([]mq.SegmentID{id}); err != nil { // the keys are those of the old copy
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
	if err := s.recordFacts(fact{Replacing: id, Gen: f.gen, First: f.first}); err != nil {
		return nil, err
	}
	r := &Replacement{s: s, g: newSegment(f), claim: claim}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replacing[id] = r.g
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

// Commit puts the new copy in the place of the old one, durably, if it reaches up to a position: the end, what is kept before
// it, or what a restored copy claims. ErrConflict when it does not, or when the end of a restored one was decided meanwhile;
// ErrAccount when it does not hold what the old copy's account says (as many entries, with the same sum of CRCs) although both end
// there; ErrUnknownSegment when the segment was removed meanwhile.
func (r *Replacement) Commit(upTo mq.Position) error { return r.commit(upTo, false) }

// CommitVouched is Commit after ErrAccount, for a caller who found that other whole copies have the account of the new one
// (Account): what is wrong is the old one's. It is for segments with a decided end only.
func (r *Replacement) CommitVouched(upTo mq.Position) error { return r.commit(upTo, r.claim == nil) }

// Account is how many entries the new copy has, and the sum of their CRCs.
func (r *Replacement) Account() (entries, sum uint64) {
	r.s.mu.RLock()
	defer r.s.mu.RUnlock()
	return r.g.count, r.g.sum
}

func (r *Replacement) commit(upTo mq.Position, vouched bool) error {
	s, g := r.s, r.g
	id := g.facts.segment.ID
	defer s.holds.take(id)()
	if err := r.check(upTo, vouched); err != nil {
		return err
	}
	seg := g.facts.segment
	list := []fact{{Create: &seg, Gen: g.facts.gen, First: g.facts.first}}
	if g.facts.end != nil {
		list = append(list, fact{ID: id, End: g.facts.end})
	} else if old, _ := s.Segment(id); old.SealFlag {
		list = append(list, fact{Seal: id})
	}
	if err := s.recordFacts(list...); err != nil {
		return err
	}
	err := s.inOrder(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		old := s.segments[id]
		g.facts.seal = old.facts.seal || g.facts.seal
		s.retireLocked(old)
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

// check says why the new copy may not take the place of the old one. The segment is held.
func (r *Replacement) check(upTo mq.Position, vouched bool) error {
	s, g := r.s, r.g
	id := g.facts.segment.ID
	m := s.ledger.of(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	old, mine := s.segments[id], s.replacing[id] == g
	switch {
	case old == nil || !mine:
		return fmt.Errorf("%w: %d was removed, or is replaced already", ErrUnknownSegment, id)
	case g.tail != upTo:
		return fmt.Errorf("%w: the new copy of segment %d ends at %s, not at %s", ErrConflict, id, g.tail, upTo)
	case r.claim != nil && old.facts.end != nil:
		return fmt.Errorf("%w: the end of segment %d was decided meanwhile", ErrConflict, id)
	case r.claim != nil && g.tail != *r.claim:
		return fmt.Errorf("%w: the copy of segment %d reached %s, the new one ends at %s", ErrConflict, id, r.claim, g.tail)
	case vouched:
		return nil
	case old.tail == g.tail && (old.count != g.count || old.sum != g.sum):
		return fmt.Errorf("%w: segment %d was written with %d entries (sum %x), the new copy has %d (%x)", ErrAccount, id, old.count, old.sum, g.count, g.sum)
	case r.claim != nil && m.gen == old.facts.gen && m.tail == g.tail && (m.count != g.count || m.sum != g.sum):
		return fmt.Errorf("%w: the ledger has %d entries (sum %x) of segment %d, the new copy has %d (%x)", ErrAccount, m.count, m.sum, id, g.count, g.sum)
	}
	return nil
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
