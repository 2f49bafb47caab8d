package meta

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/hedge"
)

// askAgain is how long a call may be unanswered before it is made a second time, beside the first.
const askAgain = time.Second

// patiently makes a call that may be made again without harm, and again every second until one is answered, for
// callTimeout at most. The client spreads calls over the members and counts one that hangs among them: its kernel
// answers for it, and grpc sends its pings no more often than every ten seconds. The earlier calls stay open, because
// etcd may only be slow.
func patiently[R any](ctx context.Context, s *Store, doing string, call func(context.Context) (R, error)) (R, error) {
	type answer struct {
		r   R
		err error
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// An error is an answer, too: the client has done all it can about a member that is away.
	a, err := hedge.First(ctx, askAgain, int(callTimeout/askAgain), func(ctx context.Context, _ int) (answer, error) {
		r, err := call(ctx)
		return answer{r, err}, nil
	})
	if err = errors.Join(err, a.err); err != nil {
		return a.r, s.failed(doing, began, err)
	}
	return a.r, nil
}

// read is a Get that is tried at several members.
func (s *Store) read(ctx context.Context, doing, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return patiently(ctx, s, doing, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.c.Get(ctx, key, options...)
	})
}
