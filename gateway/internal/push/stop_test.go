package push

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An engine that stops while attempts end by themselves, are cut off, are settled and are fetched, all at once, panics on
// no channel, loses no message and leaves nobody behind. The bubble would not end with a goroutine that is left.
func TestMuseum23StopWhileAttemptsEnd(t *testing.T) {
	for after := range 30 {
		const messages = 200
		d := newDesk(t, messages, func(n uint64, _ uint32) answer { return status([]int{200, 500, 200, 429}[n%4]) })
		d.takes = 5 * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			e := d.engine()
			h := hookTo(t, "http://x/")
			e.Apply([]*Hook{h})
			time.Sleep(time.Duration(after) * time.Millisecond)
			var changes sync.WaitGroup
			changes.Go(func() { // others still say what there is
				for range 10 {
					again := *h
					e.Apply([]*Hook{&again})
					e.State(h.GroupID)
				}
				e.Apply(nil)
			})
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(after%7)*time.Millisecond)
			defer cancel()
			e.Stop(ctx)
			changes.Wait()
			e.Apply([]*Hook{h}) // too late, and no harm
			d.mu.Lock()
			defer d.mu.Unlock()
			waiting := len(d.queue)
			if d.busy != 0 || len(d.leased) != 0 {
				t.Errorf("stopped after %d ms: %d under way, leased %v", after, d.busy, d.leased)
			}
			if retried := messages - waiting - len(d.acked); retried < 0 || retried > messages/2 {
				t.Errorf("stopped after %d ms: of %d messages %d wait and %d are done", after, messages, waiting, len(d.acked))
			}
		})
	}
}
