package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// TraceScheduled tells the life of a scheduled message from the journal: as a schedule, and once it is released as a
// message.
func (p *Partition) TraceScheduled(number uint64, done func(*mqpb.TraceResponse, error)) {
	fail := func(err error) { done(nil, err) }
	p.serve(fail, func(l *leadership) {
		state, w := l.book.Look(number)
		if state == schedule.StateUnknown {
			fail(scheduleError(schedule.Unknown, number))
			return
		}
		from := w.At // where its record is; without a place, from the beginning of what is kept
		if place, ok := l.book.Where(number); ok {
			from = place.At
		}
		j := l.journal()
		res := &mqpb.TraceResponse{Pending: state != schedule.StateReleased, Due: w.Due}
		names := map[mq.GroupID]string{}
		for _, g := range l.machine.Groups() {
			names[g.ID] = g.Name
		}
		p.beside(func(ctx context.Context) {
			if err := p.traceScheduled(ctx, j, from, number, res); err != nil {
				fail(mqerr.New(mqerr.Internal, "tracing schedule %d: %w", number, err))
				return
			}
			if len(res.Events) == 0 {
				fail(mqerr.New(mqerr.MessageNotFound, "schedule %d is no longer kept", number))
				return
			}
			p.groupsOf(res, names, done)
		})
	})
}

// groupsOf adds where a released message stands in each group.
func (p *Partition) groupsOf(res *mqpb.TraceResponse, names map[mq.GroupID]string, done func(*mqpb.TraceResponse, error)) {
	if res.Pending {
		done(res, nil)
		return
	}
	p.serve(func(err error) { done(nil, err) }, func(l *leadership) {
		for _, g := range l.machine.MessageState(res.Offset) {
			res.Groups = append(res.Groups, &mqpb.TraceGroup{Group: uint64(g.Group), Name: names[g.Group],
				State: g.State.String(), Attempts: g.Attempt, Until: g.Until, Consumer: g.Consumer})
		}
		done(res, nil)
	})
}

func (p *Partition) traceScheduled(ctx context.Context, j journal, from mq.Position, number uint64, res *mqpb.TraceResponse) error {
	released := false
	note := func(e *mq.Entry) error {
		if !released {
			offset, now, err := schedule.TraceEntry(e, number, func(ev schedule.Event) {
				if ev.Type == schedule.EventScheduled && len(res.Events) > 0 {
					return // carried: it was told before
				}
				res.Events = append(res.Events, &mqpb.TraceEvent{At: ev.At, Type: ev.Type, Until: ev.Due,
					Producer: ev.Producer, Gateway: ev.Gateway})
			})
			if err != nil {
				return err
			}
			if released = now; now {
				res.Offset, res.Pending = offset, false
			}
		}
		if !released {
			return nil
		}
		return delivery.TraceEntry(e, res.Offset, func(ev delivery.Event) { res.Events = append(res.Events, traceEvent(ev)) })
	}
	for i := range j.len() {
		s := j.at(i)
		if !from.Before(s.End) {
			continue
		}
		if err := p.walk(ctx, s, maxPosition(from, s.Base), note); err != nil {
			return err
		}
	}
	return nil
}
