package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/replay"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// The types of events that latencies are made of.
const (
	eventPublished    = "PUBLISHED"
	eventReleased     = "RELEASED"
	eventReplicated   = "REPLICATED"
	eventDelivered    = "DELIVERED"
	eventAcknowledged = "ACKNOWLEDGED"
)

// pathMessage reads a message id from the path and finds its topic.
func (g *Gateway) pathMessage(c echo.Context) (mq.MessageID, meta.Topic, error) {
	text := c.Param("id")
	id, err := mq.ParseMessageID(text)
	if err != nil {
		return id, meta.Topic{}, badParameter("path/id", "is not a message id: %.80q", text)
	}
	missing := mqerr.New(mqerr.MessageNotFound, "message %s", text)
	t, ok := g.view.TopicByID(id.Partition.Topic)
	if !ok || t.Deleted || id.Partition.Number >= t.Settings.Partitions {
		return id, t, missing
	}
	return id, t, nil
}

// handleTrace answers the life of a message.
func (g *Gateway) handleTrace(c echo.Context) error {
	id, t, err := g.pathMessage(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	archived, err := g.queryArchived(c, t)
	if err != nil {
		return err
	}
	r, err := g.traceOf(ctx, id, archived)
	if err != nil {
		return err
	}
	out := g.describeTrace(id, t, r)
	if out.Offset != nil {
		out.Traceparent = g.traceparentOf(ctx, t, id.Partition.Number, *out.Offset, archived)
	}
	return answerJSON(c, http.StatusOK, out)
}

// traceparentOf is the trace that a message was published in; "" without one, and where the message can't be read.
func (g *Gateway) traceparentOf(ctx context.Context, t meta.Topic, partition uint32, offset uint64, archived bool) string {
	at := func(o uint64) frame.Place { return frame.Place{Where: frame.AtOffset, Value: o} }
	q := readQuery{topic: t, reader: replay.New(replay.Query{Topic: t.ID, From: at(offset), To: at(offset + 1), Archived: archived,
		Unpack: func(b *mq.Batch) ([]byte, error) { return g.packer.Body(b, nil) }}, []uint32{partition}, g.fetchRead)}
	page, err := g.nextPage(ctx, &q, 1)
	if err != nil {
		return ""
	}
	defer page.release()
	for i := range page.items {
		for _, h := range page.items[i].Message.Headers {
			if page.items[i].Offset == offset && strings.EqualFold(h.Name, mq.Traceparent) {
				return strings.Clone(h.Value)
			}
		}
	}
	return ""
}

// traceOf asks the leader for the life of a message.
func (g *Gateway) traceOf(ctx context.Context, id mq.MessageID, archived bool) (*mqpb.TraceResponse, error) {
	r, err := fromLeader(ctx, g, id.Partition, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.TraceResponse, error) {
		q := traceRequest(id)
		q.Archived = archived
		return c.Trace(ctx, q)
	})
	if err != nil {
		return nil, notThere(id, err)
	}
	return r, nil
}

func traceRequest(id mq.MessageID) *mqpb.TraceRequest {
	r := &mqpb.TraceRequest{Partition: mqpb.FromPartition(id.Partition), Scheduled: id.Scheduled}
	if id.Scheduled {
		r.Number = id.Number
	} else {
		r.Offset = id.Number
	}
	return r
}

// notThere turns an offset that is not there, now or any more, into a message that is not there; one that is recorded as
// lost keeps saying so.
func notThere(id mq.MessageID, err error) error {
	switch mqerr.Of(err).Code {
	case mqerr.OffsetExpired, mqerr.OffsetOutOfRange, mqerr.MessageNotFound:
		if id.Scheduled { // the leader knows it by a number that nobody has seen
			return unknownSchedule(id)
		}
		return mqerr.New(mqerr.MessageNotFound, "message %s: %s", id, mqerr.Of(err).Detail)
	}
	return err
}

