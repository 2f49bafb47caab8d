package replica

import (
	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// meant is the offset of the i-th message that is meant by a chunk.
func meant(c *frame.Chunk, i int) uint64 {
	if len(c.Ordinals) > 0 {
		return c.First + uint64(c.Ordinals[i])
	}
	return c.First + uint64(i)
}

// inTime takes from chunks with got messages those that are past their TTL at now, and what is more than *left messages,
// which it lowers. It says with how many, from the first on, it has dealt, and which of these are gone. A batch without
// TTLs is not looked at.
func inTime(chunks []frame.Chunk, got uint32, left *uint32, now int64) (kept []frame.Chunk, dealt uint32, gone []uint64, err error) {
	kept = chunks[:0]
	for _, c := range chunks {
		n, uses := mq.BatchShape(c.Batch)
		if len(c.Ordinals) > 0 {
			n = len(c.Ordinals)
		}
		if uses&mq.UsesTTL == 0 && uint64(n) <= uint64(*left) {
			*left -= uint32(n)
			dealt += uint32(n)
			kept = append(kept, c)
			continue
		}
		old, err := lapsed(&c, now)
		if err != nil {
			return kept, dealt, gone, err
		}
		var places []int
		i := 0
		for ; i < n; i++ {
			if off := meant(&c, i); len(old) > 0 && old[0] == off {
				gone, old = append(gone, off), old[1:]
			} else if uint32(len(places)) == *left {
				break
			} else {
				places = append(places, i)
			}
		}
		dealt += uint32(i)
		if len(places) > 0 {
			part, err := only(c, n, places)
			if err != nil {
				return kept, dealt - uint32(i), gone, err
			}
			kept = append(kept, part)
			*left -= uint32(len(places))
		}
		if i < n {
			return kept, dealt, gone, nil
		}
	}
	return kept, min(dealt, got), gone, nil
}

// lapsed are the messages of a chunk that are past their TTL at now, by offset.
func lapsed(c *frame.Chunk, now int64) (offsets []uint64, err error) {
	b, err := mq.ParseBatch(c.Batch)
	if err != nil {
		return nil, err
	}
	at := 0 // of the messages that are meant
	err = b.Each(nil, func(i int, m *mq.Message) bool {
		if len(c.Ordinals) > 0 {
			if at == len(c.Ordinals) {
				return false
			}
			if !c.Sliced && uint32(i) != c.Ordinals[at] {
				return true
			}
		}
		if m.TTL > 0 && c.Stamp+m.TTL <= now {
			offsets = append(offsets, meant(c, at))
		}
		at++
		return true
	})
	return offsets, err
}

// only makes a chunk of some of the n messages that are meant by c: those at these places among them.
func only(c frame.Chunk, n int, places []int) (frame.Chunk, error) {
	if len(places) == n {
		return c, nil
	}
	out := frame.Chunk{First: c.First, Stamp: c.Stamp, Sliced: c.Sliced, Batch: c.Batch}
	for _, i := range places {
		out.Ordinals = append(out.Ordinals, uint32(meant(&c, i)-c.First))
		if c.Numbers != nil {
			out.Numbers = append(out.Numbers, c.Numbers[i])
		}
	}
	if len(c.Ordinals) > 0 && !c.Sliced { // it travels whole
		return out, nil
	}
	b, err := mq.ParseBatch(c.Batch)
	if err != nil {
		return c, err
	}
	sliced, ok, err := b.Slice(nil, places)
	if ok {
		out.Sliced, out.Batch = true, sliced
	}
	return out, err
}

// cutRun appends the parts of a run's first got messages that are left when some are gone, which ascend. It returns the
// gone ones that lie behind.
func cutRun(run delivery.Run, got uint32, gone []uint64, dst []frame.Run) ([]frame.Run, []uint64) {
	from, end := run.First, run.First+uint64(got)
	add := func(to uint64) {
		if from < to {
			dst = append(dst, frame.Run{First: from, Count: uint32(to - from), Attempt: run.Attempt, Counter: run.Counter + from - run.First})
		}
	}
	for len(gone) > 0 && gone[0] < end {
		add(gone[0])
		from, gone = gone[0]+1, gone[1:]
	}
	add(end)
	return dst, gone
}

// lapse settles what turned out to be past its time in a hand-over.
func (p *Partition) lapse(r *receiving, gone []uint64) {
	if len(gone) == 0 {
		return
	}
	p.env.Metrics.Lapsed.Add(float64(len(gone)))
	p.post(func() {
		if l := p.lead; l != nil && l.machine != nil {
			l.machine.Lapse(p.env.Clock.Now(), r.stream, r.Handover, gone)
		}
	})
}
