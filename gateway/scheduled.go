package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/gateway/internal/replay"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// scheduledRoutes are the calls on messages that wait for their time.
func (g *Gateway) scheduledRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/topics/:topic/scheduled", g.handleListScheduled, []string{"partition", "limit", "cursor"}},
		{http.MethodDelete, "/v1/scheduled/:id", g.handleCancelScheduled, []string{"dry_run"}},
		{http.MethodPatch, "/v1/scheduled/:id", g.handleRetimeScheduled, nil},
	}
}

// pathScheduled reads the id of a scheduled message from the path and finds its topic. The id of another message is
// none.
func (g *Gateway) pathScheduled(c echo.Context) (mq.MessageID, meta.Topic, error) {
	id, t, err := g.pathMessage(c)
	if err == nil && !id.Scheduled {
		err = mqerr.New(mqerr.MessageNotFound, "message %s was not scheduled", id)
	}
	return id, t, err
}

// handleCancelScheduled makes a pending schedule never delivered; doing so twice is fine.
func (g *Gateway) handleCancelScheduled(c echo.Context) error {
	dry, err := queryBool(c, "dry_run")
	if err != nil {
		return err
	}
	id, t, err := g.pathScheduled(c)
	if err != nil {
		return err
	}
	out := api.Scheduled{ID: id.String(), Topic: t.Name, Partition: id.Partition.Number, State: api.StateCancelled, DryRun: dry}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	if !dry {
		_, err := g.changeScheduled(ctx, id, &mqpb.ChangeScheduledRequest{Cancel: true})
		if err != nil {
			return err
		}
		return answerJSON(c, http.StatusOK, out)
	}
	found, err := g.findScheduled(ctx, id, false)
	if err != nil {
		return err
	}
	if found.GetReleased() {
		return mqerr.New(mqerr.AlreadyReleased, "message %s", id)
	}
	out.State, out.DeliverAt = api.StateScheduled, time.Unix(0, found.GetDue()).UTC()
	return answerJSON(c, http.StatusOK, out)
}

// handleRetimeScheduled gives a pending schedule another time.
func (g *Gateway) handleRetimeScheduled(c echo.Context) error {
	var in api.Reschedule
	if err := g.readConfig(c, &in); err != nil {
		return err
	}
	at, err := rescheduleTime(&in, g.clock)
	if err != nil {
		return err
	}
	id, t, err := g.pathScheduled(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	due, err := g.changeScheduled(ctx, id, &mqpb.ChangeScheduledRequest{Time: at})
	if err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, api.Scheduled{ID: id.String(), Topic: t.Name, Partition: id.Partition.Number,
		State: api.StateScheduled, DeliverAt: time.Unix(0, due).UTC()})
}

// rescheduleTime is the new time, as in frame.Schedule. A time that has passed is now.
func rescheduleTime(in *api.Reschedule, clock *nodeTime) (int64, error) {
	t, bad, field := int64(0), "", "/deliver_at"
	switch {
	case (in.DeliverAt == nil) == (in.Delay == nil):
		return 0, invalid("", "one of deliver_at and delay is given")
	case in.Delay != nil:
		field = "/delay"
		t, bad = delayTime(in.Delay.String())
	case *in.DeliverAt != "now":
		t, bad = clock.deliverTime(*in.DeliverAt)
	}
	if bad != "" {
		return 0, invalid(field, "%s", bad)
	}
	if t == 0 {
		t = -1 // after a nanosecond, by the leader's clock
	}
	return t, nil
}

// changeScheduled asks the leader. It may be asked again: the change is the same.
func (g *Gateway) changeScheduled(ctx context.Context, id mq.MessageID, req *mqpb.ChangeScheduledRequest) (due int64, err error) {
	req.Partition, req.Number = mqpb.FromPartition(id.Partition), id.Number
	r, err := fromLeader(ctx, g, id.Partition, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.ChangeScheduledResponse, error) {
		return c.ChangeScheduled(ctx, req)
	})
	if err != nil {
		return 0, named(id, err)
	}
	return r.GetDue(), nil
}

// findScheduled asks the leader where a schedule is in its life, and of one that was released long ago the archive, too.
func (g *Gateway) findScheduled(ctx context.Context, id mq.MessageID, archived bool) (*mqpb.FindScheduledResponse, error) {
	r, err := fromLeader(ctx, g, id.Partition, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.FindScheduledResponse, error) {
		return c.FindScheduled(ctx, &mqpb.FindScheduledRequest{Partition: mqpb.FromPartition(id.Partition), Number: id.Number, Archived: archived})
	})
	if err != nil {
		return nil, named(id, err)
	}
	return r, nil
}

// named says an error of a schedule with its id, where leaders speak of numbers.
func named(id mq.MessageID, err error) error {
	switch mqerr.Of(err).Code {
	case mqerr.AlreadyReleased:
		return mqerr.New(mqerr.AlreadyReleased, "message %s", id)
	case mqerr.MessageNotFound:
		return unknownSchedule(id)
	}
	return err
}

// answerPending answers a scheduled message that is not due yet: an api.Message without an offset.
func (g *Gateway) answerPending(c echo.Context, id mq.MessageID, t meta.Topic, found *mqpb.FindScheduledResponse, raw, base64 bool) error {
	b, err := mq.ParseBatch(found.GetBatch())
	if err != nil {
		return err
	}
	var answered error
	if err := b.Each(b.Packed(), func(_ int, m *mq.Message) bool {
		if raw {
			c.Response().Header().Set(headerDeliverAt, string(appendTime(nil, found.GetDue())))
			answered = answerRaw(c, &replay.Item{ID: id, Stamp: found.GetScheduled(), Message: *m})
			return false
		}
		out := append(make([]byte, 0, m.Size()*4/3+512), `{"topic":`...)
		out = append(jsonscan.AppendString(out, t.Name), `,"state":"scheduled","deliver_at":"`...)
		out = append(appendTime(out, found.GetDue()), '"', ',')
		out = appendMessage(out, id, m, where{stamp: found.GetScheduled(), base64: base64})
		answered = c.Blob(http.StatusOK, echo.MIMEApplicationJSON, append(out, '}', '\n'))
		return false
	}); err != nil {
		return err
	}
	return answered
}

// releasedID is the id of a message with an offset: by its schedule number if it was scheduled.
func releasedID(p mq.PartitionID, offset uint64, scheduled bool, number uint64) mq.MessageID {
	if scheduled {
		return mq.MessageID{Partition: p, Scheduled: true, Number: number}
	}
	return mq.MessageID{Partition: p, Number: offset}
}

func unknownSchedule(id mq.MessageID) error {
	return mqerr.New(mqerr.MessageNotFound, "message %s is not known, was cancelled, or is no longer kept", id)
}
