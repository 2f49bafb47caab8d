package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/dedup"
	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// takeRepeats takes the messages out of a batch whose idempotency keys are in the window, and notes the keys of the
// others with the places that they get now. A repeat of what is placed but not committed is answered with it: answers
// wait for the commit of everything placed, and if that never comes the keys go with the leadership.
func (l *leadership) takeRepeats(b *batch, now int64) {
	whole, err := mq.ParseBatch(b.body)
	if err != nil {
		return // it was checked when it came
	}
	kept := make([]int, 0, whole.Count)
	_ = whole.Each(nil, func(i int, m *mq.Message) bool {
		if m.Idempotency == (dedup.Key{}) {
			kept = append(kept, i)
			return true
		}
		if known, ok := l.keys.Find(m.Idempotency, now); ok {
			b.repeats = append(b.repeats, l.repeat(i, &known, m.Content))
			return true
		}
		l.keys.Add(dedup.Entry{Key: m.Idempotency, Content: m.Content, Number: b.first + uint64(len(kept)), Scheduled: b.times != nil, Stamp: now})
		kept = append(kept, i)
		return true
	})
	if len(b.repeats) == 0 {
		return
	}
	b.count = uint32(len(kept))
	b.attributes.Lanes, b.attributes.Keys = elements(b.attributes.Lanes, kept), elements(b.attributes.Keys, kept)
	b.times = elements(b.times, kept)
	if b.body = nil; len(kept) > 0 {
		b.body, _, _ = whole.Slice(nil, kept) // not compressed, as was checked when it came
	}
}

// elements keeps the elements with the given places, which ascend; nil stays nil.
func elements[T any](list []T, places []int) []T {
	if list == nil {
		return nil
	}
	for i, at := range places {
		list[i] = list[at]
	}
	return list[:len(places)]
}

// repeat is the answer to the message with ordinal i, whose key came before with known.
func (l *leadership) repeat(i int, known *dedup.Entry, content uint64) frame.Repeat {
	r := frame.Repeat{Ordinal: uint32(i), Conflict: known.Content != content, Scheduled: known.Scheduled, Number: known.Number, Stamp: known.Stamp}
	if known.Scheduled {
		if state, wanted := l.book.Look(known.Number); state == schedule.StatePending {
			r.Due = wanted.Due
		}
	}
	return r
}

// keysBytes is the size of one record of keys that are carried forward.
const keysBytes = 256 << 10

// carryKeys writes the keys of a segment that is about to be removed again, if they still count, and then calls done
// on the partition's goroutine; with an error if that could not be made sure.
func (p *Partition) carryKeys(l *leadership, s mq.Segment, done func(error)) {
	if l.keys.Len() == 0 {
		done(nil)
		return
	}
	p.beside(func(ctx context.Context) {
		var list []dedup.Entry
		err := p.withFooter(ctx, &s, func(f *footer.Footer) error {
			list = nil
			return f.Keys(p.env.Clock.Now()-int64(dedup.Window), func(keys dedup.Form, _ int) bool {
				list = keys.AppendTo(list)
				return true
			})
		})
		if !p.post(func() {
			switch {
			case err != nil:
				done(err)
			case p.lead != l || !l.serving || l.seg.Sealed():
				done(mqerr.New(mqerr.NotLeader, "the leadership ended"))
			default:
				p.placeKeys(l, list)
				l.answers.At(l.seg.Next(), done)
				l.release()
			}
		}) {
			return
		}
	})
}

// placeKeys puts keys into the journal again, in entries of their own: those that the table still holds.
func (p *Partition) placeKeys(l *leadership, list []dedup.Entry) {
	now := p.env.Clock.Now()
	var live []dedup.Entry
	size := 0
	for i, k := range list {
		if held, ok := l.keys.Find(k.Key, now); ok && held.Number == k.Number && held.Scheduled == k.Scheduled {
			live = append(live, k)
			size += 32
		}
		if len(live) == 0 || size < keysBytes && i < len(list)-1 {
			continue
		}
		data := make([]byte, mq.EntryHeaderSize, mq.EntryHeaderSize+size+16)
		data = mq.AppendRecord(data, mq.KindKeys, dedup.Append(nil, live))
		var e mq.Entry
		if err := l.seg.Place(&e, p.env.Clock.Now()); err != nil {
			p.stop(err)
			return
		}
		e.PutHeader(data)
		p.send(l, &e, data)
		live, size = live[:0], 0
	}
}
