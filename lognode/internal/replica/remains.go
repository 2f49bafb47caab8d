package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// remains is what can be read of a partition that can't go on, because a segment that it needs is damaged here and nobody
// else has it whole: everything before the damage. It is never led: nothing is placed, leased or settled, as no record
// of that could be kept. It ends when the partition goes on, with a copy that came back or by an operator's word.
type remains struct {
	of  mq.SegmentID // the open segment
	l   *leadership  // sealed, at the place where the intact entries end
	why *mqerr.Error
}

// readOnly says whether only what is left can be read.
func (p *Partition) readOnly() bool { return p.remains != nil && (p.lead == nil || !p.lead.serving) }

// whenReadable is whenServing for requests that read only.
func (p *Partition) whenReadable(fail func(error), run func(l *leadership)) {
	if p.readOnly() {
		run(p.remains.l)
		return
	}
	p.whenServing(fail, run)
}

func (p *Partition) endRemains() {
	if p.remains != nil {
		p.remains.l.cancel()
		p.remains = nil
		p.env.Metrics.Damaged.Dec()
	}
}

// watchDamage makes what is left of an open segment readable that was led here and is damaged, if nothing has come of it
// after a while: with enough other replicas the controller has opened the next one by then.
func (p *Partition) watchDamage(s *mq.Segment) {
	if s == nil || s.Leader.Store != p.env.Store.Identity().Store || p.watched == s.ID {
		return
	}
	if h := p.copies[s.ID]; h == nil || !h.damaged {
		return
	}
	p.watched = s.ID
	p.lookAtDamage(s.ID)
}

func (p *Partition) lookAtDamage(id mq.SegmentID) {
	time.AfterFunc(p.env.LossPatience, func() {
		p.post(func() {
			if s := p.head.Open; s == nil || s.ID != id || p.lead != nil || p.remains != nil || p.fault != nil {
				return
			}
			p.beside(func(ctx context.Context) {
				p.keepReadable(ctx)
				p.post(func() { p.lookAtDamage(id) }) // again, if it could not be read
			})
		})
	})
}

// keepReadable finds what is left of the partition and serves that, if it is damage here that keeps it from going on. It
// runs beside the partition.
func (p *Partition) keepReadable(ctx context.Context) {
	head, chain, err := p.env.Chain.Chain(ctx, p.id)
	if err != nil || head.Open == nil {
		return
	}
	known := make(chan bool, 1)
	if !p.post(func() { known <- p.remains != nil && p.remains.of == head.Open.ID }) || <-known {
		return
	}
	left, end, why := p.findRemains(ctx, &head, segment.AsHeld(chain))
	if why == nil {
		return
	}
	o := loaded{chain: left, base: end}
	if err := p.load(ctx, &o); err != nil { // what groups have done is lost with it; the messages are not
		p.log.Warn("the state of groups can't be read of what is left of a damaged partition", "err", err)
		o.machine, o.book = delivery.New(p.id), schedule.New()
		if err := p.recollect(ctx, &o); err != nil {
			return
		}
	}
	if ctx.Err() != nil {
		return
	}
	p.post(func() { p.serveRemains(head.Open, &o, why) })
}

// findRemains is the part of a chain, with the open segment if that was led here, before the first damage that nobody can
// make good, where that ends, and what to tell of it; nil if there is no such damage.
func (p *Partition) findRemains(ctx context.Context, head *mq.Head, chain []mq.Segment) (left []mq.Segment, end mq.Position, why *mqerr.Error) {
	x := p.suffixFor(head)
	for i := range chain {
		s := &chain[i]
		if s.Base == s.End || Resident(p.env.Store, s) || p.wholeElsewhere(ctx, s) {
			left = append(left, *s)
			continue
		}
		own := p.ownCopy(s.ID, x.fence)
		if own.Damaged && p.readable(ctx, s) { // damaged elsewhere than the others are
			left = append(left, *s)
			continue
		}
		if !own.Damaged {
			return nil, mq.Position{}, nil // it is missing or short: whoever has it may only be away
		}
		return cutAt(left, s, own.Tail), own.Tail, p.damageOf(s, own.Tail)
	}
	s := head.Open
	own := p.ownCopy(s.ID, x.fence)
	if !own.Damaged {
		return nil, mq.Position{}, nil
	}
	end = own.Tail
	if s.Quorum > 1 { // only what is known to be committed: the rest may end elsewhere
		end = minPosition(end, p.knownCommit(s, end))
	}
	return cutAt(left, s, end), end, p.damageOf(s, end)
}

