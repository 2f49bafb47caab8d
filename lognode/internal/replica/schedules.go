package replica

import (
	"cmp"
	"context"
	"errors"

	"github.com/splashdam/splashdam/lognode/internal/archive"
	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Schedule takes one batch whose index was checked and that is not compressed, with a time for each of its messages (see
// frame.Schedule). The answer is Scheduled once it is committed, or an error.
func (p *Partition) Schedule(s frame.Schedule, reply Reply) {
	p.queue(batch{body: s.Batch, count: uint32(len(s.Times)), times: s.Times, reply: reply}, func(l *leadership) error {
		if !l.book.Room(len(s.Times)) {
			return mqerr.New(mqerr.TooManyScheduled, "the partition has %d pending schedules, as many as it may", l.book.Pending())
		}
		return nil
	})
}

// placeScheduled gives the messages of a batch their numbers and appends its record.
func (l *leadership) placeScheduled(b *batch, data []byte, now int64) []byte {
	for i, t := range b.times {
		if t < 0 {
			b.times[i] = now - t
		}
	}
	schedules := l.book.Schedule(l.seg.Next(), b.times, len(b.body))
	b.first = schedules[0].Number
	l.ahead.scratch = mq.AppendScheduleBatch(l.ahead.scratch[:0], schedules, b.body)
	return mq.AppendRecord(data, mq.KindScheduled, l.ahead.scratch)
}

// scheduled is the answer to a batch of schedules.
func scheduled(b *batch, stamp int64) func(error) {
	reply, ok := b.reply, frame.Scheduled{First: b.first, Stamp: stamp, Dues: b.times, Repeats: b.repeats}
	return func(err error) {
		if err != nil {
			reply.fail(err)
			return
		}
		reply(frame.TypeScheduled, &ok)
	}
}

// schedulesBeside is the book's part of a checkpoint.
func (l *leadership) schedulesBeside() []delivery.Beside {
	state := l.book.AppendState(nil)
	if state == nil {
		return nil
	}
	return []delivery.Beside{{Section: delivery.SectionSchedules, Data: state}}
}

// CancelScheduled makes a pending schedule never released; done is called after commit. Cancelling twice is fine.
func (p *Partition) CancelScheduled(number uint64, done func(error)) {
	p.serve(done, func(l *leadership) {
		code := l.book.Cancel(p.env.Clock.Now(), number)
		l.ahead.Forget(number)
		// An answer that says no waits too: what it is about may not be committed yet.
		l.afterCommit(func(err error) { done(errors.Join(err, scheduleError(code, number))) })
	})
}

// RetimeScheduled gives a pending schedule another due time, as in frame.Schedule; done is called with it after commit.
func (p *Partition) RetimeScheduled(number uint64, at int64, done func(due int64, err error)) {
	p.serve(func(err error) { done(0, err) }, func(l *leadership) {
		now := p.env.Clock.Now()
		if at < 0 {
			at = now - at
		}
		code := l.book.Retime(now, number, at)
		if code == schedule.OK && !l.book.Holds(mq.Schedule{Number: number, Due: at}) { // else it had that time, and is not read again
			l.ahead.Forget(number)
		}
		l.afterCommit(func(err error) { done(at, errors.Join(err, scheduleError(code, number))) })
	})
}

func scheduleError(c schedule.Code, number uint64) error {
	switch c {
	case schedule.OK:
		return nil
	case schedule.Released:
		return mqerr.New(mqerr.AlreadyReleased, "schedule %d is a message already", number)
	case schedule.TooMany:
		return mqerr.New(mqerr.TooManyScheduled, "%d pending schedules of the partition have another time than at first, as many as may", schedule.MaxRetimed)
	}
	return mqerr.New(mqerr.MessageNotFound, "the partition has no schedule %d, or it was cancelled", number)
}

// ListScheduled lists the pending schedules behind one, by due time and number.
func (p *Partition) ListScheduled(after mq.Schedule, limit int, done func(*mqpb.ListScheduledResponse, error)) {
	p.serveRead(func(err error) { done(nil, err) }, func(l *leadership) {
		res := &mqpb.ListScheduledResponse{}
		for _, w := range l.book.List(after, limit) {
			res.Pending = append(res.Pending, &mqpb.PendingSchedule{Number: w.Number, Due: w.Due})
		}
		done(res, nil)
	})
}

// FindScheduled says where a schedule is in its life: pending, with its message, or released. archived: a released one is looked for
// in the archive, too.
func (p *Partition) FindScheduled(number uint64, archived bool, done func(*mqpb.FindScheduledResponse, error)) {
	fail := func(err error) { done(nil, err) }
	p.serveRead(fail, func(l *leadership) {
		j := l.journal()
		switch state, w := l.book.Look(number); state {
		case schedule.StatePending:
			p.beside(func(ctx context.Context) {
				res, err := p.pendingMessage(ctx, &j, w)
				done(res, err)
			})
		case schedule.StateReleased:
			if place, ok := l.book.Where(number); ok {
				done(&mqpb.FindScheduledResponse{Released: true, Offset: place.Offset}, nil)
				return
			}
			p.lookForRelease(l, &scheduleSearch{number: number, journal: j}, archived, done)
		default:
			fail(scheduleError(schedule.Unknown, number))
		}
	})
}

func (p *Partition) pendingMessage(ctx context.Context, j *journal, w schedule.Wanted) (*mqpb.FindScheduledResponse, error) {
	e, err := p.entryAt(ctx, j, w.At)
	if err != nil {
		return nil, mqerr.New(mqerr.Internal, "reading schedule %d: %w", w.Number, err)
	}
	out := map[uint64]mq.Message{}
	if err := schedule.Messages(&e, []schedule.Wanted{w}, out); err != nil {
		return nil, mqerr.New(mqerr.Internal, "reading schedule %d: %w", w.Number, err)
	}
	m := out[w.Number]
	var b mq.BatchBuilder
	b.Add(&m)
	return &mqpb.FindScheduledResponse{Due: w.Due, Batch: b.AppendTo(nil, "", "", mq.CodecNone, nil), Scheduled: e.Stamp}, nil
}

// lookForRelease answers with the offset that a schedule was released at.
func (p *Partition) lookForRelease(l *leadership, x *scheduleSearch, archived bool, done func(*mqpb.FindScheduledResponse, error)) {
	look := func(ctx context.Context) error {
		offset, err := p.findReleased(ctx, x)
		if err == nil {
			done(&mqpb.FindScheduledResponse{Released: true, Offset: offset}, nil)
		}
		return err
	}
	fail := func(err error) { done(nil, err) }
	if archived && x.from.Before(x.at(0).Base) {
		p.withShelf(l, fail, func(ctx context.Context, objects []archive.Object) error {
			x.below(ctx, p, objects)
			return look(ctx)
		})
		return
	}
	p.beside(func(ctx context.Context) {
		if err := look(ctx); err != nil {
			fail(err)
		}
	})
}

// findReleased looks for the record of a release: in the archive, which has an index of them, then in the newest segment first.
func (p *Partition) findReleased(ctx context.Context, x *scheduleSearch) (uint64, error) {
	var offset uint64
	found, number := false, x.number
	for n := range x.len() {
		i := n
		if n >= len(x.archived) {
			i = x.len() - 1 - (n - len(x.archived))
		}
		err := p.walkFor(ctx, x, i, func(e *mq.Entry) (err error) {
			if offset, found, err = delivery.CarriedRelease(e, number); err != nil || found {
				return cmp.Or(err, errStop)
			}
			if e.Count == 0 {
				return nil
			}
			if offset, found, err = schedule.TraceEntry(e, number, func(schedule.Event) {}); err == nil && found {
				err = errStop
			}
			return err
		})
		if err != nil {
			return 0, scheduleReadError(number, err)
		}
		if found {
			return offset, nil
		}
	}
	return 0, cmp.Or(x.unread, error(mqerr.New(mqerr.MessageNotFound, "the message of schedule %d is no longer kept, or it was cancelled", number)))
}
