package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// lookTimeout bounds how long figures are waited for: a leader that does not answer costs its own figures,
// not the whole answer.
const lookTimeout = 2 * time.Second

// perPartition is an item of an answer that covers several partitions.
type perPartition interface {
	GetPartition() *mqpb.Partition
	GetCode() uint32
	GetDetail() string
}

// told is one partition's answer, or why there is none.
type told[R perPartition] struct {
	answer R
	err    error
}

// ask is one control call for the partitions that a node leads.
type ask[R perPartition] func(context.Context, mqpb.LogNodeClient, []*mqpb.Partition) ([]R, error)

// askLeaders asks the leader of each partition, with one call for all that a node leads, at once for all
// nodes. Every partition is in the result.
func askLeaders[R perPartition](ctx context.Context, g *Gateway, parts []mq.PartitionID, call ask[R]) map[mq.PartitionID]told[R] {
	out := make(map[mq.PartitionID]told[R], len(parts))
	byLeader := map[string][]mq.PartitionID{}
	for _, p := range parts {
		leader, _, err := g.router.Leader(p)
		if err != nil {
			out[p] = told[R]{err: err}
			continue
		}
		byLeader[leader] = append(byLeader[leader], p)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for leader, led := range byLeader {
		wg.Go(func() {
			answers := askNode(ctx, g, leader, led, call)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(out, answers)
		})
	}
	wg.Wait()
	return out
}

// askNode asks one node for the partitions that it leads.
func askNode[R perPartition](ctx context.Context, g *Gateway, leader string, led []mq.PartitionID, call ask[R]) map[mq.PartitionID]told[R] {
	out := make(map[mq.PartitionID]told[R], len(led))
	wire := make([]*mqpb.Partition, len(led))
	for i, p := range led {
		wire[i] = mqpb.FromPartition(p)
	}
	var answers []R
	client, err := g.router.Control(led[0])
	if err == nil {
		answers, err = call(ctx, client, wire)
	}
	if err == nil {
		err = mqerr.New(mqerr.NoLeader, "node %s said nothing of it", leader)
	} else {
		err = controlError(leader, err)
	}
	for _, p := range led {
		out[p] = told[R]{err: g.router.Named(p, err)}
	}
	for _, a := range answers {
		p := a.GetPartition().MQ()
		if _, asked := out[p]; !asked {
			continue
		}
		t := told[R]{answer: a}
		if code := mqerr.Code(a.GetCode()); code != mqerr.OK {
			t.err = g.router.Named(p, publicError(code, a.GetDetail()))
		}
		out[p] = t
	}
	return out
}

// leaderOf is the name of the node that leads a partition as far as the view knows, or "".
func (g *Gateway) leaderOf(p mq.PartitionID) string {
	h, ok := g.view.Head(p)
	if !ok || h.Open == nil {
		return ""
	}
	return h.Open.LeaderNode()
}

// controlError gives the error of a control call its row of the table. No control call stores messages, so
// one whose answer did not come in time may be sent again.
func controlError(leader string, err error) error {
	var e *mqerr.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	switch status.Code(err) {
	case codes.Canceled:
		return mqerr.New(mqerr.Cancelled, "")
	case codes.DeadlineExceeded:
		return mqerr.New(mqerr.NoLeader, "node %s did not answer in time", leader)
	case codes.Unavailable:
		return mqerr.New(mqerr.NoLeader, "%s can't be reached", leader)
	}
	e = mqerr.Of(mqpb.Error(err))
	return publicError(e.Code, fmt.Sprintf("node %s: %s", leader, e.Detail))
}

// publicError hides codes that are only for tiers.
func publicError(code mqerr.Code, detail string) error {
	if code == mqerr.NotLeader {
		code = mqerr.NoLeader
	}
	return mqerr.New(code, "%s", detail)
}

// partitionFigures asks for the figures of partitions, which may be of several topics.
func (g *Gateway) partitionFigures(ctx context.Context, parts []mq.PartitionID) map[mq.PartitionID]told[*mqpb.PartitionFigures] {
	return g.figuresFor(ctx, parts, nil)
}

// figuresFor is partitionFigures, with what retention would remove by some settings (as JSON; nil for none).
func (g *Gateway) figuresFor(ctx context.Context, parts []mq.PartitionID, settings []byte) map[mq.PartitionID]told[*mqpb.PartitionFigures] {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return askLeaders(ctx, g, parts, func(ctx context.Context, c mqpb.LogNodeClient, ps []*mqpb.Partition) ([]*mqpb.PartitionFigures, error) {
		r, err := c.PartitionFigures(ctx, &mqpb.PartitionFiguresRequest{Partitions: ps, Settings: settings})
		return r.GetFigures(), err
	})
}

// groupFigures asks for the figures of a group.
func (g *Gateway) groupFigures(ctx context.Context, group mq.GroupID, parts []mq.PartitionID) map[mq.PartitionID]told[*mqpb.GroupFigures] {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return askLeaders(ctx, g, parts, func(ctx context.Context, c mqpb.LogNodeClient, ps []*mqpb.Partition) ([]*mqpb.GroupFigures, error) {
		r, err := c.GroupFigures(ctx, &mqpb.GroupFiguresRequest{Partitions: ps, Group: uint64(group)})
		return r.GetFigures(), err
	})
}
