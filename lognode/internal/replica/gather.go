package replica

import (
	"context"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// stretch is messages in a row.
type stretch struct {
	first uint64
	count uint32
}

// wanted walks stretches, which ascend, message by message.
type wanted struct {
	list []stretch
	used uint32 // of the first one
}

// next is the next message that is wanted; false when there is none.
func (w *wanted) next() (uint64, bool) {
	if len(w.list) == 0 {
		return 0, false
	}
	return w.list[0].first + uint64(w.used), true
}

// rest are the messages that are wanted still.
func (w *wanted) rest() []stretch {
	if w.used == 0 {
		return w.list
	}
	first := stretch{w.list[0].first + uint64(w.used), w.list[0].count - w.used}
	return append([]stretch{first}, w.list[1:]...)
}

// skip moves on by n messages.
func (w *wanted) skip(n uint32) {
	for n > 0 {
		left := w.list[0].count - w.used
		if n < left {
			w.used += n
			return
		}
		w.list, w.used, n = w.list[1:], 0, n-left
	}
}

// within are the ordinals of the wanted messages from at (inclusive) to end (exclusive), none if all are wanted.
func (w wanted) within(at, end uint64) (ordinals []int, all bool) {
	if off, ok := w.next(); ok && off == at && uint64(w.list[0].count-w.used) >= end-at {
		return nil, true
	}
	for {
		off, ok := w.next()
		if !ok || off >= end {
			return ordinals, len(ordinals) > 0 && uint64(len(ordinals)) == end-at
		}
		n := min(uint64(w.list[0].count-w.used), end-off)
		for i := range n {
			ordinals = append(ordinals, int(off-at+i))
		}
		w.skip(uint32(n))
	}
}

// chunks reads messages, in pieces of stored batches: one for each batch, however the messages lie in it. It ends before
// what would exceed budget bytes, but for the first least messages, which come whatever their size: a stream between
// tiers takes the largest one, and not much beside it. n is how many it got, also with an error.
func (p *Partition) chunks(ctx context.Context, j journal, list []stretch, budget int, least uint32) (out []frame.Chunk, n uint32, size int, err error) {
	w := wanted{list: list}
	for {
		off, ok := w.next()
		if !ok || size >= budget && n >= least {
			return out, n, size, nil
		}
		e, err := p.entry(ctx, &j, off)
		if err != nil {
			return out, n, size, err
		}
		for b, err := range e.Batches() {
			if err != nil {
				return out, n, size, err
			}
			if len(w.list) == 0 || size >= budget && n >= least {
				break
			}
			ordinals, all := w.within(b.First, b.End())
			if !all && len(ordinals) == 0 {
				continue
			}
			c, took, err := chunkOf(&b.Batch, b.Raw, ordinals, budget-size, int(least-min(n, least)))
			if err != nil || took == 0 {
				return out, n, size, err
			}
			c.First, c.Stamp, c.Numbers = b.First, e.Stamp, numbersOf(b.Schedules, ordinals, took)
			out = append(out, c)
			n += uint32(took)
			size += len(c.Batch)
			w.skip(uint32(took))
			if took < len(ordinals) || all && took < b.Count {
				return out, n, size, nil
			}
		}
	}
}

// chunkOf is a part of a batch: the batch itself if all of it is wanted (no ordinals), a smaller batch, or for a
// compressed one the batch with ordinals. It has no more messages than fit the budget, or least; they may be none.
func chunkOf(b *mq.Batch, body []byte, ordinals []int, budget, least int) (frame.Chunk, int, error) {
	take := len(ordinals)
	if take == 0 {
		take = b.Count
	}
	if mean := len(body)/b.Count + 1; b.Codec == mq.CodecNone && take*mean > budget {
		take = min(take, max(least, budget/mean)) // by the mean size; the next call gets the rest
	} else if b.Codec != mq.CodecNone && len(body) > budget && least == 0 {
		take = 0
	}
	if take == 0 {
		return frame.Chunk{}, 0, nil
	}
	if take == b.Count {
		return frame.Chunk{Batch: body}, take, nil
	}
	if len(ordinals) == 0 {
		ordinals = make([]int, take)
		for i := range ordinals {
			ordinals[i] = i
		}
	}
	ordinals = ordinals[:take]
	meant := make([]uint32, take)
	for i, o := range ordinals {
		meant[i] = uint32(o)
	}
	sliced, ok, err := b.Slice(nil, ordinals)
	if err != nil {
		return frame.Chunk{}, 0, err
	}
	if !ok {
		return frame.Chunk{Ordinals: meant, Batch: body}, take, nil
	}
	return frame.Chunk{Ordinals: meant, Sliced: true, Batch: sliced}, take, nil
}

// numbersOf are the schedule numbers of the first took messages that are meant; none for a batch that was not scheduled.
func numbersOf(schedules []mq.Schedule, ordinals []int, took int) []uint64 {
	if schedules == nil {
		return nil
	}
	out := make([]uint64, took)
	for i := range out {
		at := i
		if len(ordinals) > 0 {
			at = ordinals[i]
		}
		out[i] = schedules[at].Number
	}
	return out
}
