package lognode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/slow"
	"github.com/splashdam/splashdam/shared/beat"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// spaceEvery is how often the disk's room is compared with what the registration says.
	spaceEvery = 600 * time.Millisecond
	// learnEvery is how often the clock is compared with those of others before it is known; they say something every 200 ms.
	learnEvery = 50 * time.Millisecond
	// spaceRest is how long a disk must have had room again before the node takes new segments.
	spaceRest = 5 * time.Second
)

// standing is the node's registration and what it says of the node: that its disk is nearly full or slow, that its clock is
// wrong, or that it stops. Of a slow disk and a wrong clock the controller makes that the node leads no new segments, of the others that
// it gets none; what the node leads it asks to be sealed, and serves until then, so that no publish waits for a failover.
type standing struct {
	n      *Node
	disk   slow.Disk
	lease  *meta.Registration
	value  meta.Node
	unsaid bool // the last change of it may not have been taken: the lease's goroutine waits for a disk that hangs
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// register enters the node and begins to watch its disk.
func (n *Node) register(ctx context.Context) (*standing, error) {
	id := n.store.Identity()
	s := &standing{n: n, value: meta.Node{Name: n.cfg.Name, Store: id.Store, Boot: id.Boot, Addr: n.address(),
		Zone: n.cfg.Zone, Capacity: n.cfg.Capacity, Full: !n.store.PublishAllowed(), Archives: n.cfg.ArchiveURL != ""}}
	var err error
	if s.lease, err = n.meta.Register(ctx, meta.NodeKey(n.cfg.Name), s.value, n.cfg.LeaseTTL, n.healthy); err != nil {
		return nil, err
	}
	watch, cancel := context.WithCancel(n.ctx)
	s.cancel = cancel
	s.done.Go(func() { s.watchSpace(watch) })
	return s, nil
}

// watchSpace owns value until it ends.
func (s *standing) watchSpace(ctx context.Context) {
	tick := beat.NewTicker(spaceEvery)
	defer tick.Stop()
	var room time.Time // since when there is room while the registration says otherwise
	right := s.learnClock(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		right = s.watchClock(ctx, right)
		s.watchDisk(ctx)
		switch allowed := s.n.store.PublishAllowed(); {
		case !allowed:
			room = time.Time{}
			s.say(ctx, func(v *meta.Node) { v.Full = true })
			s.handOver("the disk is nearly full")
		case !s.value.Full:
		case room.IsZero():
			room = time.Now()
		case time.Since(room) >= spaceRest:
			s.say(ctx, func(v *meta.Node) { v.Full = false })
		}
	}
}

// learnClock compares the clock often until it is known, which leaders that open wait for. right as for watchClock.
func (s *standing) learnClock(ctx context.Context) (right time.Time) {
	tick := time.NewTicker(learnEvery)
	defer tick.Stop()
	for {
		right = s.watchClock(ctx, right)
		select {
		case <-s.n.env.Clock.Known():
			return right
		case <-ctx.Done():
			return right
		case <-tick.C:
		}
	}
}

// watchClock compares the clock with the other nodes' (rule R8). right is since when it is right again,
// while the registration says otherwise.
func (s *standing) watchClock(ctx context.Context, right time.Time) time.Time {
	said := s.n.peers.Clock()
	ahead := said.Ahead
	if by := s.n.env.Clock.Settle(said); by != 0 {
		s.n.log.Warn("the time by which this node decides was set", "by", time.Duration(by), "clock ahead", ahead)
		for _, p := range s.n.all() {
			p.Move(by)
		}
		s.n.env.Timers.Look()
	}
	s.n.env.Ahead.Store(int64(ahead))
	s.n.env.Metrics.Ahead.Set(ahead.Seconds())
	switch {
	case s.n.env.Skewed():
		if !s.value.Skewed {
			s.n.log.Error("this node's clock is too far from those of the other nodes: it leads nothing while others can, and releases no schedules",
				"ahead", ahead)
		}
		s.say(ctx, func(v *meta.Node) {
			v.Skewed = true
			if (ahead - time.Duration(v.Ahead)).Abs() > time.Second { // not for each half second to and fro
				v.Ahead = mq.Duration(ahead.Round(time.Second))
			}
		})
		s.handOver("the leader's clock is off")
	case !s.value.Skewed:
	case right.IsZero():
		return time.Now()
	case time.Since(right) >= spaceRest:
		s.say(ctx, func(v *meta.Node) { v.Skewed, v.Ahead = false, 0 })
	default:
		return right
	}
	return time.Time{}
}

// watchDisk says whether this node's disk is slower than those of other replicas (replication.md, rule 6 of the open segment).
func (s *standing) watchDisk(ctx context.Context) {
	waited := s.n.store.Waited()
	is := s.disk.Look(s.n.env.Clock.Counted(), s.n.env.Slow.Swap(false), waited)
	if is && !s.value.Slow {
		s.n.log.Warn("this node's disk is slower than those of the followers: it leads nothing while others can", "oldest write waits", waited)
	}
	figure := 0.0
	if is {
		figure = 1
	}
	s.n.env.Metrics.Slow.Set(figure)
	s.say(ctx, func(v *meta.Node) { v.Slow = is }) // also again, what could not be said before
	if is {
		s.handOver("slow_disk")
	}
}

// say changes the registration, if that changes it.
func (s *standing) say(ctx context.Context, change func(*meta.Node)) {
	next := s.value
	change(&next)
	if next == s.value && !s.unsaid {
		return
	}
	changed := next != s.value
	s.value = next // also when the answer is lost: it is what a later registration writes
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := s.lease.Update(ctx, next)
	if s.unsaid = err != nil; s.unsaid {
		s.n.log.Warn("the registration could not be changed; it will be tried again", "err", err)
	}
	if !changed {
		return
	}
	s.n.log.Info("the node says of itself", "full", next.Full, "skewed", next.Skewed, "slow", next.Slow, "stopping", next.Stopping)
}

// close ends the registration at once.
func (s *standing) close() {
	s.stopWatching()
	s.lease.Close()
}

func (s *standing) stopWatching() {
	s.cancel()
	s.done.Wait()
}

// watchStore tells of a store that failed: it acknowledges nothing any more, and only a new start can mend that.
func (n *Node) watchStore() {
	select {
	case <-n.store.Failed():
		n.failed <- fmt.Errorf("lognode %s: %w", n.cfg.Name, n.store.Err())
	case <-n.ctx.Done():
	}
}
