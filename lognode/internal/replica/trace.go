package replica

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Trace tells a message's life from the journal: it reads the entry that holds the message and, by the footers' index,
// those blocks of entries whose records name it. Where a segment's footer is not here its entries are read instead.
func (p *Partition) Trace(offset uint64, archived bool, done func(*mqpb.TraceResponse, error)) {
	fail := func(err error) { done(nil, err) }
	p.serveRead(fail, func(l *leadership) {
		j := l.journal()
		if archived && offset < j.first() {
			p.traceArchived(l, offset, done)
			return
		}
		s := j.find(offset)
		if from, to, lost := j.lost(offset); lost {
			fail(errLost(offset, from, to))
			return
		}
		_, carried := l.machine.CarriedAt(offset)
		if s == nil && !carried {
			fail(mqerr.New(mqerr.MessageNotFound, "offset %d is not among those kept, %d to %d", offset, j.first(), j.open.End.Offset))
			return
		}
		names := map[mq.GroupID]string{}
		for _, g := range l.machine.Groups() {
			names[g.ID] = g.Name
		}
		res := &mqpb.TraceResponse{}
		states := l.machine.MessageState(offset)
		for _, g := range states {
			res.Groups = append(res.Groups, &mqpb.TraceGroup{Group: uint64(g.Group), Name: names[g.Group],
				State: g.State.String(), Attempts: g.Attempt, Until: g.Until, Consumer: g.Consumer})
		}
		open, kept := p.openIndex(l, offset), p.retainedEvent(l, s)
		p.beside(func(ctx context.Context) {
			if err := p.trace(ctx, j, s, offset, open, res); err != nil {
				fail(readError(offset, err))
				return
			}
			if s == nil {
				recall(res, states)
			}
			tellSettled(res)
			res.Events = append(res.Events, kept)
			done(res, nil)
		})
	})
}

// tellSettled says of the groups that are done with the message how it was settled, as explain does.
func tellSettled(res *mqpb.TraceResponse) {
	for _, g := range res.Groups {
		if g.State == delivery.StateAcked.String() {
			g.State = delivery.ExplainEvents(eventsOf(res, g.Group)).State
		}
	}
}

// eventsOf is what a trace has of one group, in the form of the journal's.
func eventsOf(res *mqpb.TraceResponse, group uint64) (out []delivery.Event) {
	for _, ev := range res.Events {
		if ev.Group == group {
			out = append(out, delivery.Event{Type: ev.Type, At: ev.At, Group: mq.GroupID(group), Attempt: ev.Attempt,
				Consumer: ev.Consumer, Reason: ev.Reason})
		}
	}
	return out
}

// recall adds what the state still says of a carried message and the journal does not any more: the records of its first
// hand-overs, and of its death, may have gone with their segments.
func recall(res *mqpb.TraceResponse, states []delivery.GroupMessageState) {
	for i := range states {
		g := &states[i]
		tell := func(ev delivery.Event) {
			ev.Group = g.Group
			if ev.At != 0 && !slices.ContainsFunc(res.Events, func(have *mqpb.TraceEvent) bool {
				return have.Group == uint64(g.Group) && have.At == ev.At && have.Type == ev.Type
			}) {
				res.Events = append(res.Events, traceEvent(ev))
			}
		}
		if g.State == delivery.StateAcked {
			continue
		}
		tell(delivery.Event{Type: delivery.EventDelivered, At: g.First, Attempt: 1})
		if g.Attempt > 1 {
			tell(delivery.Event{Type: delivery.EventRedelivered, At: g.Last, Attempt: g.Attempt, Consumer: g.Consumer})
		}
		if g.State == delivery.StateDead {
			tell(delivery.Event{Type: delivery.EventDead, At: g.Until, Attempt: g.Attempt, Reason: g.Reason})
		}
	}
	slices.SortStableFunc(res.Events, func(a, b *mqpb.TraceEvent) int { return cmp.Compare(a.At, b.At) })
	at := slices.IndexFunc(res.Events, func(ev *mqpb.TraceEvent) bool { return ev.Type == eventReplicated })
	ev := res.Events[at]
	res.Events = slices.Delete(res.Events, at, at+1)
	insertReplicated(res, ev)
}

func (p *Partition) trace(ctx context.Context, j journal, s *mq.Segment, offset uint64, open openIndex, res *mqpb.TraceResponse) error {
	e, err := p.entry(ctx, &j, offset)
	if err != nil {
		return err
	}
	note := func(e *mq.Entry) error {
		return delivery.TraceEntry(e, offset, func(ev delivery.Event) { res.Events = append(res.Events, traceEvent(ev)) })
	}
	if err := note(e); err != nil {
		return err
	}
	replicated, err := p.replicated(ctx, &j, s, e, offset)
	if err != nil {
		return err
	}
	from := e.Next()
	for i := range j.len() {
		seg := j.at(i)
		if !from.Before(seg.DataEnd()) {
			continue
		}
		var spans []footer.Span
		switch {
		case i < len(j.archived):
			spans, err = p.env.Archive.Naming(ctx, &j.archived[i], offset)
		case i < len(j.sealed):
			spans, err = p.spans(ctx, seg, offset)
		default:
			spans, err = p.openSpans(seg, offset, open)
		}
		if err != nil {
			return err
		}
		for _, span := range spans {
			if err := p.walkPiece(ctx, &j, i, maxPosition(from, span.From), span.To, note); err != nil {
				return err
			}
		}
	}
	insertReplicated(res, replicated)
	notHandedOver(res)
	return nil
}

