package simulate

import (
	"time"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	foreseeWait = time.Second
	newsWait    = time.Second
)

// foresee is replica.Partition.Foresee, with the time that Create gives it.
func (p *partition) foresee(s *mq.Segment, compared int64, done func()) {
	if !p.mine(s) {
		done()
		return
	}
	over := false
	once := func() {
		if !over {
			over = true
			done()
		}
	}
	p.node.host.After(foreseeWait, once)
	p.node.host.Chain(p.id, func(head mq.Head, sealed []mq.Segment, ok bool) {
		if ok {
			if f := segment.Foresee(s, compared, &head, sealed); f != nil {
				p.post(func() { p.foreseen = f })
			}
		}
		once()
	})
}

// chainOf is replica.Partition.chainOf; a read that is answered too late counts as one that fails.
func (p *partition) chainOf(l *leadership, first bool, done func(mq.Head, []mq.Segment, bool)) {
	foresaw := func() (mq.Head, []mq.Segment, bool) {
		if p.lead != l {
			return mq.Head{}, nil, false
		}
		head := p.head
		sealed, ok := p.foreseen.Under(&head)
		return head, sealed, ok
	}
	if head, sealed, ok := foresaw(); ok && first {
		done(head, sealed, true)
		return
	}
	p.node.host.Chain(p.id, func(head mq.Head, sealed []mq.Segment, ok bool) {
		if !ok {
			head, sealed, ok = foresaw()
		}
		done(head, sealed, ok)
	})
}

// awaitNext is replica.Partition.awaitNext.
func (p *partition) awaitNext(l *leadership) {
	p.node.host.After(newsWait, func() {
		p.post(func() {
			if p.lead == l {
				p.node.host.WantSeal(l.seg.Segment().ID, "it is sealed, and there is no next one")
			}
		})
	})
}

// outrunBy is replica.Partition.outrunBy.
func (p *partition) outrunBy(s *mq.Segment) {
	if !p.outrun.Note(s, p.head.Open) {
		return
	}
	l := p.lead
	if l == nil {
		return
	}
	p.node.host.After(newsWait, func() {
		p.post(func() {
			if p.lead == l && l.seg.Segment().Number < s.Number {
				p.resign(p.outrun.NotLeader(p.head.Open), &s.Base)
				p.unpark()
			}
		})
	})
}
