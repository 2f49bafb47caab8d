package gateway

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// handleExplain answers why a message is not delivered to a group now.
func (g *Gateway) handleExplain(c echo.Context) error {
	id, t, err := g.pathMessage(c)
	if err != nil {
		return err
	}
	name := c.QueryParam("group")
	if err := mq.CheckName(name); err != nil {
		return badParameter("query/group", "%v", err)
	}
	group, ok := g.view.Group(t.ID, name)
	if !ok { // it may have been made a moment ago through another gateway
		if group, err = g.store.GetGroup(c.Request().Context(), t.ID, name); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	r, err := fromLeader(ctx, g, id.Partition, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.ExplainResponse, error) {
		return c.Explain(ctx, &mqpb.ExplainRequest{Partition: mqpb.FromPartition(id.Partition), Group: uint64(group.ID),
			Number: id.Number, Scheduled: id.Scheduled})
	})
	if err != nil {
		return notThere(id, err)
	}
	return answerJSON(c, http.StatusOK, describeExplain(id, name, r))
}

func describeExplain(id mq.MessageID, group string, r *mqpb.ExplainResponse) api.Explanation {
	out := api.Explanation{ID: id.String(), Group: group, State: r.GetState(), Because: r.GetBecause(), Until: timeOf(r.GetUntil()),
		Since: timeOf(r.GetSince()), Attempt: r.GetAttempt(), Consumer: r.GetConsumer(), Reason: r.GetReason(), Behind: r.Behind}
	for _, a := range r.GetAhead() {
		if out.Ahead == nil {
			out.Ahead = map[string]uint64{}
		}
		out.Ahead[mq.Lane(a.GetLane()).String()] = a.GetMessages()
	}
	return out
}
