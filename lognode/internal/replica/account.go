package replica

import (
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
)

// Push sends a gateway a frame that it did not ask for; false once its stream is gone. It never blocks.
type Push func(t frame.Type, body link.Encoder) bool

// Tell says how to reach the gateway on a stream whose accounts lease here, until StreamGone.
func (p *Partition) Tell(stream uint64, push Push) {
	p.post(func() {
		if p.pushes == nil {
			p.pushes = map[uint64]Push{}
		}
		p.pushes[stream] = push
	})
}

// tellFreed tells each gateway which leases of its accounts are over, after a round of events. What can't be told
// (the stream is full or gone) the gateway finds out by asking.
func (p *Partition) tellFreed(freed []delivery.Freed) {
	byStream := map[uint64]*frame.Freed{}
	for _, f := range freed {
		x := byStream[f.Stream]
		if x == nil {
			x = &frame.Freed{Partition: p.id}
			byStream[f.Stream] = x
		}
		x.Runs = append(x.Runs, frame.FreedRun{Account: f.Account, Segment: f.Segment, Counter: f.Counter, Count: f.Count})
	}
	for stream, f := range byStream {
		if push := p.pushes[stream]; push != nil && !push(frame.TypeFreed, f) {
			delete(p.pushes, stream)
		}
	}
}

// Leased answers which leases of a group go on.
func (p *Partition) Leased(f frame.Leased, reply Reply) {
	p.serve(reply.fail, func(l *leadership) {
		answer := frame.LeasedUntil{Until: make([]int64, len(f.Items))}
		for i, it := range f.Items {
			answer.Until[i] = l.machine.Leased(f.Group, it.Offset, it.Segment, it.Counter)
		}
		reply(frame.TypeUntil, &answer)
	})
}

// followedFor is how long after their gateway's last question readers at the end are woken.
const followedFor = 3 * time.Second

// tellTail wakes who reads at the end of the partition, if there is anybody, when it has moved.
func (p *Partition) tellTail(l *leadership) {
	if p.followed.IsZero() {
		return
	}
	end := l.seg.Commit().Offset
	switch {
	case time.Since(p.followed) > followedFor:
		p.followed = time.Time{}
	case end != p.toldEnd:
		p.toldEnd = end
		p.env.Wake(p.id, frame.TailGroup)
	}
}
