package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// SetEnd records the decided end of a segment, durably, and sets its seal flag: reads end there and
// copies up to it are taken. Entries beyond it are cut; what is below it never is. ErrConflict when
// another end is recorded, when the end is below the base, or when it lies within an entry; ErrDamaged
// when the entries beyond it can't be read (the replica is to be removed and fetched again). A damaged replica that
// is intact up to the end is damaged no more.
func (s *Store) SetEnd(id mq.SegmentID, end mq.Position) error {
	defer s.holds.take(id)()
	info, ok := s.Segment(id)
	sealed := info.SealFlag
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
	if info.Damaged {
		if intact, err := s.Intact(id); err != nil || !intact.Before(end) {
			if err != nil {
				return err
			}
			return s.mend(&info, end)
		}
	}
	if !sealed {
		// The flag first: no entry may slip in beyond the end while it is being made durable.
		if err := s.flag(id, true); err != nil {
			return err
		}
		info, _ = s.Segment(id)
	}
	var over []excess
	if end.Before(info.Tail) {
		var err error
		if over, err = s.beyond(id, end); err != nil {
			if !sealed {
				err = errors.Join(err, s.flag(id, false))
			}
			return err
		}
	}
	if err := s.recordFacts(fact{ID: id, End: &end}); err != nil {
		return err
	}
	if err := s.inOrder(func() error { return s.cut(id, end, over) }); err != nil || len(over) == 0 {
		return err
	}
	return s.recordMarks([]mq.SegmentID{id})
}

// flag sets the seal flag in memory, in the order of the appends.
func (s *Store) flag(id mq.SegmentID, seal bool) error {
	return s.inOrder(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.segments[id].facts.seal = seal
		return nil
	})
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
