package meta

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// HeadFeed tells its owner which partitions' heads have changed, so that nobody looks through all of them to find that
// out: with ten thousand partitions, of which one changes now and then, that is what an idle process would do most. Now and
// then it gives all of them all the same: what its owner has lost track of is not lost for longer than that.
type HeadFeed struct {
	v       *View
	every   time.Duration
	changed map[mq.PartitionID]struct{} // guarded by View.mu; as large as there are partitions at most
	all     time.Time                   // when all heads are given next; guarded by View.mu
}

// FollowHeads makes a feed that gives all heads at first and then as often as every says. Subscribe says when to look;
// Close must be called when the feed is not needed any more.
func (v *View) FollowHeads(every time.Duration) *HeadFeed {
	f := &HeadFeed{v: v, every: every, changed: map[mq.PartitionID]struct{}{}}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.data.feeds[f] = struct{}{}
	return f
}

// Take gives the heads that were made or changed since the last Take, or all, as they are now and in no order. Those that
// were removed meanwhile are not among them.
func (f *HeadFeed) Take(now time.Time) (heads []mq.Head) {
	f.v.mu.Lock()
	defer f.v.mu.Unlock()
	if !now.Before(f.all) {
		f.all = now.Add(f.every)
		heads = make([]mq.Head, 0, len(f.v.data.heads))
		for _, h := range f.v.data.heads {
			heads = append(heads, h)
		}
	} else {
		for p := range f.changed {
			if h, ok := f.v.data.heads[p]; ok {
				heads = append(heads, h)
			}
		}
	}
	if len(f.changed) > 0 {
		f.changed = map[mq.PartitionID]struct{}{} // a map that was large stays large, and costs its size to look through
	}
	return heads
}

// Close ends the feed.
func (f *HeadFeed) Close() {
	f.v.mu.Lock()
	defer f.v.mu.Unlock()
	delete(f.v.data.feeds, f)
}

// headChanged notes a change for all feeds; the caller holds View.mu.
func (d *data) headChanged(p mq.PartitionID) {
	for f := range d.feeds {
		f.changed[p] = struct{}{}
	}
}

// Version is another number after every change: while it stays the same, so does everything that the view says.
func (v *View) Version() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.version
}
