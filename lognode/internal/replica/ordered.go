package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// maxLearns bounds how often one receive has keys read; then it answers with what there is, and is asked again.
	maxLearns = 256
	// learnBytes is how much of the journal is read for keys at a time, in whole entries.
	learnBytes = 4 << 20
)

// learn reads the keys that a group which orders by key needs. Only a group that is behind needs any, or one whose leader is
// new: the keys of what is published are known.
func (p *Partition) learn(l *leadership, id mq.GroupID, need uint64, again func(error)) {
	if l.learning[id].join(again) {
		return
	}
	p.share(l, l.learning, id, again, func(ctx context.Context, j *journal) (func(), error) {
		keys, err := p.keysFrom(ctx, j, need)
		return func() { l.machine.LearnKeys(id, need, keys) }, err
	})
}

// keysFrom reads the key hashes of committed messages from an offset on: those of its entry, and of the next ones up to
// learnBytes.
func (p *Partition) keysFrom(ctx context.Context, j *journal, from uint64) (keys []uint64, err error) {
	at, bytes := from, 0
	for at < j.open.End.Offset && len(keys) < delivery.MaxLearn && bytes < learnBytes {
		e, err := p.entry(ctx, j, at)
		if err == nil {
			keys, err = delivery.EntryKeys(e, at, keys)
		}
		if err != nil {
			if len(keys) > 0 { // what follows is asked for when it is its turn
				break
			}
			p.env.Metrics.ReadErrors.Inc()
			p.log.Error("a message's key can't be read, and its group waits for it", "offset", at, "err", err)
			return nil, readError(at, err)
		}
		at, bytes = e.Next().Offset, bytes+len(e.Records)
	}
	return keys, nil
}
