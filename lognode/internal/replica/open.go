package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/splashdam/splashdam/lognode/internal/dedup"
	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// SetHead tells the partition what etcd says of it. Older values than the newest are ignored.
func (p *Partition) SetHead(h mq.Head) {
	p.post(func() {
		if h.Revision <= p.head.Revision {
			return
		}
		if !p.noteHead(&h) {
			return
		}
		if r := p.remains; r != nil && (h.Open == nil || h.Open.ID != r.of) {
			p.endRemains()
		}
		if h.Last != nil {
			if c := p.copies[h.Last.ID]; c != nil {
				p.decideEnd(c, h.Last.End, nil)
			}
		}
		switch l := p.lead; {
		case l == nil:
		case h.Open == nil || h.Open.ID != l.seg.Segment().ID:
			p.succeeded(l)
		case l.serving && segment.Lacks(l.holes, &h): // the groups must learn of it, which the next leader does before it replays
			p.env.WantSeal(h.Open.ID, "a range was recorded as lost")
		}
		p.lookForLead()
		p.unpark()
	})
}

// succeeded ends a leadership whose segment is no longer the open one. If this node leads the next one too
// and nothing was lost in between, also not recorded as such, the state and everybody who waits go over to it (a roll).
func (p *Partition) succeeded(l *leadership) {
	h := p.head
	cause := mqerr.New(mqerr.NotLeader, "the partition has another leader now")
	if h.Open != nil {
		cause.Leader = h.Open.LeaderNode()
	}
	if !l.serving || !p.mine(h.Open) || !l.seg.Rolls(&h, l.holes, p.fresh(h.Open)) {
		p.resign(cause, segment.EndIn(&h, l.seg.Segment()))
		return
	}
	next, err := p.newLeadership(h.Open, l.seg.Prev(), l.seg.Stamp())
	if err != nil {
		p.stop(err)
		return
	}
	next.keys, next.holes = l.keys, l.holes
	next.machine, next.batches, next.batchBytes = l.machine, l.batches, l.batchBytes
	next.book, next.ahead = l.book, l.ahead
	next.answers, next.commits = l.answers, l.commits
	next.pass, l.pass.stopped = l.pass, false
	next.published, next.delivered, next.uses = l.published, l.delivered, l.uses
	p.close(l)
	p.lead = next
	p.open(next)
}

// mine says whether this run of this node is the leader of s.
func (p *Partition) mine(s *mq.Segment) bool {
	return s != nil && s.Leader == p.env.Store.Identity()
}

// fresh says whether this store's copy of a segment is there, whole, not sealed and empty: only such a one can be led.
func (p *Partition) fresh(s *mq.Segment) bool {
	h := p.copies[s.ID]
	return h != nil && !h.damaged && h.copy.Fresh()
}

// lookForLead begins to lead if etcd names this incarnation and the copy is here.
func (p *Partition) lookForLead() {
	s := p.head.Open
	p.watchDamage(s)
	if p.lead != nil || p.fault != nil || !p.mine(s) {
		return
	}
	if !p.fresh(s) || p.outrun.Past(s) {
		return // one incarnation leads a segment once: what is not fresh is sealed by the controller
	}
	l, err := p.newLeadership(s, s.Base, 0)
	if err != nil {
		p.stop(err)
		return
	}
	p.lead = l
	p.open(l)
}

func (p *Partition) newLeadership(s *mq.Segment, prev mq.Position, stamp int64) (*leadership, error) {
	leader, err := segment.NewLeader(*s, prev, stamp)
	if err != nil {
		return nil, err
	}
	l := &leadership{seg: leader, followers: make([]*segment.Follower, len(s.Replicas)), began: time.Now(),
		uses: map[mq.GroupID]time.Time{}, looking: map[mq.GroupID]*sharers{}, learning: map[mq.GroupID]*sharers{}}
	l.ctx, l.cancel = context.WithCancel(p.ctx)
	for i := range s.Replicas {
		if i != leader.Self() {
			l.followers[i] = segment.NewFollower(s.Base)
		}
	}
	return l, nil
}

