package seal

import (
	"context"
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// gather makes one call per member at the same time and returns the answers by store, without the members that
// failed. It ends when all have answered or failed, when grace has passed since enough(answers) held, or at
// the deadline. All calls have returned when it does.
func gather[T any](ctx context.Context, members []Member, deadline, grace time.Duration,
	call func(context.Context, Member) (T, error), enough func(map[mq.StoreID]T) bool) (got map[mq.StoreID]T, failed map[mq.StoreID]error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	type result struct {
		store mq.StoreID
		value T
		err   error
	}
	results := make(chan result, len(members))
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Add(1)
		go func() {
			defer wg.Done()
			v, err := call(ctx, m)
			results <- result{m.Store, v, err}
		}()
	}
	got, failed = map[mq.StoreID]T{}, map[mq.StoreID]error{}
	var last <-chan time.Time
	for left := len(members); left > 0; left-- {
		select {
		case r := <-results:
			if r.err != nil {
				failed[r.store] = r.err
			} else {
				got[r.store] = r.value
			}
		case <-last:
			left = 1 // whoever has not answered by now is not waited for
		}
		if last == nil && enough(got) {
			t := time.NewTimer(grace)
			defer t.Stop()
			last = t.C
		}
	}
	cancel()
	wg.Wait()
	close(results)
	for r := range results { // what came in while the others were told to stop
		if r.err == nil {
			got[r.store] = r.value
		}
	}
	return got, failed
}
