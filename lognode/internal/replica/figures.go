package replica

import (
	"context"
	"slices"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Oldest is when the message at a group's cursor was published, in Unix nanoseconds; 0 is not known.
type Oldest struct {
	Cursor uint64
	Stamp  int64
}

// GroupFigures are the numbers of a group in this partition. The oldest message is read, unless it is the one that is known.
func (p *Partition) GroupFigures(id mq.GroupID, known Oldest, done func(*mqpb.GroupFigures)) {
	out := &mqpb.GroupFigures{Partition: mqpb.FromPartition(p.id)}
	fail := func(err error) {
		e := mqerr.Of(err)
		out.Code, out.Detail = uint32(e.Code), e.Detail
		done(out)
	}
	p.serveLook(fail, func(l *leadership) {
		f, ok := l.machine.Figures(id)
		if !ok {
			fail(deliveryError(delivery.ErrGroupNotFound))
			return
		}
		out.Scheduled = uint64(l.book.Pending())
		out.Cursor, out.Next, out.Lag, out.Ready = f.Cursor, f.Committed, f.Lag, uint64(f.Ready)
		out.Leased, out.Waiting, out.Dead = uint64(f.Leased), uint64(f.Waiting), uint64(f.Dead)
		out.Acked, out.Dropped, out.Discarded, out.Expired, out.Filtered = f.Acked, f.Dropped, f.Discarded, f.Lapsed, f.Filtered
		out.Exported, out.Unreadable = uint64(f.Exported), l.unreadableRanges(f.Cursor)
		out.Lanes, out.Parked = laneFigures(&f), uint64(f.Parked)
		switch {
		case f.Cursor >= f.Committed:
			done(out)
			return
		case f.Cursor == known.Cursor && known.Stamp != 0:
			out.OldestStamp = known.Stamp
			done(out)
			return
		}
		j := l.journal()
		p.beside(func(ctx context.Context) {
			out.OldestStamp = p.stampOf(ctx, &j, f.Cursor)
			done(out)
		})
	})
}

// laneFigures are the numbers of the lanes that have something, none where that is the normal one only.
func laneFigures(f *delivery.GroupFigures) (out []*mqpb.LaneFigures) {
	special := false
	for l, of := range f.Lanes {
		if of == (delivery.LaneFigures{}) {
			continue
		}
		special = special || mq.Lane(l) != mq.LaneNormal
		out = append(out, &mqpb.LaneFigures{Lane: uint32(l), Lag: of.Fresh + uint64(of.Again+of.Leased+of.Waiting),
			Leased: uint64(of.Leased), Waiting: uint64(of.Waiting), Dead: uint64(of.Dead)})
	}
	if !special {
		return nil
	}
	return out
}

// Held lists what a group holds in a state (ready, leased, waiting, parked, dead), from an offset on; a filter holds for dead
// ones.
func (p *Partition) Held(r *mqpb.HeldMessagesRequest, done func(*mqpb.HeldMessagesResponse, error)) {
	fail := func(err error) { done(nil, err) }
	id, state, limit := mq.GroupID(r.GetGroup()), r.GetState(), min(int(r.GetLimit()), mq.MaxBatchMessages)
	byMessage := r.GetFilter().GetByKey() || len(r.GetFilter().GetNumbers()) > 0
	st, ok := stateOf(state)
	if !ok {
		fail(mqerr.New(mqerr.InvalidParameter, "state must be ready, leased, waiting, parked or dead; not %q", state))
		return
	}
	p.serveRead(fail, func(l *leadership) {
		if _, ok := l.machine.Figures(id); !ok {
			fail(deliveryError(delivery.ErrGroupNotFound))
			return
		}
		j := l.journal()
		var held []delivery.HeldMessage
		looked := limit
		if byMessage && st == delivery.StateDead { // most of them may be others
			looked = delivery.MaxReceive
		}
		if st == delivery.StateDead {
			held = l.machine.Dead(id, deadFilter(r.GetFilter()), r.GetFrom(), looked)
		} else {
			held = l.machine.Held(id, st, r.GetFrom(), looked)
		}
		p.beside(func(ctx context.Context) {
			res := &mqpb.HeldMessagesResponse{}
			if n := len(held); n > 0 && n == looked {
				res.Next = held[n-1].Offset + 1
			}
			if byMessage {
				var err error
				if held, err = p.chosenHeld(ctx, &j, held, r.GetFilter()); err != nil {
					fail(mqerr.New(mqerr.Internal, "reading dead letters: %w", err))
					return
				}
			}
			if len(held) > limit {
				held = held[:limit]
				res.Next = held[limit-1].Offset + 1
			}
			for _, h := range held {
				m := &mqpb.HeldMessage{Offset: h.Offset, State: state, Attempt: h.Attempt,
					Until: h.Until, Consumer: h.Consumer, Reason: h.Reason, Lane: uint32(h.Lane), Behind: h.Behind,
					FirstDelivery: h.First, LastDelivery: h.Last}
				if e, err := p.entry(ctx, &j, h.Offset); err == nil { // a listing goes on without what can't be read
					m.Stamp = e.Stamp
					m.Number, m.Scheduled = scheduleOf(e, h.Offset)
				}
				res.Messages = append(res.Messages, m)
			}
			done(res, nil)
		})
	})
}

// chosenHeld are those of some dead letters, by offset, whose messages have the key and the ids of a filter.
func (p *Partition) chosenHeld(ctx context.Context, j *journal, held []delivery.HeldMessage, f *mqpb.DeadFilter) ([]delivery.HeldMessage, error) {
	offsets := make([]uint64, len(held))
	for i := range held {
		offsets[i] = held[i].Offset
	}
	kept, err := p.chosen(ctx, j, offsets, f)
	if err != nil {
		return nil, err
	}
	out := held[:0]
	for i := range held {
		if _, ok := slices.BinarySearch(kept, held[i].Offset); ok {
			out = append(out, held[i])
		}
	}
	return out, nil
}

func stateOf(s string) (delivery.State, bool) {
	for _, st := range []delivery.State{delivery.StateReady, delivery.StateLeased, delivery.StateWaiting,
		delivery.StateParked, delivery.StateDead} {
		if st.String() == s {
			return st, true
		}
	}
	return 0, false
}

// Figures are the numbers of the partition; with settings (nil for none) also what retention by these would remove.
func (p *Partition) Figures(settings *mq.TopicSettings, done func(*mqpb.PartitionFigures)) {
	out := &mqpb.PartitionFigures{Partition: mqpb.FromPartition(p.id)}
	fail := func(err error) {
		e := mqerr.Of(err)
		out.Code, out.Detail = uint32(e.Code), e.Detail
		done(out)
	}
	p.serveLook(fail, func(l *leadership) {
		j := l.journal()
		out.First, out.Next, out.Segments = j.first(), j.open.End.Offset, uint64(j.len())
		out.Lost, out.Unreadable = j.lostCount(), l.unreadableRanges(0)
		for id := range p.copies {
			if info, ok := p.env.Store.Segment(id); ok {
				out.Bytes += uint64(info.Bytes)
			}
		}
		out.Scheduled = uint64(l.book.Pending())
		if l.book.Pending() > 0 {
			out.NextDue = min(l.book.NearDue(), l.book.NextDue())
		}
		l.keys.Expire(p.env.Clock.Now())
		out.IdempotencyKeys, out.OldestKey = uint64(l.keys.Len()), l.keys.Oldest()
		out.PublishRate, out.DeliverRate = l.published.perSecond(), l.delivered.perSecond()
		if p.readOnly() {
			out.ReadOnly = p.remains.why.Detail
		}
		if settings != nil {
			out.Removal = p.removal(l, settings)
		}
		s := l.seg.Segment()
		for i, f := range l.followers {
			if f == nil {
				continue
			}
			out.Followers = append(out.Followers, &mqpb.FollowerFigures{Node: s.Replicas[i].Node,
				BehindBytes: uint64(f.InFlight()), Connected: f.Connected && !f.Gone})
		}
		done(out)
	})
}
