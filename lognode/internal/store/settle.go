package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/splashdam/splashdam/shared/mq"
)

// settleAll decides every segment's tail.
func (r *recovery) settleAll() error {
	found := r.news
	for _, g := range r.s.segments {
		if err := r.settle(g, r.found[g.facts.gen]); err != nil {
			return err
		}
		if g.facts.first <= r.blind && g.facts.end == nil && !g.damaged {
			// It may have been longer than the ledger says, which lags; later starts find nothing strange in it.
			g.damaged = true
		}
		for _, p := range g.whole() {
			p.vol.parts++
			p.vol.live += p.bytes
		}
		if g.damaged && g.claim == nil && g.facts.end == nil && !g.facts.vague {
			g.facts.vague = true
			found = append(found, fact{Vague: g.facts.segment.ID, Gen: g.facts.gen})
		}
		if g.facts.damaged {
			continue // a read met it in an earlier run, or a start
		}
		if g.damaged {
			// Later starts may find nothing strange: the ledger or the list that told of it may be damaged, too, or go with its volume.
			found = append(found, fact{Damage: g.facts.segment.ID, Gen: g.facts.gen})
			r.damaged++
			r.s.metrics.damaged.Inc()
			r.s.log.Error("segment is damaged: it is shorter than the ledger says, has a hole, or may have been in a volume that is lost",
				"segment", g.facts.segment.ID, "intact", g.tail, "ledger", r.s.ledger.marks[g.facts.segment.ID].tail)
		} else if m, ok := r.s.ledger.marks[g.facts.segment.ID]; !ok && g.count > 0 || ok && m.tail != g.tail {
			r.s.moved[g.facts.segment.ID] = struct{}{}
		}
	}
	for chunk := range slices.Chunk(found, namedAtOnce) {
		if err := r.s.recordFacts(chunk...); err != nil {
			return err
		}
	}
	return nil
}

// settler works one segment out.
type settler struct {
	r     *recovery
	g     *segment
	found []*found
	mark  mark // zero when there is none
	// tail, prev and have are the walk's place: where the next entry belongs and which it must name.
	tail, prev mq.Position
	have       bool
	parts      []*part
	// Of a damaged one: cut says that something was taken for torn, blind that a run could not be read through, and broken is
	// where the last key lies whose entry is broken, nil for none.
	cut, blind bool
	broken     *mq.Position
}

// settle puts a segment together from its runs. Below the ledger's mark it trusts the count of the keys;
// beyond it every value is read. What is broken beyond the mark was torn and is cut, unless something
// intact lies behind it: that is a hole. A hole, and anything shorter than the mark, is damage.
func (r *recovery) settle(g *segment, runs []*found) error {
	slices.SortFunc(runs, func(a, b *found) int { return a.first.Compare(b.first) })
	w := &settler{r: r, g: g, found: runs, mark: r.s.ledger.marks[g.facts.segment.ID], tail: g.facts.segment.Base}
	if end := g.facts.end; end != nil {
		w.dropBeyond(*end)
	}
	err := w.trust()
	if err != nil {
		w.reset()
	}
	intact, err := w.walk()
	if err != nil {
		return err
	}
	g.parts = w.parts
	g.recount()
	switch {
	case g.tail.Before(w.expected()):
		g.damaged = true
	case !intact:
		if err := w.cutTorn(); err != nil {
			return err
		}
	}
	if !g.damaged {
		return nil
	}
	if err := w.rest(); err != nil {
		return err
	}
	g.claim = w.claim()
	return nil
}

// expected is how far the ledger and the lists say the segment was synced; a decided end takes nothing but what is
// beyond it.
func (w *settler) expected() mq.Position { return w.r.expected(w.g) }

func (r *recovery) expected(g *segment) mq.Position {
	at := r.s.ledger.marks[g.facts.segment.ID].tail
	if told := r.told[g.facts.gen]; at.Before(told) {
		at = told
	}
	if end := g.facts.end; end != nil && end.Before(at) {
		return *end
	}
	return at
}

// dropBeyond leaves out runs and entries beyond a decided end. They are invisible from now on.
func (w *settler) dropBeyond(end mq.Position) {
	w.found = slices.DeleteFunc(w.found, func(f *found) bool { return !f.first.Before(end) })
	for _, f := range w.found {
		if f.known && end.Before(f.next) {
			f.known = false // counted anew by the walk
		}
	}
}

func (w *settler) reset() {
	w.tail, w.prev, w.have, w.parts = w.g.facts.segment.Base, mq.Position{}, false, nil
}

