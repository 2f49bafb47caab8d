package coordinator

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// topics makes the partitions that topics want, and removes the keys of deleted topics.
func (k *controller) topics(ctx context.Context) {
	for _, t := range k.view.Topics() {
		if k.whole(&t) {
			continue
		}
		have := max(uint32(len(k.view.Heads(t.ID))), k.made[t.ID])
		if have >= t.Settings.Partitions {
			continue
		}
		replicas, quorum := t.Settings.Replicas, t.Settings.Quorum
		if h, ok := k.view.Head(mq.PartitionID{Topic: t.ID}); ok && replicas == 0 {
			replicas, quorum = h.Replicas, h.Quorum // it was fixed when the topic's first partition was made
		}
		if replicas == 0 {
			replicas, quorum = meta.DefaultRedundancy(len(k.view.Nodes()))
		}
		if quorum == 0 && replicas > 0 {
			quorum = replicas/2 + 1
		}
		if replicas == 0 {
			continue // no node yet
		}
		err := k.store.CreatePartitions(ctx, t.ID, have, t.Settings.Partitions, replicas, quorum)
		if err == nil {
			k.made[t.ID] = t.Settings.Partitions // the view shows them a little later
		} else if !mqerr.Is(err, mqerr.TopicNotFound) && ctx.Err() == nil {
			k.lookBy(time.Now().Add(idle))
			k.log.Warn("making partitions; it will be tried again", "topic", t.Name, "err", err)
		}
	}
	var gone []meta.Topic
	for _, t := range k.view.DeletedTopics() {
		delete(k.made, t.ID)
		if _, any := k.view.Head(mq.PartitionID{Topic: t.ID}); !any && len(k.view.Groups(t.ID)) == 0 {
			gone = append(gone, t)
			continue
		}
		if err := k.store.ForgetTopic(ctx, t.ID); err != nil && ctx.Err() == nil {
			k.lookBy(time.Now().Add(idle))
			k.log.Warn("removing the keys of a deleted topic; it will be tried again", "topic", t.Name, "err", err)
		}
	}
	k.fold(ctx, k.foldable(gone, time.Now()))
}

const (
	// foldAfter is how long a deleted topic has a tombstone of its own, which those who write something of the topic look at: much
	// longer than any of them can be under way.
	foldAfter = time.Hour
	// foldRest is how long this controller must have known the tombstone, which no clock on a wall has a say in: that of who deleted
	// the topic, or the own one, may be hours off. It is still longer than anybody can be under way.
	foldRest = 30 * time.Second
)

// foldable are those tombstones of topics of which nothing else is left that are old enough to be folded. It notes which there are.
func (k *controller) foldable(gone []meta.Topic, now time.Time) (old []meta.Topic) {
	known := make(map[mq.TopicID]time.Time, len(gone))
	for _, t := range gone {
		since, ok := k.tombs[t.ID]
		if !ok {
			since = now
		}
		known[t.ID] = since
		switch {
		case now.Round(0).Sub(t.DeletedAt) <= foldAfter:
		case now.Sub(since) < foldRest:
			k.lookBy(since.Add(foldRest))
		default:
			old = append(old, t)
		}
	}
	k.tombs = known
	return old
}

// fold moves the tombstones of topics that were deleted long ago into one key, a few at a time.
func (k *controller) fold(ctx context.Context, old []meta.Topic) {
	if len(old) == 0 {
		return
	}
	n, err := k.store.FoldTombstones(ctx, old)
	if err != nil && ctx.Err() == nil {
		k.log.Warn("folding the tombstones of deleted topics; it will be tried again", "err", err)
	}
	if n > 0 && n < len(old) {
		k.lookBy(time.Now().Add(idle))
	}
}

// whole says whether a topic has its partitions. They are made in order, so that the last one tells.
func (k *controller) whole(t *meta.Topic) bool {
	if t.Settings.Partitions == 0 {
		return true
	}
	_, ok := k.view.Head(mq.PartitionID{Topic: t.ID, Number: t.Settings.Partitions - 1})
	return ok
}
