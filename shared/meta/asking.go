package meta

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// askAgain is how long a call may be unanswered before it is made a second time, beside the first.
const askAgain = time.Second

// patiently makes a call that may be made again without harm, and again every second until one is answered, for
// callTimeout at most. The client spreads calls over the members and counts one that hangs among them: its kernel
// answers for it, and grpc sends its pings no more often than every ten seconds. The earlier calls stay open, because
// etcd may only be slow.
func patiently[R any](ctx context.Context, doing string, call func(context.Context) (R, error)) (R, error) {
	type answer struct {
		r   R
		err error
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answers := make(chan answer, callTimeout/askAgain+1)
	ask := func() {
		r, err := call(ctx)
		answers <- answer{r, err}
	}
	calls.Go(ask)
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for made, open := 1, 1; ; {
		select {
		case a := <-answers:
			if open--; a.err == nil || open == 0 || ctx.Err() != nil {
				if a.err != nil {
					a.err = unavailable(doing, a.err)
				}
				return a.r, a.err
			}
		case <-again.C:
			if made < cap(answers) {
				made, open = made+1, open+1
				calls.Go(ask)
			}
		}
	}
}

// read is a Get that is tried at several members.
func (s *Store) read(ctx context.Context, doing, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return patiently(ctx, doing, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.c.Get(ctx, key, options...)
	})
}
