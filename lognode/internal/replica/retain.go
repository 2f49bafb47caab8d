package replica

import (
	"context"
	"math"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// activeFor is how long a group that does nothing still keeps what it has not settled.
	activeFor = 7 * 24 * time.Hour
	// rollMost is the age at which a segment rolls even if nothing expires for years.
	rollMost = 24 * time.Hour
)

// Retain is called by the node now and then: the leader asks for a roll of an old segment, and takes the oldest
// sealed segment off the chain if retention says so. One segment a call: a clock that jumped, or settings
// that were mistyped, are noticed before everything is gone.
//
// Time is compared with the journal's newest stamp, not with a clock: an idle topic keeps what it has.
func (p *Partition) Retain() {
	p.post(func() {
		l := p.lead
		t, ok := p.env.Chain.Topic(p.id.Topic)
		if l == nil {
			p.restful = math.MaxInt64
		}
		if l == nil || !l.serving || !ok {
			return
		}
		l.keys.Expire(p.env.Clock.Now())
		p.tellLate(l, p.env.Clock.Counted())
		p.rollByAge(l, t.Settings.Retention)
		l.full = false
		if p.retaining && !p.env.Store.PublishAllowed() {
			l.shelf.hurry(time.Now())
		}
		if p.retaining {
			return
		}
		if len(l.chain) < 2 {
			p.rests(l, t.Settings.Retention)
			return
		}
		s := &l.chain[0]
		over := p.overBytes(l, t.Settings)
		if !over && !p.expired(l, s, t.Settings.Retention) {
			p.rests(l, t.Settings.Retention)
			return
		}
		if keeper := p.keeper(l, s, t.Settings.Retention); keeper != "" {
			if over {
				l.full = true // publishes are refused rather than what an active group needs removed
				p.log.Warn("retention by size waits for a group, and publishes are refused", "group", keeper, "segment", s.ID)
			}
			return
		}
		// The share is asked first: what stays is not uploaded, and not written again.
		if !over && p.tooMuch(l, s, t.Settings.Retention) || !p.archived(l, s, t.Settings) {
			return
		}
		if schedules, dead := p.carryForward(l, s), p.carryDead(l, s); !schedules || !dead {
			return
		}
		var share int64
		if info, _ := p.env.Store.Segment(s.ID); !over {
			share = max(1, info.Bytes)
		}
		p.dropFirst(l, share)
	})
}

// RetainDue is Retain for who calls it every few seconds at any number of partitions: while nothing happens to a partition
// it costs nothing, but for a look once a minute. What Retain asks of others (settings, the topic) is not followed
// here: who knows that it changed calls Retain.
func (p *Partition) RetainDue(now time.Time) {
	if now.UnixNano() >= p.rest.Load() {
		p.Retain()
	}
}

// lateAfter is how long a follower may lack what its leader has before it is to be replaced (replication.md, seal iii).
const lateAfter = 10 * time.Second

// tellLate tells the node which followers have lacked something for too long, and whether the own disk has; it is called every few
// seconds, with the time by a clock that only counts on: one that is set right makes nobody late, and hides nobody.
func (p *Partition) tellLate(l *leadership, now int64) {
	s := l.seg.Segment()
	var late []mq.StoreID
	for i, f := range l.followers {
		if f != nil && f.Lag(now, l.seg.Next()) > int64(lateAfter) {
			late = append(late, s.Replicas[i].Store)
		}
	}
	if len(late) > 0 || l.late {
		p.env.Late(s.ID, late)
	}
	l.late = len(late) > 0
	if l.lag.Of(now, l.seg.Tail(l.seg.Self()), l.seg.Commit(), l.seg.Next()) > int64(lateAfter) {
		p.env.Slow.Store(true) // a follower would be replaced
	}
}

// rollByAge makes sure that retention by time finds whole segments to remove: one that is older than an eighth of it
// rolls, unless it is empty.
func (p *Partition) rollByAge(l *leadership, r mq.Retention) {
	if !l.asked && l.messages && time.Since(l.began) >= rollAge(r) {
		l.asked = true
		p.env.WantSeal(l.seg.Segment().ID, "roll by age")
	}
}

