package replay

import (
	"context"
	"sync"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// stored is one message of the fake leaders; its offset is its index plus first.
type stored struct {
	stamp int64
	value string
}

// leaders answers reads as frame.ReadDone says, from plain lists.
type leaders struct {
	mu    sync.Mutex
	first map[uint32]uint64
	logs  map[uint32][]stored
	calls int
	batch int // messages in one stored batch
}

func (l *leaders) resolve(n uint32, p frame.Place) uint64 {
	end := l.first[n] + uint64(len(l.logs[n]))
	switch p.Where {
	case frame.AtOffset:
		return p.Value
	case frame.Earliest:
		return l.first[n]
	case frame.Latest:
		return end
	}
	for i, m := range l.logs[n] {
		if m.stamp >= int64(p.Value) {
			return l.first[n] + uint64(i)
		}
	}
	return end
}

func (l *leaders) fetch(_ context.Context, f *frame.Read) (*frame.ReadDone, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	n := f.Partition.Number
	first, end := l.first[n], l.first[n]+uint64(len(l.logs[n]))
	low, high := l.resolve(n, f.From), l.resolve(n, f.To)
	done := &frame.ReadDone{First: first, End: end, Next: min(low, end)}
	low, high = max(low, first), min(high, end)
	if low >= high {
		return done, nil
	}
	if f.Backward {
		low = max(low, high-min(high, uint64(f.Limit)))
		done.Next = low
	} else {
		high = min(high, low+uint64(f.Limit))
		done.Next = high
	}
	for o := low; o < high; {
		start := o - (o-first)%uint64(l.batch)
		stop := min(start+uint64(l.batch), end)
		done.Chunks = append(done.Chunks, l.chunk(n, start, stop, o, min(high, stop)))
		o = min(high, stop)
	}
	return done, nil
}

// chunk is the stored batch [start, stop) of which [from, to) is wanted. All of a batch carries one stamp in
// the real thing; here every batch of the tests has the stamp of its first message.
func (l *leaders) chunk(n uint32, start, stop, from, to uint64) frame.Chunk {
	var b mq.BatchBuilder
	c := frame.Chunk{First: start, Stamp: l.logs[n][start-l.first[n]].stamp}
	for o := start; o < stop; o++ {
		b.Add(&mq.Message{Value: []byte(l.logs[n][o-l.first[n]].value), Headers: []mq.Header{{Name: "o", Value: l.logs[n][o-l.first[n]].value}}})
	}
	c.Batch = b.AppendTo(nil, "", "gateway-1", mq.CodecNone, nil)
	if from == start && to == stop {
		return c
	}
	var ordinals []int
	for o := from; o < to; o++ {
		c.Ordinals = append(c.Ordinals, uint32(o-start))
		ordinals = append(ordinals, int(o-start))
	}
	if n%2 == 0 { // as a leader does with a batch that it can slice; otherwise it travels whole
		parsed, err := mq.ParseBatch(c.Batch)
		if err != nil {
			panic(err)
		}
		if c.Batch, c.Sliced, err = parsed.Slice(nil, ordinals); err != nil {
			panic(err)
		}
	}
	return c
}

func unpack(b *mq.Batch) ([]byte, error) { return b.Packed(), nil }
