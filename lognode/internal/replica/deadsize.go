package replica

import (
	"context"
)

// learnSizes reads how large dead letters are whose group limits them by bytes, beside the partition.
func (p *Partition) learnSizes(l *leadership) {
	if l.sizing {
		return
	}
	offsets := l.machine.TakeUnsized(deadCount)
	if len(offsets) == 0 {
		return
	}
	l.sizing = true
	j := l.journal()
	p.beside(func(ctx context.Context) {
		sizes := make([]uint32, len(offsets))
		for i, off := range offsets {
			n, err := p.sizeOf(ctx, &j, off)
			if err != nil {
				p.log.Warn("a dead letter can't be read, and does not count for dead.max_bytes", "offset", off, "err", err)
			}
			sizes[i] = n
		}
		p.post(func() {
			l.sizing = false
			if p.lead == l && l.serving {
				l.machine.LearnSizes(p.env.Clock.Now(), offsets, sizes)
			}
		})
	})
}

// sizeOf is the size of a message.
func (p *Partition) sizeOf(ctx context.Context, j *journal, offset uint64) (size uint32, err error) {
	e, err := p.entry(ctx, j, offset)
	if err != nil {
		return 0, err
	}
	for b, err := range e.Batches() {
		if err == nil && b.First <= offset && offset < b.End() {
			err = b.EachSize(func(i, n int) {
				if uint64(i) == offset-b.First {
					size = uint32(n)
				}
			})
		}
		if err != nil {
			return size, err
		}
	}
	return size, nil
}
