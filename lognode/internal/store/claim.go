package store

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// Claim is how far a damaged copy of an open segment reached before it was damaged: everything before that was synced here, and
// may have been acknowledged, and nothing behind it was. It is known where a start found the last entry intact, at or beyond
// the ledger's mark, so that what is damaged lies before it. What is broken beyond the last intact entry of a whole copy is
// taken for torn; of a damaged one it makes the end unknown. ErrUnknownSegment when the store has no such copy,
// ErrConflict when it is not damaged, its end is decided, or the claim is not known.
func (s *Store) Claim(id mq.SegmentID) (mq.Position, error) {
	info, ok := s.Segment(id)
	switch {
	case !ok:
		return mq.Position{}, fmt.Errorf("%w: %d", ErrUnknownSegment, id)
	case !info.Damaged || info.End != nil:
		return mq.Position{}, fmt.Errorf("%w: %s is damaged: %v, with the end %v", ErrConflict, &info.Segment, info.Damaged, info.End)
	}
	s.mu.RLock()
	var last part
	g := s.segments[id]
	known := g != nil && g.claim != nil
	if known {
		parts := g.whole()
		last = *parts[len(parts)-1]
		known = last.next == *g.claim
	}
	s.mu.RUnlock()
	if !known {
		return mq.Position{}, fmt.Errorf("%w: it is not known how far %s reached", ErrConflict, &info.Segment)
	}
	// What lies below the mark was counted at the start, not read.
	ends := mq.Position{}
	err := s.read(id, func() (*part, error) {
		return &last, walkPart(&last, id, last.last, func(e *mq.Entry, _ []byte) error {
			ends = e.Next()
			return nil
		})
	})
	switch {
	case err != nil:
		return mq.Position{}, fmt.Errorf("%w: the last entry of %s: %w", ErrConflict, &info.Segment, err)
	case ends != last.next:
		return mq.Position{}, fmt.Errorf("%w: the last entry of %s ends at %s, not at %s", ErrConflict, &info.Segment, ends, last.next)
	}
	return last.next, nil
}

// claim is what Claim answers of a copy that a start found damaged, nil where it can't be known.
func (w *settler) claim() *mq.Position {
	parts := w.g.whole()
	if w.g.facts.vague || w.g.facts.damaged && len(w.r.mended) > 0 || w.r.lost || w.r.holes > 0 || w.cut || w.blind || len(parts) == 0 {
		return nil // what is gone may have been its end; marks tell nothing new of one that was damaged before
	}
	for i, p := range parts[1:] {
		if p.first.Before(parts[i].next) {
			return nil
		}
	}
	end := parts[len(parts)-1].next
	if end.Before(w.expected()) || w.broken != nil && !w.broken.Before(end) {
		return nil
	}
	return &end
}

// Unended lists the damaged copies of which no end is decided: their segments were open when something that they had was found
// broken or missing.
func (s *Store) Unended() []SegmentInfo {
	return s.list(func(g *segment) bool { return g.damaged && g.facts.end == nil })
}
