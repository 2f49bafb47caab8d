package gateway

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

func (g *Gateway) askSnapshots(ctx context.Context, parts []mq.PartitionID, req *mqpb.SnapshotsRequest) map[mq.PartitionID]told[*mqpb.PartitionSnapshots] {
	return untilAnswered(ctx, g, parts, func(ctx context.Context, c mqpb.LogNodeClient, ps []*mqpb.Partition) ([]*mqpb.PartitionSnapshots, error) {
		r, err := c.Snapshots(ctx, &mqpb.SnapshotsRequest{Partitions: ps, Group: req.Group, Act: req.Act, Name: req.Name, Made: req.Made})
		return r.GetResults(), err
	})
}

func hasSnapshot(p *mqpb.PartitionSnapshots, name string) bool {
	return slices.ContainsFunc(p.GetSnapshots(), func(s *mqpb.Snapshot) bool { return s.GetName() == name })
}

// handleCreateSnapshot keeps where a group is under a name, in every partition or in none.
func (g *Gateway) handleCreateSnapshot(c echo.Context) error {
	var in api.SnapshotInput
	if err := g.readConfig(c, &in); err != nil {
		return err
	}
	if err := mq.CheckName(in.Name); err != nil {
		return validation(mq.FieldError{Pointer: "/name", Detail: err.Error()})
	}
	t, group, err := g.pathGroup(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	req := &mqpb.SnapshotsRequest{Group: uint64(group.ID), Act: "create", Name: in.Name, Made: g.clock.now().UnixNano()}
	answers := g.askSnapshots(ctx, allPartitions(t), req)
	var made []mq.PartitionID
	for p, a := range answers {
		if a.err == nil {
			made = append(made, p)
		} else if err == nil || !asError(a.err).Code.Retryable() {
			err = a.err
		}
	}
	if err != nil {
		g.takeBack(ctx, made, req)
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/topics/"+t.Name+"/groups/"+group.Name+"/snapshots/"+in.Name)
	// Leaders answer with all that the group has.
	for _, s := range gatherSnapshots(answers) {
		if s.Name == in.Name {
			return answerJSON(c, http.StatusCreated, s)
		}
	}
	return mqerr.New(mqerr.SnapshotNotFound, "snapshot %s of group %s is gone already", in.Name, group.Name)
}

// takeBack deletes a snapshot that could not be made everywhere from where it was.
func (g *Gateway) takeBack(ctx context.Context, made []mq.PartitionID, req *mqpb.SnapshotsRequest) {
	if len(made) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	req.Act = "delete"
	for p, a := range g.askSnapshots(ctx, made, req) {
		if a.err != nil {
			g.log.Warn("a snapshot that is not whole was left", "partition", p, "snapshot", req.Name, "error", a.err)
		}
	}
}

// gatherSnapshots puts together what the partitions have, by name.
func gatherSnapshots(answers map[mq.PartitionID]told[*mqpb.PartitionSnapshots]) []api.Snapshot {
	byName := map[string]*api.Snapshot{}
	for p, a := range answers {
		for _, s := range a.answer.GetSnapshots() {
			one := byName[s.GetName()]
			if one == nil {
				one = &api.Snapshot{Name: s.GetName(), Created: timeOf(s.GetMade())}
				byName[s.GetName()] = one
			}
			one.Bytes += s.GetBytes()
			one.Partitions = append(one.Partitions, api.SnapshotPartition{Partition: p.Number, Offset: s.GetLow()})
		}
	}
	out := make([]api.Snapshot, 0, len(byName))
	for _, s := range byName {
		slices.SortFunc(s.Partitions, func(a, b api.SnapshotPartition) int { return cmp.Compare(a.Partition, b.Partition) })
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b api.Snapshot) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// listSnapshots is all snapshots of a group.
func (g *Gateway) listSnapshots(c echo.Context) (t meta.Topic, group meta.Group, out api.SnapshotList, err error) {
	if t, group, err = g.pathGroup(c); err != nil {
		return t, group, out, err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), lookTimeout)
	defer cancel()
	answers := g.askSnapshots(ctx, allPartitions(t), &mqpb.SnapshotsRequest{Group: uint64(group.ID), Act: "list"})
	if err := allFailed(answers); err != nil {
		return t, group, out, err
	}
	out.Snapshots = gatherSnapshots(answers)
	for _, a := range answers {
		out.Partial = out.Partial || a.err != nil
	}
	return t, group, out, nil
}

// handleListSnapshots answers a group's snapshots by name. There are few, so there are no pages.
func (g *Gateway) handleListSnapshots(c echo.Context) error {
	_, _, out, err := g.listSnapshots(c)
	if err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, out)
}

// pathSnapshot finds the snapshot that a path names.
func (g *Gateway) pathSnapshot(c echo.Context) (t meta.Topic, group meta.Group, s api.Snapshot, err error) {
	name, err := pathName(c, "snapshot")
	if err != nil {
		return t, group, s, err
	}
	t, group, list, err := g.listSnapshots(c)
	if err != nil {
		return t, group, s, err
	}
	for _, s := range list.Snapshots {
		if s.Name == name {
			return t, group, s, nil
		}
	}
	if list.Partial {
		return t, group, s, mqerr.New(mqerr.NoLeader, "not every partition's leader has answered, and the others have no snapshot %s", name)
	}
	return t, group, s, mqerr.New(mqerr.SnapshotNotFound, "group %s has no snapshot %s", group.Name, name)
}

// handleGetSnapshot answers one snapshot.
func (g *Gateway) handleGetSnapshot(c echo.Context) error {
	_, _, s, err := g.pathSnapshot(c)
	if err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, s)
}

// handleDeleteSnapshot forgets a snapshot and answers what it was.
func (g *Gateway) handleDeleteSnapshot(c echo.Context) error {
	dry, err := queryBool(c, "dry_run")
	if err != nil {
		return err
	}
	t, group, s, err := g.pathSnapshot(c)
	if err != nil {
		return err
	}
	if dry {
		s.DryRun = true
		return answerJSON(c, http.StatusOK, s)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	answers := g.askSnapshots(ctx, allPartitions(t), &mqpb.SnapshotsRequest{Group: uint64(group.ID), Act: "delete", Name: s.Name})
	for _, a := range answers {
		if a.err != nil && !mqerr.Is(a.err, mqerr.SnapshotNotFound) {
			return a.err // it is gone from some; the same call goes on
		}
	}
	return answerJSON(c, http.StatusOK, s)
}
