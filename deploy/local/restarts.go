package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/splashdam/splashdam/deploy/cluster"
)

// startAgain is when a process that ended by itself, or was killed by hand, is started again.
const startAgain = 2 * time.Second

// endedNote tells the user of a process that ended; how it did is on a line of its own, as the name of its log may be long.
func endedNote(e *cluster.Ended) string {
	return fmt.Sprintf("%s ended by itself; it starts again in %s.\n  %v", e.Name, startAgain, e.Err)
}

// restarts starts processes again that have ended, each beside the others: a node can't start without the coordinators, and
// must not keep them from being started. Not for use by several goroutines at once.
type restarts struct {
	log   *slog.Logger
	most  time.Duration // how long one start may take; then it is tried anew
	work  sync.WaitGroup
	turns map[string]chan struct{} // one run at a time of each name
}

// again starts a process after a moment, so that one which ends at once does not spin, and tries until it serves or ctx ends.
func (r *restarts) again(ctx context.Context, name string, start func(context.Context) error) {
	turn := r.turns[name]
	if turn == nil {
		if r.turns == nil {
			r.turns = map[string]chan struct{}{}
		}
		turn = make(chan struct{}, 1)
		r.turns[name] = turn
	}
	r.work.Go(func() {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-turn }()
		for {
			select {
			case <-time.After(startAgain):
			case <-ctx.Done():
				return
			}
			starting, cancel := context.WithTimeout(ctx, r.most)
			err := start(starting)
			cancel()
			if err == nil || ctx.Err() != nil {
				return
			}
			r.log.Warn("a process could not be started again; the next try follows", "name", name, "err", err)
		}
	})
}

// wait returns when nothing is being started any more: soon, once ctx has ended.
func (r *restarts) wait() { r.work.Wait() }