// rollAge is how old a segment with messages becomes.
func rollAge(r mq.Retention) time.Duration {
	if r.Time > 0 {
		return min(rollMost, time.Duration(r.Time)/8)
	}
	return rollMost
}

// restMost is how long a leader to whom nothing happens is left alone: keys leave the window meanwhile, and keep their
// memory that long.
const restMost = time.Minute

// rests says that there is nothing for Retain until something happens here, or its segment is old enough to roll. Not
// while a follower, or the own disk, lacks something: for how long is seen by looking.
func (p *Partition) rests(l *leadership, r mq.Retention) {
	if l.late || len(l.own) > 0 {
		return
	}
	for _, f := range l.followers {
		if f != nil && !f.Whole(l.seg.Next()) {
			return
		}
	}
	until := time.Now().Add(restMost)
	if roll := l.began.Add(rollAge(r)); !l.asked && l.messages && roll.Before(until) {
		until = roll
	}
	p.restful = until.UnixNano()
}

// overBytes says whether the partition holds more than its share of the topic's limit.
func (p *Partition) overBytes(l *leadership, t mq.TopicSettings) bool {
	return overShare(p.countedBytes(l), &t)
}

// overShare says whether so many bytes that count are more than a partition's share of the topic's limit.
func overShare(counted int64, t *mq.TopicSettings) bool {
	return t.Retention.Bytes > 0 && counted > t.Retention.Bytes/int64(max(1, t.Partitions))
}

// countedBytes is what counts for the limit: not what waits, and not what was carried.
func (p *Partition) countedBytes(l *leadership) int64 {
	return p.heldBytes(l) - l.book.PendingBytes() - l.machine.CarriedBytes()
}

// expired says whether everything in s is older than retention allows. Where this store has no whole copy nothing expires.
func (p *Partition) expired(l *leadership, s *mq.Segment, r mq.Retention) bool {
	if r.Time == 0 || !Resident(p.env.Store, s) {
		return false
	}
	info, _ := p.env.Store.Segment(s.ID)
	return info.LastStamp+int64(r.Time) < l.seg.Stamp()
}

// passTime is how long a pass of retention by time lasts.
const passTime = time.Hour

// pass is what retention by time removed lately.
type pass struct {
	began   time.Time
	held    int64 // bytes that there were when it began
	removed int64
	stopped bool // nothing more until the next one
}

// tooMuch says whether the limit by time has removed its share for now (rule R8). The first segment of a pass may always
// go, so that a partition of few segments loses one at a time. What is over comes with the next passes.
func (p *Partition) tooMuch(l *leadership, s *mq.Segment, r mq.Retention) bool {
	if now := time.Now(); l.pass.began.IsZero() || now.Sub(l.pass.began) >= passTime {
		p.endPass(l)
		l.pass = pass{began: now, held: p.heldBytes(l)}
	}
	info, _ := p.env.Store.Segment(s.ID)
	if l.pass.removed == 0 || float64(l.pass.removed+info.Bytes) <= r.Share()*float64(l.pass.held) {
		return false
	}
	if !l.pass.stopped {
		l.pass.stopped = true
		p.env.Metrics.Kept.Inc()
		p.log.Error("retention by time has removed its share for this hour, and more has expired: is a clock wrong, or the setting?",
			"removed", l.pass.removed, "of", l.pass.held, "share", r.Share(), "next", s.ID)
	}
	return true
}

// endPass takes the alarm back.
func (p *Partition) endPass(l *leadership) {
	if l.pass.stopped {
		l.pass.stopped = false
		p.env.Metrics.Kept.Dec()
	}
}

// heldBytes is what this store holds of the partition.
func (p *Partition) heldBytes(l *leadership) int64 {
	held := l.sinceOpen
	for i := range l.chain {
		if info, ok := p.env.Store.Segment(l.chain[i].ID); ok {
			held += info.Bytes
		}
	}
	return held
}

