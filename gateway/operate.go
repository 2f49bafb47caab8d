package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// operateRoutes are what an operator asks of the cluster. They write wishes to etcd; the controller carries them out.
func (g *Gateway) operateRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/nodes/:node/drain", g.handleDrain, []string{"dry_run"}},
		{http.MethodDelete, "/v1/nodes/:node/drain", g.handleUndrain, nil},
		{http.MethodPost, "/v1/topics/:topic/partitions/:partition/move-leader", g.handleMoveLeader, []string{"dry_run"}},
		{http.MethodPost, "/v1/topics/:topic/partitions/:partition/force-recover", g.handleForceRecover, []string{"dry_run"}},
		{http.MethodPost, "/v1/cluster/rebuild-metadata", g.handleRebuild, []string{"dry_run"}},
	}
}

// handleDrain wishes a node to be emptied. The answer shows how far that is; asking again shows it anew.
func (g *Gateway) handleDrain(c echo.Context) error {
	name, err := pathName(c, "node")
	if err != nil {
		return err
	}
	dry, err := queryBool(c, "dry_run")
	switch {
	case err != nil:
		return err
	case dry:
		return g.previewDrain(c, name)
	}
	return g.setDrain(c, name, true)
}

// handleUndrain takes the wish back.
func (g *Gateway) handleUndrain(c echo.Context) error {
	name, err := pathName(c, "node")
	if err != nil {
		return err
	}
	return g.setDrain(c, name, false)
}

func (g *Gateway) setDrain(c echo.Context, name string, drain bool) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), viewWait)
	defer cancel()
	if _, known := g.view.Node(name); !known {
		return mqerr.New(mqerr.NodeNotFound, "there is no node %q now", name)
	}
	if err := g.store.SetDrain(ctx, name, drain); err != nil {
		return err
	}
	_ = g.view.WaitFor(ctx, func(v *meta.View) bool { // so that the answer shows it; it holds either way
		n, ok := v.Node(name)
		return !ok || n.Draining == drain
	})
	n, err := g.describeNode(ctx, name, false)
	if err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, n)
}

// handleMoveLeader moves a partition's leadership to another replica, the named one or any, and waits for it.
func (g *Gateway) handleMoveLeader(c echo.Context) error {
	var req api.MoveLeaderRequest
	dry, err := queryBool(c, "dry_run")
	if err != nil {
		return err
	}
	if err := g.readOptions(c, &req); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	p, err := g.pathPartition(ctx, c)
	if err != nil {
		return err
	}
	open, to, err := g.moveTo(p, req.To)
	if err != nil {
		return err
	}
	if dry {
		at := slices.IndexFunc(open.Replicas, func(r mq.Replica) bool { return r.Store == to })
		return answerJSON(c, http.StatusOK, api.MoveLeaderAnswer{DryRun: true, Partition: p.Number, Leader: open.Replicas[at].Node, From: open.LeaderNode()})
	}
	if open.Leader.Store != to {
		if err := g.store.SetMove(ctx, p, meta.Move{Segment: open.ID, To: to}); err != nil {
			return err
		}
		err := g.view.WaitFor(ctx, func(v *meta.View) bool {
			h, ok := v.Head(p)
			return ok && h.Open != nil && h.Open.ID != open.ID
		})
		if err != nil {
			return mqerr.New(mqerr.OutcomeUnknown, "the leader has not moved yet; the wish stands")
		}
	}
	h, _ := g.view.Head(p)
	if h.Open == nil {
		return mqerr.New(mqerr.NoLeader, "the partition has no leader now")
	}
	return answerJSON(c, http.StatusOK, api.MoveLeaderAnswer{Partition: p.Number, Leader: h.Open.LeaderNode()})
}

// pathPartition reads topic and partition from the path.
func (g *Gateway) pathPartition(ctx context.Context, c echo.Context) (mq.PartitionID, error) {
	name, err := pathName(c, "topic")
	if err != nil {
		return mq.PartitionID{}, err
	}
	t, err := g.currentTopic(ctx, name)
	if err != nil {
		return mq.PartitionID{}, err
	}
	number, err := strconv.ParseUint(c.Param("partition"), 10, 32)
	if err != nil || uint32(number) >= t.Settings.Partitions {
		return mq.PartitionID{}, mqerr.New(mqerr.PartitionNotFound, "the topic has partitions 0 to %d", t.Settings.Partitions-1)
	}
	return mq.PartitionID{Topic: t.ID, Number: uint32(number)}, nil
}

// moveTo finds the open segment and the store that is to lead.
func (g *Gateway) moveTo(p mq.PartitionID, node string) (*mq.Segment, mq.StoreID, error) {
	h, _ := g.view.Head(p)
	if h.Open == nil {
		return nil, "", mqerr.New(mqerr.NoLeader, "the partition has no leader now")
	}
	at := slices.IndexFunc(h.Open.Replicas, func(r mq.Replica) bool {
		_, alive := g.view.NodeByStore(r.Store)
		if node != "" {
			return alive && r.Node == node
		}
		return alive && r.Store != h.Open.Leader.Store
	})
	switch {
	case at >= 0:
		return h.Open, h.Open.Replicas[at].Store, nil
	case node != "":
		return nil, "", g.noReplica(h.Open, node)
	}
	return nil, "", mqerr.New(mqerr.NotEnoughReplicas, "the partition has no other living replica")
}

// noReplica says why a node can't lead a partition.
func (g *Gateway) noReplica(open *mq.Segment, node string) error {
	if slices.ContainsFunc(open.Replicas, func(r mq.Replica) bool { return r.Node == node }) {
		return mqerr.New(mqerr.NotEnoughReplicas, "node %s has a replica of the partition, and is away", node)
	}
	return noReplicaOf(open, "/to", node)
}

// noReplicaOf refuses a field that must name a node with a replica of the segment.
func noReplicaOf(open *mq.Segment, pointer, node string) error {
	names := make([]string, len(open.Replicas))
	for i, r := range open.Replicas {
		names[i] = r.Node
	}
	slices.Sort(names)
	return validation(mq.FieldError{Pointer: pointer, Detail: fmt.Sprintf("%.80q has no replica of the partition's open segment; these have one: %s",
		node, strings.Join(names, ", "))})
}