// errDistrust says that the mark and the keys don't agree: the segment is walked from its base.
var errDistrust = errors.New("store: keys and mark differ")

// trust takes the entries below the mark by their keys' count, if that agrees with the mark.
func (w *settler) trust() error {
	m := w.mark
	end := w.g.facts.end
	if m.count == 0 {
		return nil
	}
	if end != nil && end.Before(m.tail) {
		return errDistrust
	}
	var count, sum uint64
	var unknown []*found
	for _, f := range w.found {
		if !f.first.Before(m.tail) {
			break
		}
		if f.known {
			if m.tail.Before(f.next) {
				f.known = false // the mark lies within: what is beyond it is walked
			} else if err := w.checkKeys(f); err != nil {
				return err
			} else {
				count, sum = count+f.count, sum+f.sum
				continue
			}
		}
		below, err := countBelow(f, w.g.facts.segment.ID, m.tail)
		if err != nil {
			return err
		}
		count += below.count
		unknown = append(unknown, below)
	}
	if count != m.count || len(unknown) > 1 {
		return errDistrust // two unlisted volumes share the sum: only after a crash right behind a roll
	}
	if len(unknown) == 1 {
		unknown[0].sum = m.sum - sum
	} else if sum != m.sum {
		return errDistrust
	}
	return w.takeBelow(unknown)
}

// takeBelow makes the parts of what lies below the mark.
func (w *settler) takeBelow(unknown []*found) error {
	m := w.mark
	below := slices.DeleteFunc(slices.Clone(w.found), func(f *found) bool { return !f.first.Before(m.tail) })
	for i, f := range below {
		p := f.part
		next := m.tail
		if i+1 < len(below) {
			next = below[i+1].first
		}
		if !f.known {
			p = unknown[0].part
			p.next = next
			if err := w.stamps(&p); err != nil {
				return err
			}
		}
		if p.first != w.tail || p.next != next {
			return errDistrust
		}
		w.tail, w.prev, w.have = p.next, p.last, true
		w.parts = append(w.parts, &p)
	}
	if w.tail != m.tail {
		return errDistrust
	}
	return nil
}

// checkKeys counts the keys of a listed part of an open segment. Segments with a decided end that are whole
// are taken at the list's word; reads check them.
func (w *settler) checkKeys(f *found) error {
	if end := w.g.facts.end; end != nil && *end == w.mark.tail || !f.vol.listed {
		return nil // scanKeys has just compared the keys of an unlisted volume
	}
	counted, err := countBelow(f, w.g.facts.segment.ID, f.next)
	if err != nil || counted.count != f.count || counted.last != f.last {
		return errDistrust
	}
	return nil
}

// countBelow counts the keys of a run before a position, and their bytes.
func countBelow(f *found, id mq.SegmentID, before mq.Position) (*found, error) {
	if f.last.Before(before) && !f.vol.listed {
		c := *f // the scan of the keys has counted them
		return &c, nil
	}
	return countKeys(f.vol, id, f.first, before)
}

// countKeys counts a segment's keys in a volume between two positions, and their bytes.
func countKeys(v *volume, id mq.SegmentID, from, before mq.Position) (*found, error) {
	c := &found{part: part{vol: v, first: from}}
	err := v.view(func(txn *badger.Txn) error {
		it := iterate(txn, id, false)
		defer it.Close()
		for it.Seek(entryKey(id, from)); it.Valid(); it.Next() {
			_, at, ok := parseKey(it.Item().Key())
			if !ok || !at.Before(before) {
				break
			}
			c.last = at
			c.count++
			c.bytes += valueBytes(it.Item().ValueSize())
		}
		return nil
	})
	return c, err
}

// stamps reads the part's first and last entry: for their stamps, and because the first and the last are
// what a damaged file loses most often. The last one must end where the part does.
func (w *settler) stamps(p *part) error {
	id := w.g.facts.segment.ID
	return p.vol.view(func(txn *badger.Txn) error {
		for _, at := range []mq.Position{p.first, p.last} {
			item, err := txn.Get(entryKey(id, at))
			if err != nil {
				return fmt.Errorf("%w: segment %d at %s: %w", ErrDamaged, id, at, err)
			}
			err = itemEntry(item, func(e *mq.Entry, _ []byte) error {
				if at == p.first {
					p.firstStamp = e.Stamp
				}
				if at == p.last {
					p.lastStamp = e.Stamp
					if e.Next() != p.next {
						return errDistrust
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
