package coordinator

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/mq"
)

// idle is how long the controller sleeps when nothing wakes it and nothing is due.
const idle = time.Second

// controller is one reign: all that it remembers is a help, and a new one begins without it. One goroutine
// owns it.
type controller struct {
	*Coordinator
	calls   *seal.Calls
	cluster string // the cluster's id
	watch   stopwatch
	book    book
	past    map[mq.PartitionID]seal.History
	moved   map[mq.PartitionID]int64 // revisions of our own openings that the view may not show yet
	made    map[mq.TopicID]uint32    // partitions made that the view may not show yet
	tombs   map[mq.TopicID]time.Time // since when tombstones are known of topics of which nothing else is left
	calm    time.Time                // before it, only restarts are acted upon
	suspect map[mq.StoreID]bool
	// balanced is when leaders were spread last.
	balanced time.Time
	looked   looked
	by       int64 // when the look that is under way wants another one at the latest; 0 for never
}

// lookEvery is how often the controller looks through all partitions although nothing has changed and nothing is due.
const lookEvery = 30 * time.Second

// looked is the last look through all partitions, and what it saw.
type looked struct {
	at      time.Time
	version uint64 // of the view
	suspect map[mq.StoreID]bool
	due     int64 // when something should be looked at again; 0 for never
}

// rests says whether another look would see what the last one saw.
func (k *controller) rests(now time.Time) bool {
	k.refresh(now)
	was := &k.looked
	return was.version == k.view.Version() && maps.Equal(was.suspect, k.suspect) && now.Sub(was.at) < lookEvery &&
		(was.due == 0 || k.watch.at(now) < was.due)
}

// look looks through everything; more says that it should be called again at once.
func (k *controller) look(ctx context.Context) (more bool) {
	// The version comes first: what changes from here on is for the next look.
	now := looked{at: time.Now(), version: k.view.Version(), suspect: k.suspect}
	k.by = 0
	k.topics(ctx)
	if more, now.due = k.partitions(ctx); k.by != 0 && (now.due == 0 || k.by < now.due) {
		now.due = k.by
	}
	if more {
		now.due = 1
	}
	k.looked = now
	return more
}

// lookBy has the controller look again at a time, whatever happens until then. For use during a look.
func (k *controller) lookBy(at time.Time) {
	if due := k.watch.at(at); k.by == 0 || due < k.by {
		k.by = due
	}
}

// control runs the controller's loops until ctx ends, which is when the lease does.
func (c *Coordinator) control(ctx context.Context) {
	c.figures.leads.Set(1)
	defer c.figures.leads.Set(0)
	c.rules.Store(true)
	defer c.rules.Store(false)
	k := &controller{
		Coordinator: c, watch: stopwatch{time.Now()}, calls: seal.NewCalls(c.cfg.Dial, c.cfg.Patience), book: newBook(), past: map[mq.PartitionID]seal.History{},
		moved: map[mq.PartitionID]int64{}, made: map[mq.TopicID]uint32{}, suspect: map[mq.StoreID]bool{},
		// A new controller may be here because of trouble that also delays the nodes' leases.
		calm: time.Now().Add(c.cfg.LeaseTTL),
	}
	defer k.calls.Close()
	for !k.prepare(ctx) {
		if !sleep(ctx, 100*time.Millisecond) {
			return
		}
	}
	looks := make(chan struct{}, 1)
	cancel := c.bus.SubscribeLook(func(reason string) {
		c.figures.looks.Inc()
		c.log.Debug("asked to look", "reason", reason)
		select {
		case looks <- struct{}{}:
		default:
		}
	})
	defer cancel()
	changes, unsubscribe := c.view.Subscribe()
	defer unsubscribe()
	var beside sync.WaitGroup
	beside.Go(func() { c.repair(ctx) })
	beside.Go(func() { c.assign(ctx) })
	k.run(ctx, changes, looks)
	beside.Wait()
}

// prepare makes what the first controller makes, and waits for the view.
func (k *controller) prepare(ctx context.Context) bool {
	select {
	case <-k.view.Ready():
	case <-ctx.Done():
		return false
	}
	if id := k.cfg.RecoverCluster; id != "" {
		if err := k.store.RecoverCluster(ctx, id); err != nil {
			k.log.Error("the cluster can't be taken up", "id", id, "err", err)
			return false
		}
	}
	cluster, err := k.store.EnsureCluster(ctx)
	if err == nil {
		err = k.store.EnsureReceiptSecret(ctx)
	}
	if err != nil {
		k.log.Warn("the controller can't begin", "err", err)
		return false
	}
	k.cluster = cluster.ID
	return true
}

// run looks at the state after every change and request, and when something is due. Requests and idle times
// also make it ask every node whether it answers: that is quicker than its lease.
func (k *controller) run(ctx context.Context, changes, looks <-chan struct{}) {
	pulses := pulses{wanted: true}
	for ctx.Err() == nil {
		if pulses.wait(time.Now()) == 0 {
			k.pulse(ctx)
			pulses.done(time.Now())
		}
		if !k.rests(time.Now()) && k.look(ctx) {
			continue // a full batch: the rest is as urgent
		}
		wait := pulses.wait(time.Now())
		if due := k.looked.due; due > 0 {
			wait = min(wait, max(5*time.Millisecond, time.Until(k.watch.time(due))))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changes:
		case <-looks:
			pulses.wanted = true
		case <-timer.C:
		}
		timer.Stop()
	}
}

// sleep is false when ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
