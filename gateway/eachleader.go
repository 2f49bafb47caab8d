package gateway

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
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
			if out[p] = a; a.err != nil && asError(a.err).Code.Retryable() {
				again = append(again, p)
			}
		}
		if parts = again; len(parts) == 0 {
			return out
		}
		t := time.NewTimer(pause)
		select {
		case <-changes:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return out
		}
		t.Stop()
	}
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
