package store

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// EntryAt returns a copy of the encoded entry that takes a message offset, ErrNotFound when no entry of
// the segment does, ErrDamaged when the one that did is gone or broken.
func (s *Store) EntryAt(id mq.SegmentID, offset uint64) (data []byte, err error) {
	top := mq.Position{Offset: offset, Seq: math.MaxUint32}
	err = s.read(id, func() (*part, error) {
		p, ok, err := s.partOf(id, top)
		if err != nil || !ok {
			return nil, errors.Join(err, ErrNotFound)
		}
		return p, findOffset(p, id, offset, func(_ *mq.Entry, found []byte) error {
			data = append([]byte(nil), found...)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Scan gives the entries with At >= from to f, ascending, up to the tail at the time of the call, until f
// returns false. Of a damaged segment that is read from behind the tail on it gives what is there in a row, if anything is. data is
// valid during f only and must not be changed. f may read from the store, but must not close it. A panic
// in f is the caller's, who gets it.
func (s *Store) Scan(id mq.SegmentID, from mq.Position, f func(at mq.Position, data []byte) bool) error {
	info, ok := s.Segment(id)
	if !ok {
		return fmt.Errorf("%w: %d", ErrUnknownSegment, id)
	}
	until := info.Tail
	if from.Before(info.Segment.Base) {
		from = info.Segment.Base
	}
	if info.Damaged && !from.Before(until) {
		until = s.restUntil(id, from)
	}
	for from.Before(until) {
		err := s.read(id, func() (*part, error) {
			p, ok, err := s.firstPartFrom(id, from)
			if err != nil || !ok {
				return nil, errors.Join(err, errStop)
			}
			err = walkPart(p, id, from, func(e *mq.Entry, data []byte) error {
				if !e.At.Before(until) || !callback(f, e.At, data) {
					return errStop
				}
				from = e.Next()
				return nil
			})
			if err == nil && from.Before(p.next) {
				from = p.next // from was within the part's last entry
			}
			return p, err
		})
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ScanBack gives the entries with At < before to f, descending, until f returns false. data is valid
// during f only and must not be changed.
func (s *Store) ScanBack(id mq.SegmentID, before mq.Position, f func(at mq.Position, data []byte) bool) error {
	for {
		err := s.read(id, func() (*part, error) {
			p, ok, err := s.lastPartBefore(id, before)
			if err != nil || !ok {
				return nil, errors.Join(err, errStop)
			}
			return p, walkPartBack(p, id, before, func(e *mq.Entry, data []byte) error {
				before = e.At
				if !callback(f, e.At, data) {
					return errStop
				}
				return nil
			})
		})
		if errors.Is(err, ErrUnknownSegment) || err != nil && !errors.Is(err, errStop) {
			return err
		}
		if err != nil {
			return nil
		}
	}
}

// FirstStampAtLeast finds the position of the first entry whose stamp is at least stamp (Unix
// nanoseconds); false when the segment has none.
func (s *Store) FirstStampAtLeast(id mq.SegmentID, stamp int64) (at mq.Position, found bool, err error) {
	err = s.read(id, func() (*part, error) {
		p, ok, err := s.firstPart(id, (*segment).prefix, func(p *part) bool { return p.lastStamp >= stamp })
		if found = ok; err != nil || !ok {
			return nil, err
		}
		at, err = firstStamp(p, id, stamp)
		return p, err
	})
	return at, found && err == nil, err
}

// Verify reads a whole segment and compares it with the account of it (count and sum). ErrDamaged says
// that it is not what was written, and marks it so.
func (s *Store) Verify(id mq.SegmentID) error {
	var count, sum uint64
	info, _ := s.Segment(id)
	until := info.Tail
	if err := s.Scan(id, mq.Position{}, func(at mq.Position, data []byte) bool {
		count++
		sum += entrySum(data)
		return true
	}); err != nil {
		return err
	}
	s.mu.RLock()
	g := s.segments[id]
	moved := g == nil || g.tail != until
	wrong := !moved && (g.count != count || g.sum != sum)
	s.mu.RUnlock()
	if wrong {
		return s.damage(id, nil, fmt.Errorf("%w: segment %d has %d entries with sum %x", ErrDamaged, id, count, sum))
	}
	return nil
}

// read runs an attempt to read from a part, again when the part's volume went away under it (compaction,
// removal) or the part was cut. Damage that was met is recorded.
func (s *Store) read(id mq.SegmentID, attempt func() (*part, error)) error {
	for {
		p, err := attempt()
		switch {
		case errors.Is(err, errGone) && s.closing.Load():
			return ErrClosed
		case errors.Is(err, errGone):
			continue
		case errors.Is(err, ErrDamaged) && p != nil:
			if err = s.damage(id, p, err); err == nil {
				continue
			}
		}
		return err
	}
}

// changed says whether a part is no longer what a reader took it for. Called with the lock held.
func (g *segment) changed(seen *part) bool {
	for _, now := range g.whole() {
		if seen.first.Before(now.next) {
			return now.vol != seen.vol || now.next.Before(seen.next)
		}
	}
	return true
}

// damage counts damage that a reader met and marks the segment, durably: it takes no entries any more,
// and the node has it fetched again. Nil, if the part in which it was met (nil for none) is not the segment's any more: a
// replacement took its place, or compaction moved it.
func (s *Store) damage(id mq.SegmentID, in *part, err error) error {
	s.mu.Lock()
	g := s.segments[id]
	if in != nil && (g == nil || g.changed(in)) {
		s.mu.Unlock()
		return nil
	}
	s.metrics.damaged.Inc()
	if g == nil || g.damaged {
		s.mu.Unlock()
		return err
	}
	g.damaged = true
	s.damages.Add(1)
	select {
	case s.damaged <- struct{}{}:
	default:
	}
	gen := g.facts.gen
	s.mu.Unlock()
	s.log.Error("segment is damaged", "segment", id, "error", err)
	return errors.Join(err, s.recordFacts(fact{Damage: id, Gen: gen}))
}

// firstPartFrom copies the part that holds or follows pos; false when pos is at or beyond the tail.
func (s *Store) firstPartFrom(id mq.SegmentID, pos mq.Position) (*part, bool, error) {
	return s.firstPart(id, (*segment).whole, func(p *part) bool { return pos.Before(p.next) })
}

// firstPart copies the first one of some parts for which match holds; match must hold for all behind it too.
func (s *Store) firstPart(id mq.SegmentID, of func(*segment) []*part, match func(p *part) bool) (*part, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.segments[id]
	if g == nil {
		return nil, false, fmt.Errorf("%w: %d", ErrUnknownSegment, id)
	}
	for _, p := range of(g) {
		if match(p) {
			c := *p
			return &c, true, nil
		}
	}
	return nil, false, nil
}

// restUntil is the end of the part behind the tail that holds a position, or the zero position.
func (s *Store) restUntil(id mq.SegmentID, at mq.Position) mq.Position {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if g := s.segments[id]; g != nil {
		if p := g.restAt(at); p != nil {
			return p.next
		}
	}
	return mq.Position{}
}

// partOf copies the part that holds the entry at or before pos, if any does.
func (s *Store) partOf(id mq.SegmentID, pos mq.Position) (*part, bool, error) {
	s.mu.RLock()
	if g := s.segments[id]; g != nil {
		for _, p := range slices.Backward(g.rest) {
			if !pos.Before(p.first) {
				c := *p
				s.mu.RUnlock()
				return &c, true, nil
			}
		}
	}
	s.mu.RUnlock()
	return s.lastPart(id, func(p *part) bool { return !pos.Before(p.first) })
}

// lastPartBefore copies the last part that begins before pos.
func (s *Store) lastPartBefore(id mq.SegmentID, pos mq.Position) (*part, bool, error) {
	return s.lastPart(id, func(p *part) bool { return p.first.Before(pos) })
}

func (s *Store) lastPart(id mq.SegmentID, match func(p *part) bool) (*part, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.segments[id]
	if g == nil {
		return nil, false, fmt.Errorf("%w: %d", ErrUnknownSegment, id)
	}
	for i := len(g.parts) - 1; i >= 0; i-- {
		if match(g.parts[i]) {
			c := *g.parts[i]
			return &c, true, nil
		}
	}
	return nil, false, nil
}
