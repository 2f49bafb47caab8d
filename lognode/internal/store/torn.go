package store

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/splashdam/splashdam/shared/mq"
)

// walk reads the values from the tail on and adds them to the parts, until the end or the first entry that
// is broken or does not follow. whole is false when something was left out.
func (w *settler) walk() (whole bool, err error) {
	for _, f := range w.found {
		if f.last.Before(w.tail) {
			continue
		}
		err := w.walkRun(f)
		if errors.Is(err, ErrDamaged) {
			w.r.s.log.Warn("recovery stops in a segment", "segment", w.g.facts.segment.ID, "at", w.tail, "error", err)
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// walkRun adds the entries of one run from the tail on. ErrDamaged at the first that is not in its place.
func (w *settler) walkRun(f *found) error {
	return w.keys(f, w.tail, func(item *badger.Item) error {
		return itemEntry(item, func(e *mq.Entry, data []byte) error {
			if end := w.g.facts.end; end != nil && end.Before(e.Next()) {
				return fmt.Errorf("%w: the entry at %s crosses the end %s", ErrDamaged, e.At, end)
			}
			if e.At != w.tail || w.have && e.Prev != w.prev {
				return fmt.Errorf("%w: %s (behind %s) where %s is expected", ErrDamaged, e.At, e.Prev, w.tail)
			}
			w.partOf(f).add(e, len(data), entrySum(data))
			w.tail, w.prev, w.have = e.Next(), e.At, true
			return nil
		})
	})
}

// keys gives a run's items from a position on to f, those beyond a decided end left out.
func (w *settler) keys(run *found, from mq.Position, f func(item *badger.Item) error) error {
	id := w.g.facts.segment.ID
	if from.Before(run.first) {
		from = run.first
	}
	return run.vol.view(func(txn *badger.Txn) error {
		it := iterate(txn, id, false)
		defer it.Close()
		for it.Seek(entryKey(id, from)); it.Valid(); it.Next() {
			_, at, ok := parseKey(it.Item().Key())
			if !ok || run.last.Before(at) {
				return nil
			}
			if end := w.g.facts.end; end != nil && !at.Before(*end) {
				return nil
			}
			if err := f(it.Item()); err != nil {
				return err
			}
		}
		return nil
	})
}

// partOf is the part that a run's entries go to: the last one when it was begun below the mark.
func (w *settler) partOf(f *found) *part {
	if n := len(w.parts); n > 0 && w.parts[n-1].vol == f.vol && w.parts[n-1].first == f.first {
		return w.parts[n-1]
	}
	p := &part{vol: f.vol, first: f.first}
	w.parts = append(w.parts, p)
	return p
}

// rest finds what is intact behind the tail of a damaged segment: no other replica may have it.
func (w *settler) rest() error {
	var p *part
	for _, f := range w.found {
		if f.last.Before(w.tail) {
			continue
		}
		p = nil // a part lies in one volume
		err := w.keys(f, w.tail, func(item *badger.Item) error {
			err := itemEntry(item, func(e *mq.Entry, data []byte) error {
				if p == nil || e.At != p.next || e.Prev != p.last {
					p = &part{vol: f.vol}
					w.g.rest = append(w.g.rest, p)
				}
				p.add(e, len(data), entrySum(data))
				return nil
			})
			if errors.Is(err, ErrDamaged) {
				_, at, _ := parseKey(item.Key())
				w.broken, p, err = &at, nil, nil
			}
			return err
		})
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		w.blind = w.blind || err != nil
	}
	return nil
}

// cutTorn deletes what lies beyond the tail, so that new entries can take its place. When something of it
// is intact, or its volume was closed in order, it was not torn: the segment is damaged.
func (w *settler) cutTorn() error {
	id := w.g.facts.segment.ID
	for _, f := range w.found {
		if f.last.Before(w.tail) {
			continue
		}
		var keys [][]byte
		hole := f.vol.listed
		err := w.keys(f, w.tail, func(item *badger.Item) error {
			keys = append(keys, item.KeyCopy(nil))
			hole = hole || itemEntry(item, func(*mq.Entry, []byte) error { return nil }) == nil
			return nil
		})
		if hole || errors.Is(err, ErrDamaged) {
			w.g.damaged = true
			return nil
		}
		if err == nil {
			err = f.vol.deleteKeys(keys)
		}
		if err != nil {
			return err
		}
		w.cut = true
		w.r.s.metrics.torn.Add(float64(len(keys)))
		w.r.s.log.Warn("a torn end was cut", "segment", id, "at", w.tail, "entries", len(keys))
	}
	return nil
}
