package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// EnsureGroup makes the partition know a group, or a newer version of it, durably. done is called after
// commit. The start is resolved here when the group is new to the topic (firstUse): earliest is the first kept
// offset, latest the next one, a time the first message that is not older. A group that has started elsewhere
// begins at the first kept offset of a partition that does not know it: the partition is newer than the group.
func (p *Partition) EnsureGroup(c delivery.GroupConfig, firstUse bool, done func(error)) {
	p.serve(done, func(l *leadership) {
		set := func(start uint64) {
			p.serve(done, func(l *leadership) {
				c.Start = start
				if err := l.machine.EnsureGroup(p.env.Clock.Now(), c); err != nil {
					done(deliveryError(err))
					return
				}
				l.afterCommit(done)
			})
		}
		j := l.journal()
		start := c.Settings.Start
		if !firstUse {
			start.At = "earliest"
		}
		switch start.At {
		case "latest":
			set(l.seg.Next().Offset)
		case "time":
			p.beside(func(ctx context.Context) {
				at, err := p.offsetAt(ctx, &j, start.Time.UnixNano())
				if err != nil {
					done(err)
					return
				}
				set(at)
			})
		default:
			set(j.first())
		}
	})
}

// DeleteGroup makes the partition forget a group, durably.
func (p *Partition) DeleteGroup(id mq.GroupID, done func(error)) {
	p.serve(done, func(l *leadership) {
		if err := l.machine.DeleteGroup(p.env.Clock.Now(), id); err != nil {
			done(deliveryError(err))
			return
		}
		delete(l.uses, id)
		l.afterCommit(done)
	})
}

// serveRead posts a request that reads only, and is answered also when nothing but that is left of the partition.
func (p *Partition) serveRead(fail func(error), run func(l *leadership)) {
	if !p.post(func() { p.whenReadable(fail, run) }) {
		fail(mqerr.New(mqerr.NoLeader, "the node is stopping"))
	}
}

// serveLook is serveRead of a request that changes nothing: a partition that is only looked at goes on resting.
func (p *Partition) serveLook(fail func(error), run func(l *leadership)) {
	if !p.post(func() { p.looks++; p.whenReadable(fail, run) }) {
		fail(mqerr.New(mqerr.NoLeader, "the node is stopping"))
	}
}

// serve posts a request that only the leader can answer.
func (p *Partition) serve(fail func(error), run func(l *leadership)) {
	if !p.post(func() { p.whenServing(fail, run) }) {
		fail(mqerr.New(mqerr.NoLeader, "the node is stopping"))
	}
}
