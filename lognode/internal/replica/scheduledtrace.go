package replica

import (
	"context"
	"errors"

	"github.com/splashdam/splashdam/lognode/internal/archive"
	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// TraceScheduled tells the life of a scheduled message from the journal: as a schedule, and once it is released as a
// message. Its cost grows with what was written between the two, and for one that was released long ago with
// everything that is kept. archived: what retention has moved to the archive is told of, too.
func (p *Partition) TraceScheduled(number uint64, archived bool, done func(*mqpb.TraceResponse, error)) {
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
		x := &scheduleSearch{number: number, from: from, journal: l.journal(), wait: state == schedule.StateReleased}
		if archived && from.Before(x.at(0).Base) {
			p.withShelf(l, fail, func(ctx context.Context, objects []archive.Object) error {
				x.below(ctx, p, objects)
				return p.tellScheduled(ctx, x, true, done)
			})
			return
		}
		p.beside(func(ctx context.Context) {
			if err := p.tellScheduled(ctx, x, archived, done); err != nil {
				fail(err)
			}
		})
	})
}

// scheduleSearch is what is looked through for a schedule.
type scheduleSearch struct {
	number uint64
	from   mq.Position // nothing before it is about the schedule, unless it is archived
	wait   bool        // it was released or cancelled, so there must be a record that says so
	journal
	naming []bool // the archived segments that may be about it
	unread error  // why some of them are not known
}

// below puts the archived segments that may be about the schedule before those that are kept.
func (x *scheduleSearch) below(ctx context.Context, p *Partition, objects []archive.Object) {
	x.putBelow(objects, p.id)
	x.naming, x.unread = p.env.Archive.NamingSchedule(ctx, x.archived, x.number)
}

// walkFor is walk for the piece of a segment of the journal that may be about the schedule.
func (p *Partition) walkFor(ctx context.Context, x *scheduleSearch, i int, f func(*mq.Entry) error) error {
	s := x.at(i)
	switch {
	case i < len(x.archived) && x.naming[i]:
		return walked(p.env.Archive.WalkSchedule(ctx, &x.archived[i], x.number, f))
	case i < len(x.archived) || !x.from.Before(s.End):
		return nil
	}
	return p.walk(ctx, s, maxPosition(x.from, s.Base), f)
}

// tellScheduled answers what the search finds; an error was not answered.
func (p *Partition) tellScheduled(ctx context.Context, x *scheduleSearch, archived bool, done func(*mqpb.TraceResponse, error)) error {
	t, err := p.traceScheduled(ctx, x)
	switch {
	case err != nil:
		return scheduleReadError(x.number, err)
	case !t.released && x.wait && x.unread != nil:
		return x.unread
	case len(t.res.Events) == 0 && !t.released:
		return mqerr.New(mqerr.MessageNotFound, "schedule %d is no longer kept", x.number)
	case !t.released:
		done(&t.res, nil)
		return nil
	}
	p.Trace(t.res.Offset, archived, func(after *mqpb.TraceResponse, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		after.Offset, after.Events = t.res.Offset, append(t.res.Events, after.Events...)
		done(after, nil)
	})
	return nil
}

// scheduleReadError is the answer where reading for a schedule stopped.
func scheduleReadError(number uint64, err error) error {
	if e := (*mqerr.Error)(nil); errors.As(err, &e) {
		return err
	}
	return mqerr.New(mqerr.Internal, "looking for schedule %d: %w", number, err)
}

// scheduleTrace is what the journal says of a schedule up to its release.
type scheduleTrace struct {
	res      mqpb.TraceResponse
	released bool
}

func (p *Partition) traceScheduled(ctx context.Context, x *scheduleSearch) (*scheduleTrace, error) {
	t := &scheduleTrace{}
	t.res.Pending = true
	note := func(ev schedule.Event) {
		if ev.Type == schedule.EventScheduled && len(t.res.Events) > 0 {
			return // carried: it was told before
		}
		t.res.Due = ev.Due
		t.res.Events = append(t.res.Events, &mqpb.TraceEvent{At: ev.At, Type: ev.Type, Until: ev.Due, Producer: ev.Producer, Gateway: ev.Gateway})
	}
	for i := 0; i < x.len() && !t.released; i++ {
		err := p.walkFor(ctx, x, i, func(e *mq.Entry) error {
			offset, released, err := schedule.TraceEntry(e, x.number, note)
			if err == nil && !released {
				offset, released, err = delivery.CarriedRelease(e, x.number)
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
