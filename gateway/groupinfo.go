package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// groupLookers is how many groups of a list are asked for at once.
const groupLookers = 8

func (g *Gateway) answerGroup(c echo.Context, status int, t meta.Topic, group meta.Group) error {
	c.Response().Header().Set("ETag", etag(group.Revision))
	return answerJSON(c, status, g.describeGroup(c.Request().Context(), t, group))
}

func groupState(m *meta.Group) string {
	switch {
	case m.Paused:
		return api.StatePaused
	case !m.Started:
		return api.StateStarting
	}
	return api.StateReady
}

// describeGroup puts together what etcd and the leaders say of a group.
func (g *Gateway) describeGroup(ctx context.Context, t meta.Topic, group meta.Group) api.Group {
	parts := allPartitions(t)
	figures := g.groupFigures(ctx, group.ID, parts)
	out := api.Group{Name: group.Name, Topic: t.Name, State: groupState(&group), Paused: group.Paused,
		Settings: group.Settings, Partitions: make([]api.GroupPartition, 0, len(parts))}
	now := g.clock.now()
	for _, p := range parts {
		one := describeGroupPartition(p, figures[p], now)
		out.Partitions = append(out.Partitions, one)
		if one.GroupPartitionFigures == nil {
			out.Partial = true
			continue
		}
		addFigures(&out.GroupFigures, &one.GroupFigures)
	}
	addLanes(&out)
	return out
}

func describeGroupPartition(p mq.PartitionID, f told[*mqpb.GroupFigures], now time.Time) api.GroupPartition {
	out := api.GroupPartition{Partition: p.Number}
	switch {
	case mqerr.Is(f.err, mqerr.GroupNotFound):
		// The leader has not been told yet: the group is starting.
		out.Error = api.ItemErrorOf(mqerr.New(mqerr.NoLeader, "the group has not started in this partition yet"))
		return out
	case f.err != nil:
		out.Error = api.ItemErrorOf(f.err)
		return out
	}
	a := f.answer
	out.GroupPartitionFigures = &api.GroupPartitionFigures{Cursor: a.GetCursor(), NextOffset: a.GetNext()}
	out.GroupFigures = api.GroupFigures{Lag: a.GetLag(), Ready: a.GetReady(), InFlight: a.GetLeased(), Waiting: a.GetWaiting(), Dead: a.GetDead(),
		Exported: a.GetExported(), Acked: a.GetAcked(), Expired: a.GetExpired(), Filtered: a.GetFiltered(), Dropped: a.GetDropped(), Discarded: a.GetDiscarded(), Scheduled: a.GetScheduled()}
	out.Parked, out.Unreadable = a.GetParked(), describeRanges(a.GetUnreadable())
	for _, l := range a.GetLanes() {
		out.Lanes.Add(mq.Lane(l.GetLane()).String(), api.LaneFigures{Lag: l.GetLag(), InFlight: l.GetLeased(), Waiting: l.GetWaiting(), Dead: l.GetDead()})
	}
	if stamp := a.GetOldestStamp(); stamp > 0 && a.GetLag() > 0 {
		// Another clock stamped the message: never less than zero, and no finer than is true.
		out.OldestAge = api.Duration(max(0, now.Sub(time.Unix(0, stamp))).Truncate(time.Millisecond)) // never older than it is
	}
	return out
}

// addLanes sums the lanes of the partitions: all of them if any has another lane than the normal one in use.
func addLanes(out *api.Group) {
	for _, p := range out.Partitions {
		if p.GroupPartitionFigures == nil {
			continue
		}
		for lane, f := range p.Lanes {
			out.Lanes.Add(lane, f)
		}
	}
}

func addFigures(sum, one *api.GroupFigures) {
	sum.Lag += one.Lag
	sum.Ready += one.Ready
	sum.InFlight += one.InFlight
	sum.Waiting += one.Waiting
	sum.Dead += one.Dead
	sum.Exported += one.Exported
	sum.Parked += one.Parked
	sum.Acked += one.Acked
	sum.Expired += one.Expired
	sum.Filtered += one.Filtered
	sum.Dropped += one.Dropped
	sum.Discarded += one.Discarded
	sum.Scheduled += one.Scheduled
	sum.OldestAge = max(sum.OldestAge, one.OldestAge)
}

