package replica

import (
	"context"
	"slices"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Trace tells a message's life from the journal: it reads the entry that holds the message and every committed
// one after it, so its cost grows with what was written since.
func (p *Partition) Trace(offset uint64, done func(*mqpb.TraceResponse, error)) {
	fail := func(err error) { done(nil, err) }
	p.serve(fail, func(l *leadership) {
		j := l.journal()
		s := j.find(offset)
		if s == nil {
			fail(mqerr.New(mqerr.MessageNotFound, "offset %d is not among those kept, %d to %d", offset, j.first(), j.open.End.Offset))
			return
		}
		names := map[mq.GroupID]string{}
		for _, g := range l.machine.Groups() {
			names[g.ID] = g.Name
		}
		res := &mqpb.TraceResponse{}
		for _, g := range l.machine.MessageState(offset) {
			res.Groups = append(res.Groups, &mqpb.TraceGroup{Group: uint64(g.Group), Name: names[g.Group],
				State: g.State.String(), Attempts: g.Attempt, Until: g.Until, Consumer: g.Consumer})
		}
		p.beside(func(ctx context.Context) {
			if err := p.trace(ctx, j, s, offset, res); err != nil {
				fail(mqerr.New(mqerr.Internal, "tracing offset %d: %w", offset, err))
				return
			}
			done(res, nil)
		})
	})
}

func (p *Partition) trace(ctx context.Context, j journal, s *mq.Segment, offset uint64, res *mqpb.TraceResponse) error {
	e, err := p.entry(ctx, &j, offset)
	if err != nil {
		return err
	}
	from, replicated := e.At, false
	note := func(e *mq.Entry) error {
		if !replicated && !e.Commit.Before(mq.Position{Offset: offset + 1}) {
			replicated = true
			res.Events = append(res.Events, replicatedEvent(s, e.Stamp))
		}
		return delivery.TraceEntry(e, offset, func(ev delivery.Event) { res.Events = append(res.Events, traceEvent(ev)) })
	}
	for i := range j.len() {
		seg := j.at(i)
		if seg.End.Before(from) || seg.End == from {
			continue
		}
		if err := p.walk(ctx, seg, maxPosition(from, seg.Base), note); err != nil {
			return err
		}
	}
	orderReplicated(res, s, e.Stamp)
	return nil
}

// orderReplicated puts the commit where it belongs. Its time is the stamp of the first entry that says so, which may
// be later than the commit: it is at most the time of the first hand-over, and of the publish if nothing was
// written since.
func orderReplicated(res *mqpb.TraceResponse, s *mq.Segment, published int64) {
	at := slices.IndexFunc(res.Events, func(ev *mqpb.TraceEvent) bool { return ev.Type == eventReplicated })
	ev := replicatedEvent(s, published)
	if at >= 0 {
		ev = res.Events[at]
		res.Events = slices.Delete(res.Events, at, at+1)
	}
	res.Events = slices.Insert(res.Events, min(1, len(res.Events)), ev)
	if len(res.Events) > 2 {
		ev.At = min(ev.At, res.Events[2].At)
	}
}

const eventReplicated = "REPLICATED"

func replicatedEvent(s *mq.Segment, at int64) *mqpb.TraceEvent {
	ev := &mqpb.TraceEvent{At: at, Type: eventReplicated, Node: s.LeaderNode(), Quorum: uint32(s.Quorum)}
	for _, r := range s.Replicas {
		ev.Replicas = append(ev.Replicas, r.Node)
	}
	return ev
}

func traceEvent(ev delivery.Event) *mqpb.TraceEvent {
	until := ev.Until
	if ev.RetryAt != 0 {
		until = ev.RetryAt
	}
	return &mqpb.TraceEvent{At: ev.At, Type: ev.Type, Group: uint64(ev.Group), Consumer: ev.Consumer, Attempt: ev.Attempt,
		Reason: ev.Reason, Until: until, Producer: ev.Producer, Gateway: ev.Gateway}
}

// stampOf is the time of a message, 0 if it can't be read.
func (p *Partition) stampOf(ctx context.Context, j *journal, offset uint64) int64 {
	e, err := p.entry(ctx, j, offset)
	if err != nil {
		return 0
	}
	return e.Stamp
}
