package store

import (
	"errors"
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// Intact is up to where a replica's entries are there and whole: the tail, unless it is damaged. For a damaged one it
// reads the entries from the base on, once; it may take as long as reading the segment does. ErrUnknownSegment when
// the store has no such replica.
func (s *Store) Intact(id mq.SegmentID) (mq.Position, error) {
	info, ok := s.Segment(id)
	switch {
	case !ok:
		return mq.Position{}, fmt.Errorf("%w: %d", ErrUnknownSegment, id)
	case !info.Damaged:
		return info.Tail, nil
	}
	s.intactMu.Lock() // one walk at a time: who asks meanwhile gets its result
	defer s.intactMu.Unlock()
	s.mu.RLock()
	g := s.segments[id]
	var known *mq.Position
	if g != nil {
		known = g.intact
	}
	s.mu.RUnlock()
	if g == nil || known != nil {
		return deref(known), nil
	}
	at := info.Segment.Base
	err := s.Scan(id, at, func(_ mq.Position, data []byte) bool {
		e, err := mq.ParseEntryHeader(data)
		if err == nil {
			at = e.Next()
		}
		return err == nil
	})
	if err != nil && !errors.Is(err, ErrDamaged) {
		return mq.Position{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.intact = &at
	return at, nil
}

func deref(at *mq.Position) mq.Position {
	if at == nil {
		return mq.Position{}
	}
	return *at
}

// mend makes a damaged replica one that ends at a decided end, up to which it is intact (an operator went on with what
// is left, rule R6): what lies beyond does not count any more, and so is not damaged.
func (s *Store) mend(info *SegmentInfo, end mq.Position) error {
	id := info.Segment.ID
	s.mu.RLock()
	g := s.segments[id]
	gen, bounds := g.facts.gen, make([]mq.Position, len(g.parts))
	for i, p := range g.parts {
		bounds[i] = p.next
	}
	s.mu.RUnlock()
	kept, err := s.accountUntil(id, bounds, end)
	if err != nil {
		return err
	}
	if err := s.recordFacts(fact{ID: id, End: &end}, fact{Mended: id, Gen: gen}); err != nil {
		return err
	}
	err = s.inOrder(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		g.facts.end, g.facts.seal, g.facts.damaged, g.damaged, g.intact = &end, true, false, false, nil
		s.shortenParts(g, kept)
		return nil
	})
	if err != nil {
		return err
	}
	s.log.Warn("a damaged segment ends where it is intact now", "segment", id, "end", end)
	return s.recordMarks([]mq.SegmentID{id})
}

// accountUntil counts the entries of a segment below an end anew, for each of its parts, of which bounds are the ends.
func (s *Store) accountUntil(id mq.SegmentID, bounds []mq.Position, end mq.Position) (kept []part, err error) {
	at := mq.Position{}
	scanErr := s.Scan(id, mq.Position{}, func(_ mq.Position, data []byte) bool {
		var e mq.Entry
		if e, err = mq.ParseEntryHeader(data); err != nil || !e.At.Before(end) {
			return false
		}
		for len(kept) == 0 || !e.At.Before(bounds[len(kept)-1]) {
			if len(kept) == len(bounds) {
				err = fmt.Errorf("%w: segment %d has %s in no part", ErrDamaged, id, e.At)
				return false
			}
			kept = append(kept, part{})
		}
		kept[len(kept)-1].add(&e, len(data), entrySum(data))
		at = e.Next()
		return at.Before(end)
	})
	switch {
	case err != nil:
		return nil, err
	case len(kept) > 0 && at != end:
		return nil, fmt.Errorf("%w: segment %d is intact up to %s, which is not the end %s: %w", ErrConflict, id, at, end, scanErr)
	}
	return kept, nil
}

// shortenParts leaves of a segment's parts what was counted of the first ones. Called with the lock held, on the
// committer's goroutine. What is left out of the active volume stays in it, out of sight.
func (s *Store) shortenParts(g *segment, kept []part) {
	id := g.facts.segment.ID
	for i, p := range g.parts {
		p.vol.live -= p.bytes
		if i >= len(kept) {
			p.vol.parts--
			if s.activeParts[id] == p {
				delete(s.activeParts, id)
			}
			continue
		}
		vol := p.vol // compaction may have moved it meanwhile
		*p = kept[i]
		p.vol = vol
		vol.live += p.bytes
	}
	g.parts = g.parts[:len(kept)]
	for _, p := range g.rest {
		p.vol.live -= p.bytes
		p.vol.parts--
	}
	g.rest = nil
	g.recount()
}
