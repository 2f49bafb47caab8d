package gateway

import (
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// handleSeek puts a group to another place.
func (g *Gateway) handleSeek(c echo.Context) error {
	var req api.SeekRequest
	dry, err := g.readAction(c, &req)
	if err != nil {
		return err
	}
	if err := checkSeek(&req.To); err != nil {
		return err
	}
	t, group, err := g.pathGroup(c)
	if err != nil {
		return err
	}
	return g.seekAndAnswer(c, t, group, &req.To, dry)
}

func (g *Gateway) seekAndAnswer(c echo.Context, t meta.Topic, group meta.Group, to *api.SeekTarget, dry bool) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	answers, err := g.seek(ctx, t, group, to, dry)
	if err == nil {
		err = allFailed(answers)
	}
	if err != nil {
		return err
	}
	out := describeSeek(t, answers)
	out.DryRun = dry
	status := http.StatusOK
	if out.Partial {
		status = http.StatusMultiStatus
	}
	return answerJSON(c, status, out)
}

func checkSeek(to *api.SeekTarget) error {
	var err error
	switch {
	case *to == (api.SeekTarget{}):
		return validation(mq.FieldError{Pointer: "/to", Detail: "is needed: where the group goes"})
	case to.Snapshot != "":
		err = mq.CheckName(to.Snapshot)
	case !to.Time.IsZero() && checkStart("", mq.Start{Time: to.Time}) != nil:
		err = fmt.Errorf("a time must be in the years 1970 to 2261")
	}
	if err != nil {
		return validation(mq.FieldError{Pointer: "/to", Detail: err.Error()})
	}
	return nil
}

// seek asks the partitions that are meant. Those without the snapshot that is named, because they are younger, begin at
// their first message.
func (g *Gateway) seek(ctx context.Context, t meta.Topic, group meta.Group, to *api.SeekTarget, dry bool) (map[mq.PartitionID]told[*mqpb.SeekResult], error) {
	req := &mqpb.SeekRequest{Group: uint64(group.ID), To: to.At, Offset: to.Offset, Snapshot: to.Snapshot, DryRun: dry}
	parts := allPartitions(t)
	switch {
	case to.Partition != nil:
		if *to.Partition >= t.Settings.Partitions {
			return nil, mqerr.New(mqerr.PartitionNotFound, "topic %s has the partitions 0 to %d, not %d", t.Name, t.Settings.Partitions-1, *to.Partition)
		}
		req.To, parts = "offset", parts[*to.Partition:*to.Partition+1]
	case !to.Time.IsZero():
		req.To, req.Time = "time", to.Time.UnixNano()
	case to.Snapshot != "":
		return g.seekSnapshot(ctx, group, parts, req)
	}
	return g.seekAll(ctx, parts, req), nil
}

func (g *Gateway) seekAll(ctx context.Context, parts []mq.PartitionID, req *mqpb.SeekRequest) map[mq.PartitionID]told[*mqpb.SeekResult] {
	return untilAnswered(ctx, g, parts, func(ctx context.Context, c mqpb.LogNodeClient, ps []*mqpb.Partition) ([]*mqpb.SeekResult, error) {
		r, err := c.Seek(ctx, &mqpb.SeekRequest{Partitions: ps, Group: req.Group, To: req.To, Time: req.Time, Offset: req.Offset,
			Snapshot: req.Snapshot, DryRun: req.DryRun})
		return r.GetResults(), err
	})
}

func (g *Gateway) seekSnapshot(ctx context.Context, group meta.Group, parts []mq.PartitionID, req *mqpb.SeekRequest) (map[mq.PartitionID]told[*mqpb.SeekResult], error) {
	var with, without []mq.PartitionID
	for p, a := range g.askSnapshots(ctx, parts, &mqpb.SnapshotsRequest{Group: uint64(group.ID), Act: "list"}) {
		if a.err != nil {
			return nil, a.err // it is not known who has it, so nothing is moved
		}
		if hasSnapshot(a.answer, req.Snapshot) {
			with = append(with, p)
		} else {
			without = append(without, p)
		}
	}
	if len(with) == 0 {
		return nil, mqerr.New(mqerr.SnapshotNotFound, "group %s has no snapshot %s", group.Name, req.Snapshot)
	}
	req.To = "snapshot"
	answers := g.seekAll(ctx, with, req)
	if len(without) > 0 {
		req.To = "earliest"
		for p, a := range g.seekAll(ctx, without, req) {
			answers[p] = a
		}
	}
	return answers, nil
}

func describeSeek(t meta.Topic, answers map[mq.PartitionID]told[*mqpb.SeekResult]) api.SeekResult {
	out := api.SeekResult{Partitions: []api.SeekPartition{}}
	for _, p := range allPartitions(t) {
		a, asked := answers[p]
		if !asked {
			continue
		}
		r := a.answer
		one := api.SeekPartition{Partition: p.Number, From: r.GetFrom(), To: r.GetTo(), Error: itemError(a.err), SeekFigures: api.SeekFigures{
			Lag: r.GetLag(), Again: r.GetAgain(), Skipped: r.GetSkipped(), InFlight: r.GetInFlight(), DeadAgain: r.GetDeadAgain()}}
		out.Partial = out.Partial || a.err != nil
		out.Lag += one.Lag
		out.Again += one.Again
		out.Skipped += one.Skipped
		out.InFlight += one.InFlight
		out.DeadAgain += one.DeadAgain
		out.Partitions = append(out.Partitions, one)
	}
	return out
}
