package store

import (
	"fmt"
	"math/bits"

	"github.com/dgraph-io/badger/v4"

	"github.com/splashdam/splashdam/shared/mq"
)

// found is a run of a segment's keys in one volume, as recovery found it.
type found struct {
	part
	// known says that the part is all filled in (from a list); else only first, last, count and bytes are.
	known bool
	// below counts the keys before the ledger's mark.
	below uint64
}

// scanKeys reads the keys of a volume that has no list, or was listed as the active one: then what the
// list says is taken if the keys agree.
func (r *recovery) scanKeys(v *volume, list *volumeList) error {
	s := r.s
	listed := map[mq.SegmentID]*listPart{}
	if list != nil {
		for i := range list.Parts {
			listed[list.Parts[i].Segment] = &list.Parts[i]
		}
	}
	var run *found
	var runOf *segment
	end := func() {
		if run == nil {
			return
		}
		g := runOf.facts
		if l := listed[g.segment.ID]; l != nil && l.Gen == g.gen && l.Count == run.count && l.First == run.first && l.Last == run.last {
			run.part, run.known = *l.part(v), true
		}
		r.found[g.gen] = append(r.found[g.gen], run)
		run = nil
	}
	err := v.view(func(txn *badger.Txn) error {
		it := iterate(txn, 0, false)
		defer it.Close()
		var current mq.SegmentID
		var m mark
		for it.Rewind(); it.Valid(); it.Next() {
			id, at, ok := parseKey(it.Item().Key())
			if !ok || id == 0 {
				return fmt.Errorf("%w: volume %d has a key %x", ErrDamaged, v.number, it.Item().Key())
			}
			if id != current {
				end()
				current = id
				if runOf = s.segments[id]; runOf != nil && runOf.facts.mayLieIn(v.number) {
					run, m = &found{part: part{vol: v, first: at}}, s.ledger.marks[id]
				}
			}
			size := valueBytes(it.Item().ValueSize())
			v.bytes += size
			if run == nil {
				continue // a removed segment, an earlier creation of this one, or a replacement that was not finished
			}
			run.last = at
			run.count++
			run.bytes += size
			if at.Before(m.tail) {
				run.below++
			}
		}
		return nil
	})
	end()
	return err
}

// valueBytes is the exact length of a value from Badger's estimate, which takes the length field of a
// value-log entry for two bytes.
func valueBytes(estimate int64) int64 {
	if estimate < valueThreshold {
		return estimate
	}
	for n := int64(2); n < 6; n++ {
		if size := estimate + 2 - n; size > 0 && int64(bits.Len64(uint64(size))+6)/7 == n {
			return size
		}
	}
	return estimate
}

// noteSeen fills in which segments have keys in the active volume, removed ones and cut ones too: their
// keys would collide with those of a segment created again.
func (r *recovery) noteSeen() error {
	s := r.s
	return s.active.view(func(txn *badger.Txn) error {
		it := iterate(txn, 0, false)
		defer it.Close()
		for it.Rewind(); it.Valid(); {
			id, _, ok := parseKey(it.Item().Key())
			if !ok || id+1 == 0 {
				return nil
			}
			s.activeSeen[id] = struct{}{}
			it.Seek(entryKey(id+1, mq.Position{}))
		}
		return nil
	})
}
