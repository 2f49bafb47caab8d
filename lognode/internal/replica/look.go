package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// lookMost is how many messages a filter looks at before the partition hears of it.
	lookMost = 64 << 10
	// lookEnough is how many wanted ones end a look early: enough for the receives that follow.
	lookEnough = 1000
	// maxLooks bounds the looks of one receive; then it answers with what there is, and is asked again.
	maxLooks = 16
)

// look has a group's filter look ahead.
func (p *Partition) look(l *leadership, id mq.GroupID, again func(error)) {
	if l.looking[id].join(again) {
		return
	}
	w, ok := l.machine.Unseen(id)
	if !ok {
		again(nil)
		return
	}
	p.share(l, l.looking, id, again, func(ctx context.Context, j *journal) (func(), error) {
		wanted := p.lookAt(ctx, j, &w)
		return func() { l.machine.Seen(p.env.Clock.Now(), id, w, wanted) }, nil
	})
}

// lookAt is which messages of a window are wanted. It lowers the window's end to how far it came. A message that can't
// be read is wanted: its hand-over will say what is wrong.
func (p *Partition) lookAt(ctx context.Context, j *journal, w *delivery.Window) (wanted []delivery.Range) {
	found := uint64(0)
	add := func(first, count uint64) {
		found += count
		if n := len(wanted); n > 0 && wanted[n-1].First+wanted[n-1].Count == first {
			wanted[n-1].Count += count
			return
		}
		wanted = append(wanted, delivery.Range{First: first, Count: count})
	}
	at, end := w.From, min(w.To, w.From+lookMost)
	for at < end && found < lookEnough && ctx.Err() == nil {
		e, err := p.entry(ctx, j, at)
		if err == nil {
			err = matching(e, w, add)
		}
		if err != nil {
			p.log.Warn("a filter can't read a message", "offset", at, "err", err)
			add(at, 1)
			at++
			break
		}
		at = e.Next().Offset
	}
	w.To = min(at, w.To)
	return wanted
}

// matching calls add for the messages of an entry, from the window's begin on, that its filter wants.
func matching(e *mq.Entry, w *delivery.Window, add func(first, count uint64)) error {
	for b, err := range e.Batches() {
		if err == nil && b.Uses&mq.UsesHeaders != 0 {
			err = b.Each(nil, func(i int, m *mq.Message) bool {
				if off := b.First + uint64(i); off >= w.From && w.Filter.Match(m.Headers) {
					add(off, 1)
				}
				return true
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
