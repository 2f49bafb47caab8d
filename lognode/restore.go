package lognode

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/beat"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// restoreEvery is how often a node looks for damaged copies of open segments.
	restoreEvery = time.Second
	// restorePatience is how long a segment is left open before its copy here is restored: with enough whole replicas the
	// controller has opened the next one by then. After tries that failed it is as long again for each, up to restoreMost.
	restorePatience = 2 * time.Second
	restoreMost     = 30 * time.Second
)

// attempt is what a node remembers of a copy that it could not restore yet.
type attempt struct {
	next  time.Time
	tries int
}

// unended is what damagedOpen needs of the store.
type unended interface {
	Unended() []store.SegmentInfo
	Damages() uint64
}

// damagedOpen lists the damaged copies of which no end is decided. A copy becomes one at the start or when a read finds it
// damaged: while there are none and no read has found anything, the store, which may hold ten thousand, is not gone through.
type damagedOpen struct {
	store unended
	known bool   // it has been listed once
	found uint64 // Damages before the last list
	last  int    // how many it held
}

func (d *damagedOpen) list() []store.SegmentInfo {
	found := d.store.Damages()
	if d.known && d.last == 0 && found == d.found {
		return nil
	}
	out := d.store.Unended()
	d.known, d.found, d.last = true, found, len(out)
	return out
}

// restore makes damaged copies of open segments what they were, one at a time and without a rate: their partitions wait for it, if
// too few whole ones answer. See replica.Restore.
func (n *Node) restore() {
	unlimited := func(context.Context, int) error { return nil }
	tick := beat.NewTicker(restoreEvery)
	defer tick.Stop()
	attempts := map[mq.SegmentID]attempt{}
	damaged := damagedOpen{store: n.store}
	for {
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			return
		}
		was := attempts
		attempts = map[mq.SegmentID]attempt{}
		for _, info := range damaged.list() {
			id := info.Segment.ID
			h, ok := n.view.Head(info.Segment.Partition)
			if !ok || h.Open == nil || h.Open.ID != id {
				continue
			}
			a, known := was[id]
			if !known {
				a.next = time.Now().Add(restorePatience)
			}
			if known && !time.Now().Before(a.next) && n.claim(id) {
				if err := n.partition(h.Partition).Restore(n.ctx, h.Open, unlimited); err != nil {
					n.log.Warn("a damaged copy of an open segment could not be restored yet", "segment", id, "err", err)
				}
				n.unclaim(id)
				a.tries++
				a.next = time.Now().Add(min(restoreMost, time.Duration(a.tries)*restorePatience))
			}
			attempts[id] = a
		}
	}
}
