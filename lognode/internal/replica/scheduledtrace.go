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
// message. Its cost grows with what was written between the two, and for one that was released long ago with
// everything that is kept.
func (p *Partition) TraceScheduled(number uint64, done func(*mqpb.TraceResponse, error)) {
	fail := func(err error) { done(nil, err) }
	p.serveRead(fail, func(l *leadership) {
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
		p.beside(func(ctx context.Context) {
			t, err := p.traceScheduled(ctx, &j, from, number)
			switch {
			case err != nil:
				fail(mqerr.New(mqerr.Internal, "tracing schedule %d: %w", number, err))
			case len(t.res.Events) == 0 && !t.released:
				fail(mqerr.New(mqerr.MessageNotFound, "schedule %d is no longer kept", number))
			case !t.released:
				done(&t.res, nil)
			default:
				p.Trace(t.res.Offset, false, func(after *mqpb.TraceResponse, err error) {
					if err != nil {
						fail(err)
						return
					}
					after.Offset, after.Events = t.res.Offset, append(t.res.Events, after.Events...)
					done(after, nil)
				})
			}
		})
	})
}

// scheduleTrace is what the journal says of a schedule up to its release.
type scheduleTrace struct {
	res      mqpb.TraceResponse
	released bool
}

func (p *Partition) traceScheduled(ctx context.Context, j *journal, from mq.Position, number uint64) (*scheduleTrace, error) {
	t := &scheduleTrace{}
	t.res.Pending = true
	note := func(ev schedule.Event) {
		if ev.Type == schedule.EventScheduled && len(t.res.Events) > 0 {
			return // carried: it was told before
		}
		t.res.Due = ev.Due
		t.res.Events = append(t.res.Events, &mqpb.TraceEvent{At: ev.At, Type: ev.Type, Until: ev.Due, Producer: ev.Producer, Gateway: ev.Gateway})
	}
	for i := 0; i < j.len() && !t.released; i++ {
		s := j.at(i)
		if !from.Before(s.End) {
			continue
		}
		err := p.walk(ctx, s, maxPosition(from, s.Base), func(e *mq.Entry) error {
			offset, released, err := schedule.TraceEntry(e, number, note)
			if err == nil && !released {
				offset, released, err = delivery.CarriedRelease(e, number)
			}
			if err != nil || !released {
				return err
			}
			t.released, t.res.Offset, t.res.Pending, t.res.Due = true, offset, false, 0
			return errStop
		})
		if err != nil {
			return t, err
		}
	}
	return t, nil
}
