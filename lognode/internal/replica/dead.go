package replica

import (
	"bytes"
	"context"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// deadFilter reads a filter from the wire. The key is not in it: only the messages themselves have theirs.
func deadFilter(f *mqpb.DeadFilter) delivery.DeadFilter {
	out := delivery.DeadFilter{Reason: f.GetReason(), Since: f.GetSince(), Before: f.GetBefore(), Unexported: f.GetUnexported()}
	if f.GetByOffset() && len(f.GetNumbers()) == 0 { // only the messages themselves have their numbers
		out.Offsets = append([]uint64{}, f.GetOffsets()...)
	}
	return out
}

// DeadLetters counts, redrives or removes dead letters of a group; done is called after commit. It looks at up to
// limit of them, and says where to go on.
func (p *Partition) DeadLetters(r *mqpb.DeadLettersRequest, done func(*mqpb.DeadLettersResponse, error)) {
	fail := func(err error) { done(nil, err) }
	p.serve(fail, func(l *leadership) {
		id := mq.GroupID(r.GetGroup())
		if _, ok := l.machine.Figures(id); !ok {
			fail(deliveryError(delivery.ErrGroupNotFound))
			return
		}
		limit := min(max(int(r.GetLimit()), 1), delivery.MaxReceive)
		dead := l.machine.Dead(id, deadFilter(r.GetFilter()), r.GetFrom(), limit+1)
		for r.GetTo() > 0 && len(dead) > 0 && dead[len(dead)-1].Offset >= r.GetTo() {
			dead = dead[:len(dead)-1]
		}
		res := &mqpb.DeadLettersResponse{More: len(dead) > limit, Next: r.GetFrom()}
		offsets := make([]uint64, min(len(dead), limit))
		for i := range offsets {
			offsets[i] = dead[i].Offset
		}
		if n := len(offsets); n > 0 {
			res.Next = offsets[n-1] + 1
		}
		if !r.GetFilter().GetByKey() && len(r.GetFilter().GetNumbers()) == 0 {
			p.actOnDead(l, r, offsets, res, done)
			return
		}
		j := l.journal()
		p.beside(func(ctx context.Context) {
			offsets, err := p.chosen(ctx, &j, offsets, r.GetFilter())
			if err != nil {
				fail(mqerr.New(mqerr.Internal, "reading dead letters: %w", err))
				return
			}
			p.serve(fail, func(l *leadership) { p.actOnDead(l, r, offsets, res, done) })
		})
	})
}

// chosen are those of the offsets whose messages have the key and the ids of the filter, as far as it has some.
func (p *Partition) chosen(ctx context.Context, j *journal, offsets []uint64, f *mqpb.DeadFilter) (_ []uint64, err error) {
	if len(f.GetNumbers()) > 0 {
		if offsets, err = p.withIDs(ctx, j, offsets, f); err != nil {
			return nil, err
		}
	}
	if f.GetByKey() {
		return p.withKey(ctx, j, offsets, f.GetKey())
	}
	return offsets, nil
}

// withIDs are those of the ascending offsets that a filter names, or that were released under a number that it names.
func (p *Partition) withIDs(ctx context.Context, j *journal, offsets []uint64, f *mqpb.DeadFilter) ([]uint64, error) {
	kept, named := []uint64{}, map[uint64]bool{}
	for _, off := range f.GetOffsets() {
		named[off] = true
	}
	numbers := make(map[uint64]bool, len(f.GetNumbers()))
	for _, n := range f.GetNumbers() {
		numbers[n] = true
	}
	var end uint64 // of the entry that was read last
	for _, off := range offsets {
		if off >= end {
			e, err := p.entry(ctx, j, off)
			if err != nil {
				return nil, err
			}
			end = e.Next().Offset
			if err := released(e, func(off, number uint64) { named[off] = named[off] || numbers[number] }); err != nil {
				return nil, err
			}
		}
		if named[off] {
			kept = append(kept, off)
		}
	}
	return kept, nil
}

// withKey are those of the offsets whose messages have this key.
func (p *Partition) withKey(ctx context.Context, j *journal, offsets []uint64, key []byte) ([]uint64, error) {
	kept := []uint64{}
	err := p.eachIndexed(ctx, j, offsets, func(off uint64, m *mq.Message) {
		if m.HasKey && bytes.Equal(m.Key, key) {
			kept = append(kept, off)
		}
	})
	return kept, err
}

func (p *Partition) actOnDead(l *leadership, r *mqpb.DeadLettersRequest, offsets []uint64, res *mqpb.DeadLettersResponse, done func(*mqpb.DeadLettersResponse, error)) {
	id, now := mq.GroupID(r.GetGroup()), p.env.Clock.Now()
	n, err := 0, error(nil)
	switch r.GetAct() {
	case "count":
		res.Matched = uint64(len(offsets))
		done(res, nil)
		return
	case "redrive":
		n, err = l.machine.Redrive(now, id, offsets, r.GetDelay(), r.GetInterval())
	case "remove":
		n, err = l.machine.RemoveDead(now, id, offsets)
	case "export":
		n, err = l.machine.MarkExported(now, id, offsets, r.GetSince())
	default:
		err = mqerr.New(mqerr.InvalidParameter, "act must be count, redrive, remove or export, not %.40q", r.GetAct())
	}
	if err != nil {
		done(nil, deliveryError(err))
		return
	}
	res.Matched = uint64(n)
	l.afterCommit(func(err error) { done(res, err) })
}

// eachIndexed calls f with what the index says of the messages at some ascending offsets: all but their values.
func (p *Partition) eachIndexed(ctx context.Context, j *journal, offsets []uint64, f func(off uint64, m *mq.Message)) error {
	for len(offsets) > 0 {
		e, err := p.entry(ctx, j, offsets[0])
		if err != nil {
			return err
		}
		if offsets, err = indexed(e, offsets, f); err != nil {
			return err
		}
	}
	return nil
}

// indexed calls f for the offsets that the entry holds and returns the others, which are behind it.
func indexed(e *mq.Entry, offsets []uint64, f func(off uint64, m *mq.Message)) ([]uint64, error) {
	for b, err := range e.Batches() {
		if err == nil && len(offsets) > 0 && offsets[0] < b.End() {
			err = b.Each(nil, func(i int, m *mq.Message) bool {
				if offsets[0] == b.First+uint64(i) {
					f(offsets[0], m)
					offsets = offsets[1:]
				}
				return len(offsets) > 0 && offsets[0] < b.End()
			})
		}
		if err != nil {
			return offsets, err
		}
	}
	for len(offsets) > 0 && offsets[0] < e.Next().Offset {
		offsets = offsets[1:] // it was in none of the batches
	}
	return offsets, nil
}
