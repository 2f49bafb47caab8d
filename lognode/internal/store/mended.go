package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// keeps says which entries a mended table may hold of a volume that is read by its keys: those that a segment may have in it. A
// removed segment's do not come back. Where all that the lost tables held is told, only what is told may have been in them: a
// value with a key in no table belongs to a write that a crash interrupted.
func (r *recovery) keeps(n uint32, l *volumeList) keeps {
	return func(lost []uint64) func(mq.SegmentID, mq.Position) bool {
		told := r.tells(n, l, lost)
		return func(id mq.SegmentID, at mq.Position) bool {
			g := r.s.segments[id]
			if g == nil || !g.facts.mayLieIn(n) || g.facts.end != nil && !at.Before(*g.facts.end) {
				return false
			}
			return !told || g.damaged || at.Before(r.expected(g))
		}
	}
}

// tells says whether the volume's list or the ledger tells of all that was in these tables. Neither does of segments that were
// damaged before.
func (r *recovery) tells(n uint32, l *volumeList, tables []uint64) bool {
	return l != nil || len(tables) == 0 || r.holes == 0 && r.s.ledger.stand.covers(n, slices.Max(tables))
}

// noteMended notes what it means that tables of a volume were mended, now or at a start that a crash interrupted. The list of
// one that is whole goes, because it is not true any more when entries are added; that of a mended one when what
// it tells is on disk.
func (r *recovery) noteMended(v *volume, l *volumeList) error {
	s := r.s
	names, err := asides(v.dir)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.Join(removeIfThere(listPath(s.root, v.number)), syncDir(s.root))
	}
	r.mended = append(r.mended, v)
	lost, err := lostTables(v.dir)
	if err != nil {
		return err
	}
	if !r.tells(v.number, l, lost) {
		r.lost, r.blind = true, max(r.blind, v.number)
	}
	s.log.Error("a volume was mended; entries that were in its tables only may be missing", "volume", v.number, "files", names)
	return nil
}

// volumeOf is a volume of this store. When it is closed and is found damaged by who opens it, it is mended with what its list says
// that it holds.
func (s *Store) volumeOf(number uint32) *volume {
	v := newVolume(s.root, number, s.log, &s.metrics.badgerErrors)
	v.keep = func([]uint64) func(mq.SegmentID, mq.Position) bool {
		l, err := readList(s.root, number)
		if err != nil || l == nil {
			return func(mq.SegmentID, mq.Position) bool { return true } // what no part tells of is not seen
		}
		parts := map[mq.SegmentID][]*listPart{}
		for i := range l.Parts {
			parts[l.Parts[i].Segment] = append(parts[l.Parts[i].Segment], &l.Parts[i])
		}
		return func(id mq.SegmentID, at mq.Position) bool {
			return slices.ContainsFunc(parts[id], func(p *listPart) bool { return !at.Before(p.First) && at.Before(p.Next) })
		}
	}
	v.mended = func() {
		if err := s.tellMended(v); err != nil {
			s.log.Warn("what was mended of a volume is not told", "volume", number, "error", err)
		}
	}
	return v
}

// tellMended marks the segments that miss something in a closed volume that was mended. Any goroutine; the volume can be read.
func (s *Store) tellMended(v *volume) error {
	names, err := asides(v.dir)
	if err != nil || len(names) == 0 {
		return err
	}
	l, err := readList(s.root, v.number)
	if err != nil || l == nil {
		l = s.listOf(v)
	}
	for i := range l.Parts {
		p := &l.Parts[i]
		c, err := countKeys(v, p.Segment, p.First, p.Next)
		if err == nil && c.count == p.Count {
			continue
		}
		s.mu.RLock()
		g := s.segments[p.Segment]
		gone := g == nil || g.facts.gen != p.Gen
		s.mu.RUnlock()
		if !gone {
			err = errors.Join(err, fmt.Errorf("%w: of %d entries in volume %d, %d are left", ErrDamaged, p.Count, v.number, c.count))
			s.log.Warn("entries were lost with a table", "segment", p.Segment, "error", s.damage(p.Segment, nil, err))
		}
	}
	if err := s.Err(); err != nil {
		return err // it is told when the volume is opened again
	}
	return toldOf(v.dir)
}
