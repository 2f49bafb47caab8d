package replica

import (
	"context"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// sharers are the receives of a group that wait for the same reading.
type sharers struct{ again []func(error) }

// join waits for a reading that is under way; false if none is. Beyond maxParked it is refused.
func (s *sharers) join(again func(error)) bool {
	switch {
	case s == nil:
		return false
	case len(s.again) >= maxParked:
		again(mqerr.New(mqerr.Overloaded, "too many receives wait for what is read of the next messages"))
	default:
		s.again = append(s.again, again)
	}
	return true
}

func (s *sharers) run(err error) {
	for _, again := range s.again {
		again(err)
	}
}

// share reads beside the partition what a receive of a group needs, and then calls again, as for all that have joined
// meanwhile. What read answers is called on the partition's goroutine while the leadership is the same.
func (p *Partition) share(l *leadership, under map[mq.GroupID]*sharers, id mq.GroupID, again func(error),
	read func(ctx context.Context, j *journal) (take func(), err error)) {
	waiting := &sharers{again: []func(error){again}}
	under[id] = waiting
	j := l.journal()
	p.beside(func(ctx context.Context) {
		take, err := read(ctx, &j)
		ok := p.post(func() {
			delete(under, id)
			if err == nil && p.lead == l && l.serving {
				take()
			}
			waiting.run(err)
		})
		if !ok { // the node stops, and answers so
			waiting.run(err)
		}
	})
}
