package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Explain says why a message is not delivered to a group now: by its offset, or by its number if it was scheduled. The
// leader answers it from its state, and from the journal how a message was settled. A message that is not there (yet)
// is MessageNotFound; one that was removed, lost or is not due has a state like any other.
func (p *Partition) Explain(req *mqpb.ExplainRequest, done func(*mqpb.ExplainResponse, error)) {
	group := mq.GroupID(req.Group)
	if !req.Scheduled {
		p.explain(group, req.Number, done)
		return
	}
	fail := func(err error) { done(nil, err) }
	p.serveRead(fail, func(l *leadership) {
		switch state, w := l.book.Look(req.Number); {
		case state == schedule.StatePending:
			e := delivery.ExplainDue(p.env.Clock.Now(), w.Due)
			done(explanation(&e), nil)
		case state == schedule.StateReleased:
			p.FindScheduled(req.Number, false, func(res *mqpb.FindScheduledResponse, err error) {
				if err != nil {
					fail(err)
					return
				}
				p.explain(group, res.Offset, done)
			})
		default:
			fail(scheduleError(schedule.Unknown, req.Number))
		}
	})
}

func (p *Partition) explain(group mq.GroupID, offset uint64, done func(*mqpb.ExplainResponse, error)) {
	fail := func(err error) { done(nil, err) }
	p.serveRead(fail, func(l *leadership) {
		j := l.journal()
		from, to, lost := j.lost(offset)
		_, carried := l.machine.CarriedAt(offset)
		switch {
		case lost:
			done(&mqpb.ExplainResponse{State: delivery.ExplainLost,
				Because: fmt.Sprintf("it is lost with the offsets %d to %d, which no node has", from, to-1)}, nil)
			return
		case offset < j.first() && !carried:
			done(&mqpb.ExplainResponse{State: delivery.ExplainDropped,
				Because: fmt.Sprintf("retention removed it: what is kept begins at offset %d", j.first())}, nil)
			return
		case offset >= l.machine.Committed():
			fail(mqerr.New(mqerr.MessageNotFound, "offset %d is not among those kept, %d to %d", offset, j.first(), l.machine.Committed()))
			return
		}
		now := p.env.Clock.Now()
		e, ok := l.machine.Explain(delivery.Question{Group: group, Offset: offset, Now: now, Asked: now - int64(time.Since(l.used(group)))})
		switch s := j.find(offset); {
		case !ok:
			done(&mqpb.ExplainResponse{State: delivery.ExplainStarting, Because: "the group has not started in this partition yet"}, nil)
		case e.State != delivery.StateAcked.String():
			done(explanation(&e), nil)
		default:
			p.explainSettled(l, j, s, group, offset, done)
		}
	})
}

// explainSettled reads in the journal how a message was settled.
func (p *Partition) explainSettled(l *leadership, j journal, s *mq.Segment, group mq.GroupID, offset uint64, done func(*mqpb.ExplainResponse, error)) {
	open := p.openIndex(l, offset)
	p.beside(func(ctx context.Context) {
		res := &mqpb.TraceResponse{}
		if err := p.trace(ctx, j, s, offset, open, res); err != nil {
			done(nil, readError(offset, err))
			return
		}
		e := delivery.ExplainEvents(eventsOf(res, uint64(group)))
		done(explanation(&e), nil)
	})
}

func explanation(e *delivery.Explanation) *mqpb.ExplainResponse {
	res := &mqpb.ExplainResponse{State: e.State, Because: e.Because, Until: e.Until, Since: e.Since, Attempt: e.Attempt,
		Consumer: e.Consumer, Reason: e.Reason}
	for l, n := range e.Ahead {
		if n > 0 {
			res.Ahead = append(res.Ahead, &mqpb.LaneAhead{Lane: uint32(l), Messages: n})
		}
	}
	if e.State == delivery.ExplainParked {
		res.Behind = &e.Behind
	}
	return res
}
