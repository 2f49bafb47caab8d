package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// leaderFirst is how long a leader is waited for before replicas are asked for what is in sealed segments.
	leaderFirst = time.Second
	// oneReplica bounds how long one of them is waited for, replicasFor how long all are, with a pause between two rounds.
	oneReplica    = time.Second
	replicasFor   = 2 * time.Second
	replicasAgain = 100 * time.Millisecond
)

// fetchRead asks a partition's leader for committed messages; ctx has a deadline. What lies in sealed segments any replica
// may answer, while there is no leader.
func (g *Gateway) fetchRead(ctx context.Context, f *frame.Read) (*frame.ReadDone, error) {
	replicas := g.holdersOf(f)
	if len(replicas) == 0 {
		return g.readLeader(ctx, f)
	}
	first, cancel := context.WithTimeout(ctx, leaderFirst)
	done, err := g.readLeader(first, f)
	cancel()
	if err == nil || ctx.Err() != nil || !leaderless(err) {
		return done, err
	}
	if done, err = g.readReplicas(ctx, replicas, f); done != nil || mqerr.Is(err, mqerr.Lost) {
		return done, err
	}
	return g.readLeader(ctx, f)
}

// readReplicas asks one node after the other, and again for a moment: a stream to a node that was not needed before has
// to be opened. Nil and the last error is that none of them has it.
func (g *Gateway) readReplicas(ctx context.Context, names []string, f *frame.Read) (*frame.ReadDone, error) {
	ctx, cancel := context.WithTimeout(ctx, replicasFor)
	defer cancel()
	sealed := *f
	sealed.Sealed = true
	pause := time.NewTimer(replicasAgain)
	defer pause.Stop()
	for {
		var last error
		for _, name := range names {
			one, cancel := context.WithTimeout(ctx, oneReplica)
			body, err := g.router.CallNode(one, name, frame.TypeRead, &sealed)
			cancel()
			if err == nil {
				return parseRead(f, body)
			}
			if last = err; mqerr.Is(err, mqerr.Lost) { // for everybody
				return nil, err
			}
		}
		pause.Reset(replicasAgain)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, last
		}
	}
}

func (g *Gateway) readLeader(ctx context.Context, f *frame.Read) (*frame.ReadDone, error) {
	body, err := g.router.Call(ctx, f.Partition, frame.TypeRead, f)
	if err != nil {
		return nil, err
	}
	return parseRead(f, body)
}

func parseRead(f *frame.Read, body []byte) (*frame.ReadDone, error) {
	var done frame.ReadDone
	if err := done.Parse(body); err != nil {
		return nil, fmt.Errorf("a node answered a read of partition %s: %w", f.Partition, err)
	}
	return &done, nil
}

func leaderless(err error) bool {
	return mqerr.Is(err, mqerr.NoLeader) || mqerr.Is(err, mqerr.NotLeader) || mqerr.Is(err, mqerr.NoQuorum)
}

// holdersOf names the registered nodes that have replicas of a partition, if the read may be answered by any of them: it
// goes forward from where there are sealed segments.
func (g *Gateway) holdersOf(f *frame.Read) (names []string) {
	h, ok := g.view.Head(f.Partition)
	if !ok || h.Last == nil || f.Backward || f.Archived || f.From.Where == frame.Latest ||
		f.From.Where == frame.AtOffset && f.From.Value >= h.Last.End.Offset {
		return nil
	}
	stores := h.Last.Holders()
	if h.Open != nil {
		stores = slices.Concat(stores, h.Open.Replicas)
	}
	for _, r := range stores {
		if n, ok := g.view.NodeByStore(r.Store); ok && !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}
