package gateway

import (
	"context"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// making is what is being made of topics and groups, by name: once for all who ask for the same thing meanwhile. It goes on
// when the one who began it leaves, so it is the gateway's own, which waits for it in Stop. The zero value is ready.
type making struct {
	calls singleflight.Group
	mu    sync.Mutex
	ended bool
	work  sync.WaitGroup
}

// begin says whether something new may be made; then done is to be called at its end.
func (m *making) begin() (done func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil, false
	}
	m.work.Add(1)
	return m.work.Done, true
}

// end lets nothing begin any more and waits for what is under way, whose context the caller has ended.
func (m *making) end() {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.work.Wait()
}

// shared runs f once for all callers who ask for the same thing meanwhile. It goes on when one of them leaves, and ends with
// the gateway, and well before the request timeout, so that they hear why also from a gateway that has much to do.
func shared[T any](ctx context.Context, g *Gateway, what string, f func(context.Context) (T, error)) (T, error) {
	var none T
	ch := g.making.calls.DoChan(what, func() (any, error) {
		done, ok := g.making.begin()
		if !ok {
			return none, mqerr.New(mqerr.Draining, "the gateway stops")
		}
		defer done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.RequestTimeout*3/4)
		defer cancel()
		defer context.AfterFunc(g.life, cancel)()
		return f(ctx)
	})
	select {
	case r := <-ch:
		if r.Err != nil {
			return none, r.Err
		}
		return r.Val.(T), nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