// open does what comes between being named and serving: know the chain, bring the suffix of the
// last segment to a quorum, load the state. It goes on until that is done or the leadership ends.
func (p *Partition) open(l *leadership) {
	p.log.Info("leading", "segment", l.seg.Segment().ID, "base", l.seg.Segment().Base)
	id, kept := l.seg.Segment().ID, l.machine
	p.env.Opening(id, true)
	p.work.Add(1)
	go func() {
		defer p.work.Done()
		defer p.recovered(func(err error) { p.post(func() { p.stop(err) }) })
		first := true
		_, err := backoff.Retry(l.ctx, func() (struct{}, error) {
			o, err := p.prepare(l.ctx, l, kept, first)
			first = false
			if segment.Invariant(err) != "" {
				p.post(func() { p.stop(err) })
				return struct{}{}, backoff.Permanent(err)
			}
			if err != nil {
				p.log.Warn("can't serve yet", "segment", id, "err", err)
				p.post(func() {
					if p.lead == l && !l.serving && time.Since(l.began) > openPatience {
						p.giveUp(err)
					}
				})
				if time.Since(l.began) > p.env.LossPatience {
					p.keepReadable(l.ctx)
				}
				return struct{}{}, err
			}
			p.env.awaitClock(l.ctx) // a leader decides by it: a run that was just started may have a wrong one
			p.post(func() { p.opened(l, o) })
			return struct{}{}, nil
		}, backoff.WithBackOff(openBackoff()), backoff.WithMaxElapsedTime(0))
		if err != nil && l.ctx.Err() == nil {
			p.log.Error("gave up opening", "err", err)
		}
	}()
}

// openPatience is how long requests wait for a leader that can't serve yet; well below a gateway's deadline of 10 s.
const openPatience = 2 * time.Second

func openBackoff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 20*time.Millisecond, time.Second
	return b
}

// loaded is what a new leader needs to serve.
type loaded struct {
	chain   []mq.Segment
	base    mq.Position // of the open segment
	head    mq.Head
	machine *delivery.Machine
	book    *schedule.Book
	keys    *dedup.Table
	prev    mq.Position
	stamp   int64
	took    took
}

// took is where the time of an opening goes.
type took struct {
	chain, suffix, checkpoint, footers, schedules, replay time.Duration

	since time.Time
}

// lap is the time since the last lap.
func (t *took) lap() time.Duration {
	before := t.since
	t.since = time.Now()
	return t.since.Sub(before)
}

// prepare runs beside the partition and may be tried again.
func (p *Partition) prepare(ctx context.Context, l *leadership, kept *delivery.Machine, first bool) (loaded, error) {
	id := l.seg.Segment().ID
	o := loaded{machine: kept, took: took{since: time.Now()}}
	head, chain, err := p.chainOf(ctx, l, first)
	o.took.chain = o.took.lap()
	if err != nil {
		return loaded{}, err
	}
	if head.Open == nil || head.Open.ID != id {
		return loaded{}, fmt.Errorf("segment %d is not the open one any more", id)
	}
	if err := segment.CheckChain(&head, chain); err != nil {
		return loaded{}, err
	}
	o.chain, o.base, o.head = segment.AsHeld(chain), head.Open.Base, head
	x := p.suffixFor(&head)
	if head.Last != nil {
		err = x.repair(ctx, head.Last)
	}
	o.took.suffix = o.took.lap()
	if err == nil && kept == nil {
		err = p.load(ctx, &o)
	}
	if segment.Invariant(err) != "" {
		return o, err // nothing may be judged by what should not be
	}
	if err != nil && ctx.Err() == nil && time.Since(l.began) > p.env.LossPatience {
		if judged := x.lost(ctx, head, chain); judged != nil {
			err = fmt.Errorf("%w; %w", err, judged)
		}
	}
	return o, err
}