func (g *Gateway) describeTrace(id mq.MessageID, t meta.Topic, r *mqpb.TraceResponse) api.Trace {
	out := api.Trace{ID: id.String(), Topic: t.Name, Partition: id.Partition.Number, Offset: &id.Number,
		Events: make([]api.TraceEvent, 0, len(r.GetEvents())), Groups: make([]api.TraceGroup, 0, len(r.GetGroups()))}
	if id.Scheduled {
		out.Offset, out.DeliverAt = &r.Offset, timeOf(r.GetDue())
		switch {
		case r.GetPending() && r.GetDue() != 0:
			out.State = api.StateScheduled
		case r.GetPending():
			out.State = api.StateCancelled
		}
		if r.GetPending() {
			out.Offset = nil
		}
	}
	names := map[uint64]string{0: ""}
	for _, s := range r.GetGroups() {
		names[s.GetGroup()] = g.groupName(s.GetGroup(), s.GetName())
	}
	events := r.GetEvents()
	byTime(events)
	for _, e := range events {
		if _, ok := names[e.GetGroup()]; !ok {
			names[e.GetGroup()] = g.groupName(e.GetGroup(), "")
		}
		out.Events = append(out.Events, api.TraceEvent{At: timeOf(e.GetAt()), AtLatest: timeOf(e.GetAtLatest()), Type: e.GetType(), Group: names[e.GetGroup()],
			Consumer: e.GetConsumer(), Node: e.GetNode(), Attempt: e.GetAttempt(), Reason: e.GetReason(), Until: timeOf(e.GetUntil()),
			Producer: e.GetProducer(), Gateway: e.GetGateway(), Replicas: e.GetReplicas(), Quorum: e.GetQuorum()})
	}
	for _, s := range r.GetGroups() {
		out.Groups = append(out.Groups, api.TraceGroup{Group: names[s.GetGroup()], State: s.GetState(),
			Attempts: s.GetAttempts(), Until: timeOf(s.GetUntil()), Consumer: s.GetConsumer()})
	}
	countAttempts(&out)
	measure(&out)
	return out
}

// byTime sorts events by their times. One without stays behind the one that it follows: the commit, behind the publish.
func byTime(events []*mqpb.TraceEvent) {
	times := make(map[*mqpb.TraceEvent]int64, len(events))
	last := int64(0)
	for _, e := range events {
		if e.GetAt() != 0 {
			last = e.GetAt()
		}
		times[e] = last
	}
	slices.SortStableFunc(events, func(a, b *mqpb.TraceEvent) int { return cmp.Compare(times[a], times[b]) })
}

// countAttempts takes the attempts from the events where they say more: of a settled message the leader
// keeps only that it is settled.
func countAttempts(t *api.Trace) {
	for _, e := range t.Events {
		if g := slices.IndexFunc(t.Groups, func(g api.TraceGroup) bool { return g.Group == e.Group }); g >= 0 {
			t.Groups[g].Attempts = max(t.Groups[g].Attempts, e.Attempt)
		}
	}
}

// groupName is the name of a group that a trace knows by its number.
func (g *Gateway) groupName(id uint64, told string) string {
	if m, ok := g.view.GroupByID(mq.GroupID(id)); ok {
		return m.Name
	}
	if told != "" {
		return told
	}
	return fmt.Sprintf("#%d", id) // the group is deleted and its name in use again
}

// measure fills in how long after its publishing the message came to each stage first. A scheduled message counts from
// its release: that it waited was asked for.
func measure(t *api.Trace) {
	i := slices.IndexFunc(t.Events, func(e api.TraceEvent) bool { return e.Type == eventPublished || e.Type == eventReleased })
	if i < 0 {
		return
	}
	published := t.Events[i].At
	first := func(d *api.Duration, at time.Time) {
		// Stamps come from one leader's clock after another; what they put before the publishing took no time that
		// anybody can tell. At least a nanosecond, since zero says that it has not happened.
		if *d == 0 {
			*d = api.Duration(max(1, at.Sub(published)))
		}
	}
	for _, e := range t.Events {
		g := slices.IndexFunc(t.Groups, func(g api.TraceGroup) bool { return g.Group == e.Group })
		switch e.Type {
		case eventReplicated:
			if !e.At.IsZero() {
				first(&t.Latency.Committed, e.At)
			}
		case eventDelivered:
			first(&t.Latency.Delivered, e.At)
			if g >= 0 {
				first(&t.Groups[g].Delivered, e.At)
			}
		case eventAcknowledged:
			first(&t.Latency.Acknowledged, e.At)
			if g >= 0 {
				first(&t.Groups[g].Acknowledged, e.At)
			}
		}
	}
}
