package gateway

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// untilAnswered is askLeaders, and again for the partitions whose leaders can't answer now, until ctx ends. It is for
// calls that may be sent twice. Every partition is in the result.
func untilAnswered[R perPartition](ctx context.Context, g *Gateway, parts []mq.PartitionID, call ask[R]) map[mq.PartitionID]told[R] {
	changes, cancel := g.view.Subscribe()
	defer cancel()
	out := map[mq.PartitionID]told[R]{}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		var again []mq.PartitionID
		for p, a := range askLeaders(ctx, g, parts, call) {
			if out[p] = a; a.err != nil && asError(a.err).Code.Retryable() && g.router.Hopeless(p) == nil {
				again = append(again, p)
			}
		}
		if parts = again; len(parts) == 0 {
			return out
		}
		if !waitForChange(ctx, changes, pause) {
			return out
		}
	}
}

// waitForChange waits between two tries: for news of who leads, or for the pause. False when ctx ended first.
func waitForChange(ctx context.Context, changes <-chan struct{}, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-changes:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// fromLeader is one control call to the leader of a partition, and again while there is none that answers, until ctx
// ends. A node that is silent is given up after lookTimeout, since another one may lead by then. It is for calls that may
// be sent twice.
func fromLeader[R any](ctx context.Context, g *Gateway, p mq.PartitionID, call func(context.Context, mqpb.LogNodeClient) (R, error)) (R, error) {
	changes, cancel := g.view.Subscribe()
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		answer, err := onceFromLeader(ctx, g, p, call)
		if err == nil || asError(err).Code != mqerr.NoLeader {
			return answer, err
		}
		if e := g.router.Hopeless(p); e != nil {
			return answer, g.router.Named(p, e)
		}
		if !waitForChange(ctx, changes, pause) {
			return answer, err
		}
	}
}

func onceFromLeader[R any](ctx context.Context, g *Gateway, p mq.PartitionID, call func(context.Context, mqpb.LogNodeClient) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	client, err := g.router.Control(p)
	if err != nil {
		var none R
		return none, err
	}
	answer, err := call(ctx, client)
	return answer, g.router.Named(p, controlError(g.leaderOf(p), err))
}

// allFailed is an error of the partitions if none has an answer.
func allFailed[R perPartition](answers map[mq.PartitionID]told[R]) (last error) {
	for _, a := range answers {
		if a.err == nil {
			return nil
		}
		last = a.err
	}
	return last
}

func itemError(err error) *api.ItemError {
	if err == nil {
		return nil
	}
	return api.ItemErrorOf(err)
}
