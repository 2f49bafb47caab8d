package simulate

import (
	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// maxLearns is replica's, learnEntries is how much of the journal is read for keys at a time.
	maxLearns    = 256
	learnEntries = 20
)

// learn is replica.Partition.learn.
func (p *partition) learn(l *leadership, id mq.GroupID, need uint64, done func(error)) {
	list := l.overlapping(func(s *mq.Segment) bool { return need < s.End.Offset })
	tell := func(all []mq.Entry, err error) {
		var keys []uint64
		read := 0
		for i := 0; err == nil && i < len(all) && read < learnEntries; i++ {
			e := &all[i]
			if e.Count == 0 || e.Next().Offset <= need {
				continue
			}
			if e.At.Offset > need+uint64(len(keys)) { // behind a hole: asked for when it is its turn
				break
			}
			keys, err = delivery.EntryKeys(e, need, keys)
			read++
		}
		if p.node.host.Mutation.ForgetKeys {
			clear(keys)
		}
		p.post(func() {
			if err == nil && p.lead == l {
				l.machine.LearnKeys(id, need, keys)
			}
			done(err)
		})
	}
	if all, ok := p.node.disk.holding(list, need, need+delivery.MaxLearn); ok {
		tell(all, nil)
		return
	}
	p.readAll(list, tell)
}
