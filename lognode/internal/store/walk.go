package store

import (
	"errors"
	"fmt"
	"math"

	"github.com/dgraph-io/badger/v4"

	"github.com/splashdam/splashdam/shared/mq"
)

// errStop ends a walk early; it never leaves the package.
var errStop = errors.New("store: stop")

// visit is called with an entry and its encoded form, both valid during the call only.
type visit func(e *mq.Entry, data []byte) error

// walkPart gives the part's entries with At >= from to f, ascending, checking each entry and that they
// form the chain that the part describes: a hole and a missing end are damage.
func walkPart(p *part, id mq.SegmentID, from mq.Position, f visit) error {
	if p.last.Before(from) {
		return nil
	}
	return p.vol.view(func(txn *badger.Txn) error {
		it := iterate(txn, id, false)
		defer it.Close()
		c := chain{from: from, begin: p.first}
		if from.Before(p.first) {
			from = p.first
		}
		for it.Seek(entryKey(id, from)); c.expect.Before(p.next); it.Next() {
			if !it.Valid() {
				return fmt.Errorf("%w: segment %d has nothing at or behind %s", ErrDamaged, id, c.at())
			}
			err := itemEntry(it.Item(), func(e *mq.Entry, data []byte) error {
				if err := c.follow(e); err != nil {
					return err
				}
				return f(e, data)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// chain checks that entries follow each other.
type chain struct {
	from, begin  mq.Position
	expect, prev mq.Position
	begun        bool
}

// at is where the next entry is expected, for messages.
func (c *chain) at() mq.Position {
	if c.begun {
		return c.expect
	}
	return c.from
}

func (c *chain) follow(e *mq.Entry) error {
	ok := false
	switch {
	case c.begun:
		ok = e.At == c.expect && e.Prev == c.prev
	case !c.begin.Before(c.from):
		ok = e.At == c.begin
	default:
		// from need not be where an entry begins: the first one behind it must name one before it.
		ok = e.At == c.from || e.Prev.Before(c.from)
	}
	if !ok {
		return fmt.Errorf("%w: segment %d has %s (behind %s) where %s is expected", ErrDamaged, e.Segment, e.At, e.Prev, c.at())
	}
	c.expect, c.prev, c.begun = e.Next(), e.At, true
	return nil
}

// walkPartBack gives the part's entries with At < before to f, descending, with the same checks.
func walkPartBack(p *part, id mq.SegmentID, before mq.Position, f visit) error {
	if p.next.Before(before) {
		before = p.next
	}
	if !p.first.Before(before) {
		return nil
	}
	return p.vol.view(func(txn *badger.Txn) error {
		it := iterate(txn, id, true)
		defer it.Close()
		seekBefore(it, id, before)
		expect, begun, done := mq.Position{}, false, false
		for ; !done; it.Next() {
			if !it.Valid() {
				return fmt.Errorf("%w: segment %d has nothing before %s", ErrDamaged, id, before)
			}
			err := itemEntry(it.Item(), func(e *mq.Entry, data []byte) error {
				// The last one before a position must reach up to it, else something between is missing.
				if begun && e.At != expect || !begun && e.Next().Before(before) {
					return fmt.Errorf("%w: segment %d has %s as the last before %s", ErrDamaged, id, e.At, before)
				}
				expect, begun, done, before = e.Prev, true, e.At == p.first, e.At
				return f(e, data)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// seekBefore places a reverse iterator at the last key before a position.
func seekBefore(it *badger.Iterator, id mq.SegmentID, before mq.Position) {
	it.Seek(entryKey(id, before))
	if it.Valid() {
		if _, at, ok := parseKey(it.Item().Key()); ok && at == before {
			it.Next()
		}
	}
}

// findOffset gives the part's entry that takes a message offset to f. At one offset only the entry with
// the highest seq can take messages, so one reverse seek finds it.
func findOffset(p *part, id mq.SegmentID, offset uint64, f visit) error {
	from := mq.Position{Offset: offset, Seq: math.MaxUint32}
	if !from.Before(p.next) {
		from = p.last
	}
	return p.vol.view(func(txn *badger.Txn) error {
		it := iterate(txn, id, true)
		defer it.Close()
		it.Seek(entryKey(id, from))
		if !it.Valid() {
			return fmt.Errorf("%w: segment %d has nothing at or before offset %d", ErrDamaged, id, offset)
		}
		return itemEntry(it.Item(), func(e *mq.Entry, data []byte) error {
			switch {
			case e.Count > 0 && offset-e.At.Offset < uint64(e.Count):
				return f(e, data)
			case e.Next().Before(p.next):
				return fmt.Errorf("%w: segment %d has %s as the entry for offset %d", ErrDamaged, id, e.At, offset)
			}
			return ErrNotFound
		})
	})
}

// firstStamp finds the part's first entry with a stamp of at least stamp; the part's last one has such a
// stamp. Stamps never go back, so it bisects, first by offset, then by seq within an offset.
func firstStamp(p *part, id mq.SegmentID, stamp int64) (at mq.Position, err error) {
	err = p.vol.view(func(txn *badger.Txn) error {
		it := iterate(txn, id, false)
		defer it.Close()
		// reached says whether the first entry at or behind pos has the stamp.
		reached := func(pos mq.Position) (yes bool, err error) {
			it.Seek(entryKey(id, pos))
			if !it.Valid() {
				return false, fmt.Errorf("%w: segment %d has nothing at or behind %s", ErrDamaged, id, pos)
			}
			err = itemEntry(it.Item(), func(e *mq.Entry, _ []byte) error {
				at, yes = e.At, e.Stamp >= stamp
				return nil
			})
			return yes, err
		}
		offset, err := bisect(p.first.Offset+1, p.last.Offset+1, func(o uint64) (bool, error) {
			return reached(mq.Position{Offset: o})
		})
		if err != nil {
			return err
		}
		// The answer is at the offset before, or is the first entry at this one.
		low, high := mq.Position{Offset: offset - 1}, uint64(math.MaxUint32)
		if low.Offset == p.first.Offset {
			low.Seq = p.first.Seq
		}
		if low.Offset == p.last.Offset {
			high = uint64(p.last.Seq)
		}
		seq, err := bisect(uint64(low.Seq), high, func(seq uint64) (bool, error) {
			return reached(mq.Position{Offset: low.Offset, Seq: uint32(seq)})
		})
		if err != nil {
			return err
		}
		_, err = reached(mq.Position{Offset: low.Offset, Seq: uint32(seq)})
		return err
	})
	return at, err
}

// bisect finds the smallest v in [low, high] for which yes holds, taking it to hold at high.
func bisect(low, high uint64, yes func(uint64) (bool, error)) (uint64, error) {
	for low < high {
		mid := low + (high-low)/2
		ok, err := yes(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low, nil
}
