package simulate

import (
	"fmt"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// setHead, succeeded, lookForLead, open and opened are those of replica/open.go.
func (p *partition) setHead(h mq.Head) {
	p.post(func() {
		if h.Revision <= p.head.Revision {
			return
		}
		if !p.noteHead(&h) {
			return
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
		case l.serving && segment.Lacks(l.holes, &h):
			p.node.host.WantSeal(h.Open.ID, "a range was recorded as lost")
		}
		p.lookForLead()
		p.unpark()
	})
}

// noteHead is replica.Partition.noteHead.
func (p *partition) noteHead(h *mq.Head) bool {
	if p.fault {
		p.head = *h
		return false
	}
	var committed mq.Position
	before := p.head.Open
	if before != nil {
		if c := p.copies[before.ID]; c != nil {
			committed = c.copy.Committed()
		}
		if l := p.lead; l != nil && l.seg.Segment().ID == before.ID && committed.Before(l.seg.Commit()) {
			committed = l.seg.Commit()
		}
	}
	err := segment.CheckHead(h, before, committed)
	p.head = *h
	if err != nil {
		p.stop(err)
	}
	return err == nil
}

func (p *partition) succeeded(l *leadership) {
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
	next.machine, next.batches, next.batchBytes = l.machine, l.batches, l.batchBytes
	next.book, next.ahead, next.holes = l.book, l.ahead, l.holes
	next.answers = l.answers
	p.close(l)
	p.lead = next
	p.open(next)
}

// fresh says whether the own copy can begin to be led: it may have been sealed before this node heard of it.
func (p *partition) fresh(s *mq.Segment) bool {
	h := p.copies[s.ID]
	return h != nil && !h.damaged && h.copy.Fresh()
}

func (p *partition) mine(s *mq.Segment) bool { return s != nil && s.Leader == p.node.self }

func (p *partition) lookForLead() {
	s := p.head.Open
	resume := p.node.host.Mutation.ResumeLeading && s != nil && s.Leader.Store == p.node.self.Store
	if p.lead != nil || p.fault || !p.mine(s) && !resume {
		return
	}
	if p.outrun.Past(s) {
		return
	}
	if h := p.copies[s.ID]; !p.fresh(s) && (!resume || h == nil || h.damaged || h.copy.Sealing()) {
		return
	}
	l, err := p.newLeadership(s, s.Base, 0)
	if err != nil {
		p.stop(err)
		return
	}
	p.lead = l
	p.open(l)
}

func (p *partition) newLeadership(s *mq.Segment, prev mq.Position, stamp int64) (*leadership, error) {
	leader, err := segment.NewLeader(*s, prev, stamp)
	if err != nil {
		return nil, err
	}
	l := &leadership{seg: leader, began: p.node.host.True(), followers: make([]*segment.Follower, len(s.Replicas))}
	for i := range s.Replicas {
		if i != leader.Self() {
			l.followers[i] = segment.NewFollower(s.Base)
		}
	}
	return l, nil
}

// loaded is what a new leader needs to serve.
type loaded struct {
	chain   []mq.Segment
	base    mq.Position // of the open segment
	head    mq.Head
	machine *delivery.Machine
	book    *schedule.Book
	prev    mq.Position
	stamp   int64
}

// open prepares again and again until the leader serves or its leadership ends.
func (p *partition) open(l *leadership) { p.tryOpen(l, l.machine, true, 20*time.Millisecond) }

func (p *partition) tryOpen(l *leadership, kept *delivery.Machine, first bool, pause time.Duration) {
	if l.ended {
		return
	}
	p.prepare(l, kept, first, func(o loaded, err error) {
		if err != nil {
			p.why = err.Error()
			p.node.host.After(pause, func() { p.tryOpen(l, kept, false, min(2*pause, time.Second)) })
			return
		}
		p.node.awaitClock(func() { p.post(func() { p.opened(l, o) }) })
	})
}

func (p *partition) prepare(l *leadership, kept *delivery.Machine, first bool, done func(loaded, error)) {
	id := l.seg.Segment().ID
	p.chainOf(l, first, func(head mq.Head, sealed []mq.Segment, ok bool) {
		if !ok || head.Open == nil || head.Open.ID != id {
			done(loaded{}, fmt.Errorf("segment %d is not known to be the open one", id))
			return
		}
		if err := segment.CheckChain(&head, sealed); err != nil {
			p.post(func() { p.stop(err) })
			done(loaded{}, err)
			return
		}
		o := loaded{chain: segment.AsHeld(sealed), base: head.Open.Base, head: head, machine: kept}
		x := p.suffixFor(&head)
		finish := func(err error) {
			if err == nil || l.ended || p.node.host.True()-l.began <= int64(lossPatience) {
				done(o, err)
				return
			}
			x.lost(head, sealed, func(judged error) {
				if judged != nil {
					err = fmt.Errorf("%w; %w", err, judged)
				}
				done(o, err)
			})
		}
		load := func(err error) {
			if err != nil || kept != nil {
				finish(err)
				return
			}
			p.load(&o, finish)
		}
		if head.Last == nil {
			load(nil)
			return
		}
		x.repair(head.Last, load)
	})
}

// leadAnew is replica.Partition.leadAnew.
func (p *partition) leadAnew(o *loaded) {
	end := o.base
	if n := len(o.chain); n > 0 {
		end = o.chain[n-1].End
	}
	p.resign(mqerr.New(mqerr.NotLeader, "the end of the segment before was lost"), &end)
	p.lookForLead()
	p.unpark()
}

// lossPatience is how long a leader looks for what it can't find before it judges whether that is lost.
const lossPatience = time.Second

func (p *partition) opened(l *leadership, o loaded) {
	if p.lead != l || l.serving {
		return
	}
	s := l.seg.Segment()
	if l.machine != nil && segment.Lacks(l.holes, &o.head) {
		p.leadAnew(&o)
		return
	}
	if l.machine == nil {
		l.book, l.ahead = o.book, schedule.NewAhead(aheadLimits)
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
	p.foreseen = nil
	l.machine, l.chain, l.holes, l.serving = o.machine, o.chain, o.head.Holes, true
	l.machine.Commit(s.Base.Offset)
	if o.stamp != 0 {
		l.machine.Resume(p.now(), o.stamp)
	}
	l.machine.Lead(s.Number, p.now())
	l.seg.Chained()
	l.release()
	for i := range l.followers {
		if l.followers[i] != nil {
			p.connect(l, i)
		}
	}
	for _, g := range p.node.host.Groups {
		p.node.host.Mutation.limit(&g)
		if err := l.machine.EnsureGroup(p.now(), g); err != nil {
			p.stop(err)
			return
		}
	}
	p.unpark()
	p.flush()
	if p.lead == l && (len(l.machine.Groups()) > 0 || l.book.Next() > 0) && !l.seg.Sealed() {
		p.checkpoint(l)
	}
}
