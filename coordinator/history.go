package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	// historyEvery is how often etcd's size is looked at, historyBytes how much of what was overwritten it may hold, about, and
	// historyKept how many of the newest revisions stay, so that a watch that was away for a moment need not list anew.
	historyEvery = time.Second
	historyBytes = quota / 16
	historyKept  = 1000
)

// history tells when etcd is to forget what was overwritten. By the hour alone, settings that a client writes in a loop fill etcd's
// quota within minutes, after which it takes no write of anybody: no partition gets a new leader. The zero value with most set
// is ready; for one goroutine.
type history struct {
	most int64 // bytes
	low  int64 // the least that was in use since the last time
}

// due says whether as much came since the last time as may be kept, with this many bytes in use.
func (h *history) due(inUse int64) bool {
	if h.low == 0 || inUse < h.low {
		h.low = inUse
	}
	if inUse-h.low < h.most {
		return false
	}
	h.low = inUse // and falls with what is freed
	return true
}

// keepHistory forgets what was overwritten until ctx ends. All members run it; the one that leads etcd does it.
func (e *etcd) keepHistory(ctx context.Context, log *slog.Logger) {
	h := history{most: historyBytes}
	tick := time.NewTicker(historyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s := e.server.Server; s.Leader() != s.MemberID() {
			h.low = 0
			continue
		}
		if err := e.forget(ctx, &h, historyKept); err != nil && ctx.Err() == nil {
			log.Warn("etcd keeps what was overwritten", "err", err)
		}
	}
}

// forget compacts etcd but for the newest revisions, if it is time.
func (e *etcd) forget(ctx context.Context, h *history, keep int64) error {
	if !h.due(e.server.Server.Backend().SizeInUse()) {
		return nil
	}
	at := e.server.Server.KV().Rev() - keep
	if at <= 0 {
		return nil
	}
	_, err := e.client.Compact(ctx, at)
	if errors.Is(err, rpctypes.ErrCompacted) { // further than that, by etcd itself
		return nil
	}
	return err
}
