package delivery

import (
	"math"

	"github.com/splashdam/splashdam/shared/mq"
)

// Namer says which messages a record is about, for the index by which a trace finds its entries. Its zero value is
// ready; it is for one goroutine.
//
// Whoever adds a kind of record that TraceEntry makes an event of names its messages here: a kind that is not known
// names every message, which is slow and never wrong.
type Namer struct {
	delivered delivered
	settled   settled
	redriven  redriven
	removed   deadRemoved
	exported  deadExported
}

// Each calls f with ranges of offsets that a record is about. The messages that a record brings are not named: they are
// found by their offset.
func (n *Namer) Each(rec mq.Record, f func(first, count uint64)) {
	switch rec.Kind {
	case mq.KindMessages, mq.KindCheckpoint, mq.KindSnapshot, mq.KindScheduled, mq.KindReleased, mq.KindCancelled, mq.KindKeys, mq.KindCarried:
		return
	case mq.KindGroup:
		if rec.Version != 1 || len(rec.Body) > 0 && rec.Body[0] != groupSeek {
			return // a seek is about every message
		}
	case mq.KindDelivered:
		if rec.Version == 1 && n.delivered.read(rec.Body) == nil {
			for _, r := range n.delivered.runs {
				f(r.First, uint64(r.Count))
			}
			return
		}
	case mq.KindSettled:
		if rec.Version == 1 && n.settled.read(rec.Body) == nil {
			for i := range n.settled.marks {
				f(n.settled.marks[i].first, n.settled.marks[i].count)
			}
			return
		}
	case mq.KindRedriven:
		if rec.Version == 1 && n.redriven.read(rec.Body) == nil {
			n.redriven.each(f)
			return
		}
	case mq.KindDeadRemoved:
		if rec.Version == 1 && n.removed.read(rec.Body) == nil {
			n.removed.each(f)
			return
		}
	case mq.KindDeadExported:
		if rec.Version == 1 && n.exported.read(rec.Body) == nil {
			n.exported.each(f)
			return
		}
	}
	f(0, math.MaxUint64)
}
