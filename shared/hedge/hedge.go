// Package hedge asks somebody else when the one who was asked is silent. A process that is frozen, or behind a cut cable,
// keeps its connections: a call to it fails only when its deadline passes. (J. Dean, L. A. Barroso, The Tail at
// Scale, 2013: hedged requests.)
package hedge

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// First makes a call up to tries times and returns the first answer: try 0 at once, each further one when the one
// before failed, or is unanswered after a while; earlier ones stay open. call gets the number of its try, to choose
// whom to ask, and must be harmless when made twice; its context ends when there is an answer. First returns when all
// calls have returned. If all fail it returns the last error.
func First[R any](ctx context.Context, after time.Duration, tries int, call func(ctx context.Context, try int) (R, error)) (R, error) {
	type answer struct {
		r   R
		err error
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, max(tries, 0))
	made := 0
	ask := func() {
		try := made
		made++
		calls.Go(func() {
			r, err := call(ctx, try)
			answers <- answer{r, err}
		})
	}
	last := answer{err: fmt.Errorf("hedge: nobody to ask")}
	if tries > 0 {
		ask()
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	for failed := 0; failed < made; {
		select {
		case last = <-answers:
			if last.err == nil || ctx.Err() != nil {
				return last.r, last.err
			}
			if failed++; made < tries {
				ask()
				timer.Reset(after)
			}
		case <-timer.C:
			if made < tries {
				ask()
				timer.Reset(after)
			}
		}
	}
	return last.r, last.err
}
