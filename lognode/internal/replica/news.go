package replica

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

// What a partition does without etcd when its news are there and etcd is not: the coordinators may be gone a moment after
// they have named the next leader.

const (
	// newsWait is how long a leader that was sealed, or was followed by another, waits for the head that says what comes next.
	newsWait = time.Second
	// rereadWait bounds reading a chain that is foreseen.
	rereadWait = time.Second
)

// Foresee reads the chain under a segment that was just made here, if this run of this node is to lead it, so that it may do so though
// etcd is away when it hears that it does. compared is the revision that the segment's opening compares. It returns when that
// is done or has failed, which costs nothing but that the leader must read by itself.
func (p *Partition) Foresee(ctx context.Context, s *mq.Segment, compared int64) {
	if !p.mine(s) {
		return
	}
	head, sealed, err := p.env.Chain.Chain(ctx, p.id)
	if err != nil {
		p.log.Debug("the chain under a new segment could not be read", "segment", s.ID, "err", err)
		return
	}
	if f := segment.Foresee(s, compared, &head, sealed); f != nil {
		p.post(func() { p.foreseen = f })
	}
}

// chainOf is the chain under the segment of a leadership that begins: the first time as it was foreseen, then as it is read; as it was
// foreseen again where it can't be read.
func (p *Partition) chainOf(ctx context.Context, l *leadership, first bool) (head mq.Head, sealed []mq.Segment, err error) {
	head, sealed, ok := p.foresaw(ctx, l)
	if ok && first {
		return head, sealed, nil
	}
	read := ctx
	if ok {
		var cancel context.CancelFunc
		read, cancel = context.WithTimeout(ctx, rereadWait)
		defer cancel()
	}
	now, all, err := p.env.Chain.Chain(read, p.id)
	if err != nil && ok {
		return head, sealed, nil
	}
	return now, all, err
}

// foresaw is the newest head and the chain under it, if that was foreseen.
func (p *Partition) foresaw(ctx context.Context, l *leadership) (head mq.Head, sealed []mq.Segment, ok bool) {
	err := p.inOrder(ctx, func() {
		if p.lead == l {
			head = p.head
			sealed, ok = p.foreseen.Under(&head)
		}
	})
	if err != nil { // the other goroutine may still write to them
		return mq.Head{}, nil, false
	}
	return head, sealed, ok
}

// awaitNext asks for the segment after one that was just sealed here if it does not come: whoever sealed it may be gone, or may have
// failed behind that and have no reason any more to try it again.
func (p *Partition) awaitNext(l *leadership) {
	time.AfterFunc(newsWait, func() {
		p.post(func() {
			if p.lead == l {
				p.env.WantSeal(l.seg.Segment().ID, "it is sealed, and there is no next one")
			}
		})
	})
}

// outrunBy hears from the leader of a segment, which speaks only once etcd has named it. Where the head of that does not come, because
// the coordinators are gone, whoever led before ends that, and everybody is shown to the one who leads now.
func (p *Partition) outrunBy(s *mq.Segment) {
	if !p.outrun.Note(s, p.head.Open) {
		return
	}
	l := p.lead
	if l == nil {
		return
	}
	time.AfterFunc(newsWait, func() {
		p.post(func() {
			if p.lead == l && l.seg.Segment().Number < s.Number {
				p.resign(p.outrun.NotLeader(p.head.Open), &s.Base)
				p.unpark()
			}
		})
	})
}