// opened begins to serve.
func (p *Partition) opened(l *leadership, o loaded) {
	if p.lead != l || l.serving {
		return
	}
	s := l.seg.Segment()
	if l.machine != nil && segment.Lacks(l.holes, &o.head) {
		p.leadAnew(&o)
		return
	}
	if l.machine == nil { // not kept over a roll: continue the chain as it was read
		l.book, l.ahead, l.commits = o.book, newAhead(), &commitTimes{}
		l.keys = o.keys
		seg, err := segment.NewLeader(*s, o.prev, o.stamp)
		if err != nil {
			p.stop(err)
			return
		}
		if l.seg.Sealed() {
			seg.Seal()
		}
		l.seg = seg
	}
	p.endRemains()
	p.foreseen = nil
	l.machine, l.chain, l.holes, l.serving = o.machine, o.chain, o.head.Holes, true
	l.machine.Commit(s.Base.Offset)
	l.commits.note(s.Base.Offset, 0) // what the seal committed, at a time that this node does not know
	now := p.env.Clock.Now()
	if o.stamp != 0 { // loaded, not kept over a roll
		l.machine.Resume(now, o.stamp)
	}
	l.machine.Lead(s.Number, now)
	l.seg.Chained()
	if len(l.chain) > 0 { // the checkpoint that said so may be lost, in a hole
		l.machine.Drop(now, l.chain[0].Base.Offset)
	}
	p.env.Opening(s.ID, false)
	l.release()
	p.follow(l)
	p.syncGroups(l)
	p.lookForDamage(l)
	p.env.Metrics.Opened.Inc()
	p.log.Info("serving", "segment", s.ID, "after", time.Since(l.began), "chain", o.took.chain, "suffix", o.took.suffix,
		"checkpoint", o.took.checkpoint, "footers", o.took.footers, "schedules", o.took.schedules, "replay", o.took.replay, "segments", len(l.chain), "known keys", l.keys.Len())
	p.unpark()
	p.flush() // who has waited does not wait for the checkpoint too
	if p.lead == l && l.hasState() && !l.seg.Sealed() {
		p.checkpoint(l)
	}
}

// leadAnew gives up what was kept over a roll, because the end of the segment before turned out to be lost, and was recorded
// as that: nobody who waits for what was there may hear that it is kept.
func (p *Partition) leadAnew(o *loaded) {
	end := o.base
	if n := len(o.chain); n > 0 {
		end = o.chain[n-1].End
	}
	cause := mqerr.New(mqerr.NotLeader, "the end of the segment before was lost")
	cause.Leader = o.head.Open.LeaderNode()
	p.resign(cause, &end)
	p.lookForLead()
	p.unpark()
}

// hasState says whether there is anything that a checkpoint would hold.
func (l *leadership) hasState() bool { return len(l.machine.Groups()) > 0 || l.book.Next() > 0 }

// syncGroups takes up groups that were started before this partition was made: it begins at 0 for them. It
// also forgets groups that were deleted while the partition had no leader.
func (p *Partition) syncGroups(l *leadership) {
	now := p.env.Clock.Now()
	known := map[mq.GroupID]bool{}
	for _, g := range l.machine.Groups() {
		known[g.ID] = true
	}
	for _, g := range p.env.Chain.Groups(p.id.Topic) {
		switch {
		case g.Deleted && known[g.ID]:
			p.logged(l.machine.DeleteGroup(now, g.ID))
		case !g.Deleted && (g.Started || known[g.ID]):
			p.logged(l.machine.EnsureGroup(now, delivery.GroupConfig{ID: g.ID, Name: g.Name, Version: g.Version,
				Settings: g.Settings, Paused: g.Paused}))
		}
	}
}

func (p *Partition) logged(err error) {
	if err != nil {
		p.log.Warn("a group could not be taken up", "err", err)
	}
}