// summarizeGroups asks the leaders for each group of a page.
func (g *Gateway) summarizeGroups(ctx context.Context, t meta.Topic, groups []meta.Group) []api.GroupSummary {
	out := make([]api.GroupSummary, len(groups))
	var eg errgroup.Group
	eg.SetLimit(groupLookers)
	for i := range groups {
		eg.Go(func() error {
			d := g.describeGroup(ctx, t, groups[i])
			out[i] = api.GroupSummary{Name: d.Name, State: d.State, Paused: d.Paused, GroupFigures: d.GroupFigures, Partial: d.Partial}
			return nil
		})
	}
	_ = eg.Wait() // none of them fails
	return out
}

// handleHeldMessages lists what a group holds in one state.
func (g *Gateway) handleHeldMessages(c echo.Context) error {
	state := c.QueryParam("state")
	switch state {
	case "ready", "leased", "waiting", "parked", "dead":
		return g.listHeld(c, &heldListing{state: state, most: maxPage, page: maxPage})
	}
	return badParameter("query/state", "must be ready, leased, waiting, parked or dead, not %.40q", state)
}

// heldListing is what is listed of a group.
type heldListing struct {
	state  string
	filter *mqpb.DeadFilter // of dead letters
	most   int              // the largest limit
	page   int              // how many are asked for between two looks at the time that is left
	more   func(context.Context, mq.GroupID, []api.HeldMessage)
}

// listHeld lists what a group holds in a state, and tells more of it.
func (g *Gateway) listHeld(c echo.Context, list *heldListing) error {
	most, err := queryInt(c, "limit", defaultPage, 1, int64(list.most))
	if err != nil {
		return err
	}
	limit := int(most)
	only, err := queryInt(c, "partition", -1, 0, mq.MaxPartitions-1)
	if err != nil {
		return err
	}
	t, group, err := g.pathGroup(c)
	if err != nil {
		return err
	}
	at, err := g.heldFrom(c, t, group.ID, list.state, only, list.filter)
	if err != nil {
		return err
	}
	out := api.HeldList{Messages: []api.HeldMessage{}}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	for at.inside() && len(out.Messages) < limit && !pressed(ctx) {
		page, next, err := g.heldPage(ctx, at, uint32(min(limit-len(out.Messages), list.page)))
		if err != nil {
			return err
		}
		if list.more != nil {
			list.more(ctx, group.ID, page)
		}
		out.Messages = append(out.Messages, page...)
		at.next(next)
	}
	if at.inside() {
		if out.NextCursor, err = g.sealHeld(at); err != nil {
			return err
		}
	}
	return answerJSON(c, http.StatusOK, out)
}

// pressed says that a call has little time left and should answer with what it has, so that the next one goes on.
func pressed(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < time.Second
}

// heldPage asks one leader for what the group holds in its partition, and from where on there may be more, 0 for none.
func (g *Gateway) heldPage(ctx context.Context, at *heldPlace, limit uint32) ([]api.HeldMessage, uint64, error) {
	p := mq.PartitionID{Topic: at.topic, Number: at.partition}
	r, err := fromLeader(ctx, g, p, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.HeldMessagesResponse, error) {
		return c.HeldMessages(ctx, &mqpb.HeldMessagesRequest{Partition: mqpb.FromPartition(p), Group: uint64(at.group),
			State: at.state, From: at.offset, Limit: limit, Filter: at.filter})
	})
	if err != nil {
		return nil, 0, err
	}
	messages := r.GetMessages()
	messages = messages[:min(len(messages), int(limit))]
	out := make([]api.HeldMessage, len(messages))
	for i, m := range messages {
		id := releasedID(p, m.GetOffset(), m.GetScheduled(), m.GetNumber())
		out[i] = api.HeldMessage{ID: id.String(), Partition: p.Number,
			Offset: m.GetOffset(), State: m.GetState(), Attempt: m.GetAttempt(), Until: timeOf(m.GetUntil()),
			Consumer: m.GetConsumer(), Reason: m.GetReason(), Lane: mq.Lane(m.GetLane()).String(), Behind: behind(m), Timestamp: timeOf(m.GetStamp()),
			FirstDelivery: timeOf(m.GetFirstDelivery()), LastDelivery: timeOf(m.GetLastDelivery())}
	}
	return out, r.GetNext(), nil
}

// behind is the offset that a parked message waits for.
func behind(m *mqpb.HeldMessage) *uint64 {
	if m.GetState() != "parked" {
		return nil
	}
	return &m.Behind
}

// timeOf is a stamp as a time; 0 is none.
func timeOf(stamp int64) time.Time {
	if stamp == 0 {
		return time.Time{}
	}
	return time.Unix(0, stamp).UTC()
}