// notHandedOver takes out the deliveries that did not happen: the journal notes them before the message is read, and it
// turned out to be past its TTL then.
func notHandedOver(res *mqpb.TraceResponse) {
	for i := 0; i < len(res.Events); i++ {
		if ev := res.Events[i]; ev.Type != delivery.EventExpired || ev.Reason != delivery.ReasonLapsed {
			continue
		}
		for k := i - 1; k >= 0; k-- {
			if at := res.Events[k]; at.Group != res.Events[i].Group {
				continue
			} else if at.Type == delivery.EventDelivered || at.Type == delivery.EventRedelivered {
				res.Events = slices.Delete(res.Events, k, k+1)
				i--
			}
			break
		}
	}
}

// openIndex is what the leader knows of the open segment's index beyond its file.
type openIndex struct {
	known bool
	from  mq.Position   // where the part that grows begins
	spans []footer.Span // of that part
	parts [][]byte      // those before it that are not in the file yet
}

// openIndex is taken on the partition's goroutine: the part that grows is looked through there.
func (p *Partition) openIndex(l *leadership, offset uint64) openIndex {
	h := p.copies[l.seg.Segment().ID]
	if h == nil || h.index == nil {
		return openIndex{}
	}
	return openIndex{true, h.index.b.From(), h.index.b.Naming(offset), append([][]byte(nil), h.index.pending...)}
}

// openSpans are the stretches of the open segment that name a message: from its file, the parts on their way there, and
// the one that grows. Without an index it is all of it.
func (p *Partition) openSpans(s *mq.Segment, offset uint64, open openIndex) ([]footer.Span, error) {
	all := []footer.Span{{From: s.Base, To: s.End}}
	if !open.known {
		return all, nil
	}
	f := footer.New(s.ID, s.Base, nil)
	if file, size, err := p.env.Store.OpenFooter(s.ID); err == nil {
		defer file.Close()
		f.Read(file, size)
	}
	for _, part := range open.parts {
		f.TakeBytes(part)
	}
	spans, err := f.Naming(offset)
	if errors.Is(err, footer.ErrDamaged) || f.To != open.from {
		return all, nil
	}
	return append(spans, open.spans...), err
}

// spans are the stretches of a sealed segment that name a message.
func (p *Partition) spans(ctx context.Context, s *mq.Segment, offset uint64) (spans []footer.Span, err error) {
	err = p.withFooter(ctx, s, func(f *footer.Footer) error {
		spans, err = f.Naming(offset)
		return err
	})
	return spans, err
}

// insertReplicated puts the commit where it belongs, behind the publish or the release: before the first hand-over, which
// bounds its time too.
func insertReplicated(res *mqpb.TraceResponse, ev *mqpb.TraceEvent) {
	res.Events = slices.Insert(res.Events, min(1, len(res.Events)), ev)
	i := slices.IndexFunc(res.Events, func(ev *mqpb.TraceEvent) bool { return ev.Type == delivery.EventDelivered })
	if i < 0 || res.Events[i].At <= res.Events[0].At { // the clock was set back
		return
	}
	switch handed := res.Events[i].At; {
	case ev.At != 0:
		ev.At = min(ev.At, handed)
	case ev.AtLatest != 0:
		ev.AtLatest = min(ev.AtLatest, handed)
	}
}

const eventReplicated = "REPLICATED"

// replicated says who held the message, and when it was committed as far as that is known.
func (p *Partition) replicated(ctx context.Context, j *journal, s *mq.Segment, e *mq.Entry, offset uint64) (*mqpb.TraceEvent, error) {
	ev := &mqpb.TraceEvent{Type: eventReplicated}
	if s == nil { // carried
		c, _, err := p.carriedBatch(ctx, j, []uint64{offset})
		if err != nil {
			return nil, err
		}
		ev.Node, ev.Quorum, ev.Replicas, ev.At = c.Leader, c.Quorum, c.Replicas, c.Committed
	} else {
		at, latest, err := p.committedAt(ctx, j, e, offset)
		if err != nil {
			return nil, err
		}
		ev.Node, ev.Quorum, ev.At, ev.AtLatest = s.LeaderNode(), uint32(s.Quorum), at, latest
		for _, r := range s.Replicas {
			ev.Replicas = append(ev.Replicas, r.Node)
		}
	}
	return ev, nil
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
