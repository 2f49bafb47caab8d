package replica

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// catchUp is how long a receive waits for this node to see an assignment that its gateway has seen already. Both
	// watch the same key, so it is a matter of milliseconds unless this node is cut off from the coordinators.
	catchUp = 500 * time.Millisecond
	// maxCatching bounds the receives of a partition that wait so; more are refused as if they had waited.
	maxCatching = 1000
)

// admit says whether a receive may go on: the partition is its member's by what this node knows now. A gateway that
// knows less than this node is refused, and finds out why from its own view. One that knows more is believed as
// soon as this node knows the same.
func (p *Partition) admit(r receiving) bool {
	owner, generation := p.env.Chain.Owner(r.Group, p.id.Number)
	switch {
	case r.Member == "":
		r.reply.fail(mqerr.New(mqerr.NotMember, "the group's partitions belong to its members"))
	case owner == r.Member:
		return true
	case r.Generation > generation && p.catching < maxCatching:
		p.awaitGeneration(r.Group, r.Generation, func() {
			r.Generation = 0 // what is known now decides
			p.receive(r)
		})
	default:
		r.reply.fail(mqerr.New(mqerr.NotMember, "partition %d is another member's since generation %d", p.id.Number, generation))
	}
	return false
}

// awaitGeneration calls then when the node's view has a generation of a group's assignment, or after a while.
func (p *Partition) awaitGeneration(group mq.GroupID, generation uint64, then func()) {
	p.catching++
	most := p.catchFor
	p.work.Add(1)
	go func() {
		defer p.work.Done()
		ctx, cancel := context.WithTimeout(p.ctx, most)
		defer cancel()
		for ctx.Err() == nil {
			a, changed := p.env.Chain.Assignment(group)
			if a.Generation >= generation {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		p.post(func() { p.catching-- })
		then() // also when the partition has ended: it answers
	}()
}