// keeper is the name of an active group that has not settled everything in s; "" for none. Dead letters are carried on.
func (p *Partition) keeper(l *leadership, s *mq.Segment, r mq.Retention) string {
	if !r.KeepUnsettled {
		return ""
	}
	for _, g := range l.machine.Groups() {
		if time.Since(l.used(g.ID)) > activeFor {
			continue
		}
		if l.machine.Keeps(g.ID, s.End.Offset) {
			return g.Name
		}
	}
	return ""
}

// used is when a group was last used here; a leader counts from its own beginning.
func (l *leadership) used(g mq.GroupID) time.Time {
	if at, ok := l.uses[g]; ok {
		return at
	}
	return l.began
}

// dropFirst takes the first segment off the chain: what still counts of it is carried forward, the state forgets the rest,
// and when a checkpoint that says so is committed it goes in etcd. In this order no leader ever finds a checkpoint that
// speaks of messages of which nobody can tell the lanes any more. R9 follows: the newest complete checkpoint is not in the
// segment. Once it is gone, share counts for what retention by time may remove in this pass.
func (p *Partition) dropFirst(l *leadership, share int64) {
	p.retaining = true
	p.carryKeys(l, l.chain[0], func(err error) {
		if err != nil || p.lead != l || l.seg.Sealed() || !p.forgetFirst(l, share) {
			p.retaining = false
		}
	})
}

// forgetFirst is dropFirst once what still counted of the segment is carried. It is asked again whether nothing else in it
// is needed: a seek or a redrive may have come since, or a message have died. From here on none can, as the state is told
// where it begins now. False if the segment stays, or the state can't be written now: the next Retain begins anew.
func (p *Partition) forgetFirst(l *leadership, share int64) bool {
	t, ok := p.env.Chain.Topic(p.id.Topic)
	s := &l.chain[0]
	if !ok || p.keeper(l, s, t.Settings.Retention) != "" || len(l.machine.MustCarry(s.End)) > 0 {
		return false
	}
	l.machine.Drop(p.env.Clock.Now(), l.chain[1].Base.Offset)
	if l.hasState() && !p.checkpoint(l) {
		return false
	}
	if !l.seg.Commit().Before(l.seg.Next()) {
		p.shorten(l, share)
		return true
	}
	l.answers.At(l.seg.Next(), func(err error) {
		if err != nil || p.lead != l || l.seg.Sealed() {
			p.retaining = false
			return
		}
		p.shorten(l, share)
	})
	return true
}

// shorten takes the first segment off the chain in etcd, as its state is written.
func (p *Partition) shorten(l *leadership, share int64) {
	p.beside(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, pieceWait)
		defer cancel()
		chain, err := p.dropInChain(ctx, l.seg.Segment().ID, l.chain[0].ID)
		p.post(func() {
			p.retaining = false
			if p.lead != nil && err == nil {
				p.lead.pass.removed += share
			}
			switch {
			case err != nil:
				p.log.Warn("retention could not shorten the chain", "err", err)
			case p.lead == l && l.serving:
				p.log.Info("retention removed a segment", "segment", l.chain[0].ID, "first", chain[0].Base)
				l.chain = chain
				p.env.Metrics.Expired.Inc()
			}
		})
	})
}

// dropInChain removes the first segment of the chain in etcd if that is still the one that was looked at.
func (p *Partition) dropInChain(ctx context.Context, open, first mq.SegmentID) ([]mq.Segment, error) {
	head, chain, err := p.env.Chain.Chain(ctx, p.id)
	if err != nil {
		return nil, err
	}
	if head.Open == nil || head.Open.ID != open || len(chain) < 2 || chain[0].ID != first {
		return nil, mqerr.New(mqerr.PreconditionFailed, "the chain changed")
	}
	head.Forget(chain[1].Base)
	if _, err := p.env.Chain.DropSegments(ctx, head, chain[1].Number); err != nil {
		return nil, err
	}
	return segment.AsHeld(chain[1:]), nil
}