// cutAt adds a segment that ends earlier than it did.
func cutAt(left []mq.Segment, s *mq.Segment, end mq.Position) []mq.Segment {
	if !s.Base.Before(end) {
		return left
	}
	cut := *s
	cut.Sealed, cut.End, cut.Held = true, end, nil
	return append(left, cut)
}

// knownCommit is up to where a segment is committed by the word of its last entry before a position.
func (p *Partition) knownCommit(s *mq.Segment, before mq.Position) mq.Position {
	commit := s.Base
	err := p.env.Store.ScanBack(s.ID, before, func(_ mq.Position, data []byte) bool {
		if e, err := mq.ParseEntryHeader(data); err == nil {
			commit = maxPosition(commit, e.Commit)
		}
		return false
	})
	if err != nil {
		return s.Base
	}
	return commit
}

func minPosition(a, b mq.Position) mq.Position {
	if b.Before(a) {
		return b
	}
	return a
}

// damageOf tells an operator what is damaged and what helps.
func (p *Partition) damageOf(s *mq.Segment, end mq.Position) *mqerr.Error {
	topic := "TOPIC"
	if t, ok := p.env.Chain.Topic(p.id.Topic); ok && t.Name != "" {
		topic = t.Name
	}
	here, others := "", ""
	for _, r := range s.Replicas {
		if r.Store == p.env.Store.Identity().Store {
			here = r.Node
		} else {
			others += " " + r.Node
		}
	}
	help := "There is no other copy"
	if others != "" {
		help = "If another node had a whole copy (of" + others + "), start it, and the partition goes on by itself; if none has"
	}
	return mqerr.New(mqerr.PartitionDamaged, "the copy on node %s is damaged from offset %d on, and no other replica that answers is whole. "+
		"Messages before that can be read; nothing is published, received or settled. %s: `splashdam cluster force-recover %s %d` shows "+
		"what goes on without the damaged part", here, end.Offset, help, topic, p.id.Number)
}

// serveRemains begins to answer what reads only.
func (p *Partition) serveRemains(open *mq.Segment, o *loaded, why *mqerr.Error) {
	if s := p.head.Open; s == nil || s.ID != open.ID || p.remains != nil || p.fault != nil || p.lead != nil && p.lead.serving {
		return
	}
	self := p.env.Store.Identity()
	at := mq.Segment{ID: open.ID, Partition: p.id, Number: open.Number, Base: o.base, Quorum: 1, Leader: self,
		Replicas: []mq.Replica{{Store: self.Store}}}
	l, err := p.newLeadership(&at, o.base, 0)
	if err != nil {
		p.stop(fmt.Errorf("what is left of the partition: %w", err))
		return
	}
	l.seg.Seal()
	l.machine, l.book, l.keys, l.ahead, l.chain, l.serving = o.machine, o.book, o.keys, newAhead(), o.chain, true
	l.machine.Commit(o.base.Offset)
	p.remains = &remains{of: open.ID, l: l, why: why}
	p.env.Metrics.Damaged.Inc()
	p.log.Error("the partition is damaged: what is left of it can be read, and nothing written", "end", o.base, "why", why.Detail)
	waiting := p.parked
	p.parked = nil
	for _, r := range waiting {
		r.run()
	}
}
