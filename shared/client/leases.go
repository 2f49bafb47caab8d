package client

import (
	"context"
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// leases extends what handlers are still working on. A lease is extended once half of it has passed, by
// this machine's clock since the answer came: that of the server may differ.
type leases struct {
	client *Client
	ways   *ways
	lease  time.Duration

	mu   sync.Mutex
	held map[string]*held // by receipt; at most Concurrency
}

type held struct {
	since  time.Time
	cancel context.CancelCauseFunc
}

func newLeases(c *Client, w *ways, lease time.Duration) *leases {
	return &leases{client: c, ways: w, lease: lease, held: map[string]*held{}}
}

func (l *leases) add(receipt string, cancel context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[receipt] = &held{since: time.Now(), cancel: cancel}
}

func (l *leases) remove(receipt string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, receipt)
}

// run looks eight times a lease, so that an extension has three eighths of it left to get through.
func (l *leases) run(ctx context.Context) {
	ticker := time.NewTicker(max(l.lease/8, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			l.extend(ctx, l.due(now))
		case <-ctx.Done():
			return
		}
	}
}

func (l *leases) due(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for receipt, h := range l.held {
		if now.Sub(h.since) >= l.lease/2 && len(out) < maxSettle {
			out = append(out, receipt)
		}
	}
	return out
}

func (l *leases) extend(ctx context.Context, receipts []string) {
	if len(receipts) == 0 {
		return
	}
	request := api.SettleRequest{Extend: make([]api.ExtendItem, len(receipts))}
	for i, receipt := range receipts {
		request.Extend[i] = api.ExtendItem{Receipt: receipt, Lease: api.Duration(l.lease)}
	}
	sent := time.Now()
	// An extension that takes longer than the lease's rest is of no use; the next tick asks again.
	ctx, cancel := context.WithTimeout(ctx, l.lease/4)
	defer cancel()
	results, err := l.ways.settle(ctx, request)
	if err != nil {
		l.client.log.Warn("extending leases failed", "messages", len(receipts), "err", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, receipt := range receipts {
		h := l.held[receipt]
		switch {
		case h == nil: // handled meanwhile
		case results[i] == nil:
			h.since = sent
		case stale(results[i]):
			h.cancel(ErrLeaseLost)
			delete(l.held, receipt)
		}
	}
}
