package coordinator

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// knockEvery is how often gateways are knocked at while groups push, and knockWait how long one may take to open.
	knockEvery = 250 * time.Millisecond
	knockWait  = 200 * time.Millisecond
	// refusals is how many knocks in a row must be refused for a gateway to count as gone.
	refusals = 2
)

// knocker finds gateways that are gone before their leases say so, for groups whose members they are: nobody else would
// notice that a webhook rests. An address that refuses a connection, and accepted one before, has no process behind it any
// more. One that does not answer proves nothing; then the lease decides. To be wrong costs nothing but the gateway's
// share of the work: it is the partitions' leaders that let nobody but the owner receive.
type knocker struct {
	dial    link.Dial
	mu      sync.Mutex
	opened  map[string]bool // addresses that have accepted a connection
	refused map[string]int  // refusals in a row
}

func newKnocker(dial link.Dial) *knocker {
	return &knocker{dial: dial, opened: map[string]bool{}, refused: map[string]int{}}
}

// run knocks until ctx ends, while there are groups that push, and calls changed when a gateway is gone or back.
func (k *knocker) run(ctx context.Context, view *meta.View, changed func()) {
	changes, cancel := view.Subscribe()
	defer cancel()
	for sleep(ctx, knockEvery) {
		for !pushes(view) {
			select {
			case <-changes:
			case <-ctx.Done():
				return
			}
		}
		gateways := view.Gateways()
		k.forget(gateways)
		var calls sync.WaitGroup
		for _, g := range gateways {
			calls.Go(func() {
				if k.knock(ctx, g.Addr) {
					changed()
				}
			})
		}
		calls.Wait()
	}
}

func pushes(view *meta.View) bool {
	for _, g := range view.MemberGroups() {
		if g.Settings.Mode == mq.ModePush {
			return true
		}
	}
	return false
}

// knock connects once and says whether that changed what is known.
func (k *knocker) knock(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, knockWait)
	defer cancel()
	conn, err := k.dial.Open(ctx, addr)
	if err == nil {
		_ = conn.Close() // it was not written to
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.refused[addr] >= refusals
	switch {
	case err == nil:
		k.opened[addr], k.refused[addr] = true, 0
	case errors.Is(err, syscall.ECONNREFUSED) && k.opened[addr]:
		k.refused[addr]++
	}
	return was != (k.refused[addr] >= refusals)
}

// forget drops addresses that are no gateway's any more.
func (k *knocker) forget(gateways []meta.Gateway) {
	here := make(map[string]bool, len(gateways))
	for _, g := range gateways {
		here[g.Addr] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for addr := range k.opened {
		if !here[addr] {
			delete(k.opened, addr)
			delete(k.refused, addr)
		}
	}
}

// living are those that are not gone; all if none seem to be there, which says more about who knocks.
func (k *knocker) living(gateways []meta.Gateway) []meta.Gateway {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []meta.Gateway
	for _, g := range gateways {
		if k.refused[g.Addr] < refusals {
			out = append(out, g)
		}
	}
	if len(out) == 0 {
		return gateways
	}
	return out
}
