package simulate

import (
	"fmt"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
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
		p.head = h
		if h.Last != nil {
			if c := p.copies[h.Last.ID]; c != nil {
				p.decideEnd(c, h.Last.End, nil)
			}
		}
		if l := p.lead; l != nil && (h.Open == nil || h.Open.ID != l.seg.Segment().ID) {
			p.succeeded(l)
		}
		p.lookForLead()
		p.unpark()
	})
}

func (p *partition) succeeded(l *leadership) {
	h := p.head
	var end *mq.Position
	switch s := l.seg.Segment(); {
	case h.Last != nil && h.Last.ID == s.ID:
		end = &h.Last.End
	case h.Open != nil && h.Open.Base == s.Base:
		end = &h.Open.Base
	}
	cause := mqerr.New(mqerr.NotLeader, "the partition has another leader now")
	if h.Open != nil {
		cause.Leader = h.Open.LeaderNode()
	}
	if !l.serving || !p.mine(h.Open) || end == nil || *end != l.seg.Next() || !p.fresh(h.Open) {
		p.resign(cause, end)
		return
	}
	next, err := p.newLeadership(h.Open, l.seg.Prev(), l.seg.Stamp())
	if err != nil {
		p.stop(err)
		return
	}
	next.machine, next.batches, next.batchBytes = l.machine, l.batches, l.batchBytes
	next.await, next.unplaced = l.await, l.unplaced
	p.close(l)
	p.lead = next
	p.open(next)
}

// fresh says whether the own copy can begin to be led: it may have been sealed before this node heard of it.
func (p *partition) fresh(s *mq.Segment) bool {
	h := p.copies[s.ID]
	return h != nil && !h.damaged && !h.copy.Sealing() && h.copy.Queued() == s.Base
}

func (p *partition) mine(s *mq.Segment) bool { return s != nil && s.Leader == p.node.self }

func (p *partition) lookForLead() {
	s := p.head.Open
	resume := p.node.host.Mutation.ResumeLeading && s != nil && s.Leader.Store == p.node.self.Store
	if p.lead != nil || p.fault || !p.mine(s) && !resume {
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
	l := &leadership{seg: leader, followers: make([]*segment.Follower, len(s.Replicas))}
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
	machine *delivery.Machine
	prev    mq.Position
	stamp   int64
}

// open prepares again and again until the leader serves or its leadership ends.
func (p *partition) open(l *leadership) { p.tryOpen(l, l.machine, 20*time.Millisecond) }

func (p *partition) tryOpen(l *leadership, kept *delivery.Machine, pause time.Duration) {
	if l.ended {
		return
	}
	p.prepare(l.seg.Segment().ID, kept, func(o loaded, err error) {
		if err != nil {
			p.why = err.Error()
			p.node.host.After(pause, func() { p.tryOpen(l, kept, min(2*pause, time.Second)) })
			return
		}
		p.post(func() { p.opened(l, o) })
	})
}

func (p *partition) prepare(id mq.SegmentID, kept *delivery.Machine, done func(loaded, error)) {
	p.node.host.Chain(p.id, func(head mq.Head, sealed []mq.Segment, ok bool) {
		if !ok || head.Open == nil || head.Open.ID != id {
			done(loaded{}, fmt.Errorf("segment %d is not known to be the open one", id))
			return
		}
		o := loaded{chain: sealed, machine: kept}
		load := func() {
			if kept != nil {
				done(o, nil)
				return
			}
			p.load(&o, func(err error) { done(o, err) })
		}
		if head.Last == nil {
			load()
			return
		}
		p.repairSuffix(head.Last, func(err error) {
			if err != nil {
				done(o, err)
				return
			}
			load()
		})
	})
}

func (p *partition) opened(l *leadership, o loaded) {
	if p.lead != l || l.serving {
		return
	}
	s := l.seg.Segment()
	if l.machine == nil {
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
	l.machine, l.chain, l.serving = o.machine, o.chain, true
	l.machine.Commit(s.Base.Offset)
	if o.stamp != 0 {
		l.machine.Shift(p.now() - o.stamp)
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
		if err := l.machine.EnsureGroup(p.now(), g); err != nil {
			p.stop(err)
			return
		}
	}
	if len(l.machine.Groups()) > 0 && !l.seg.Sealed() {
		p.checkpoint(l)
	}
	p.unpark()
}
