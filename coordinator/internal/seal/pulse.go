package seal

import (
	"context"

	"github.com/splashdam/splashdam/shared/mq"
)

// Pulse asks all live members whether they answer and returns those that do not, or that answer as another store.
func Pulse(ctx context.Context, calls *Calls, members []Member) (silent map[mq.StoreID]bool) {
	var live []Member
	for _, m := range members {
		if m.Live {
			live = append(live, m)
		}
	}
	got, _ := gather(ctx, live, calls.wait(probeDeadline), 0,
		func(ctx context.Context, m Member) (reply, error) { return calls.Probe(ctx, m.Addr, nil) },
		func(got map[mq.StoreID]reply) bool { return len(got) == len(live) })
	silent = map[mq.StoreID]bool{}
	for _, m := range live {
		if r, ok := got[m.Store]; !ok || r.node != m.Incarnation {
			silent[m.Store] = true
		}
	}
	return silent
}
