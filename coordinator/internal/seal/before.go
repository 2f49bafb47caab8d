package seal

import (
	"context"
	"fmt"
	"time"
)

// drawn are ids of segments that a round has and did not use yet.
type drawn struct{ next, left uint64 }

// draw takes the ids of all segments to come before anything is sealed. It is a write, so it also shows that etcd takes writes:
// a controller that has lost the majority and does not know it yet would seal what nobody could open.
func (r *Round) draw(ctx context.Context, moves []*move) {
	n := uint64(0)
	for _, m := range moves {
		if !m.done {
			n++
		}
	}
	if n == 0 {
		return
	}
	first, err := r.Chains.NextIDs(ctx, n)
	if err == nil {
		err = ctx.Err() // who stops begins nothing
	}
	if err == nil {
		r.ids = drawn{first, n}
		return
	}
	for _, m := range moves {
		if !m.done {
			m.wait(fmt.Errorf("nothing is sealed, for etcd takes no writes: %w", err))
		}
	}
}

// idsFor are n ids in a row: of those that were drawn, or others for segments that are planned again.
func (r *Round) idsFor(ctx context.Context, n uint64) (first uint64, err error) {
	if n > r.ids.left {
		return r.Chains.NextIDs(ctx, n)
	}
	first = r.ids.next
	r.ids.next, r.ids.left = first+n, r.ids.left-n
	return first, nil
}

// outliving is a context that ends some time after ctx does, or with cancel.
func outliving(ctx context.Context, by time.Duration) (out context.Context, cancel context.CancelFunc) {
	out, end := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		t := time.NewTimer(by)
		defer t.Stop()
		select {
		case <-t.C:
			end()
		case <-out.Done():
		}
	})
	return out, func() { unhook(); end() }
}
