package meta

import (
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// MaxOpenings is how many openings fit in one transaction (etcd's default is 128 operations).
const MaxOpenings = 40

// partitionsAtOnce is how many partition keys are made in one transaction.
const partitionsAtOnce = 100

func segmentsOfTopic(t mq.TopicID) string {
	return prefixSegments + partitionsPrefix(t)[len(prefixPartitions):]
}

// Head reads a partition's head linearizably: PartitionNotFound if its key is missing, which proves nothing about
// the partition's segments (only a tombstone of the topic does).
func (s *Store) Head(ctx context.Context, p mq.PartitionID) (h mq.Head, err error) {
	h.Revision, err = s.get(ctx, partitionKey(p), &h)
	if err == nil && h.Revision == 0 {
		err = mqerr.New(mqerr.PartitionNotFound, "partition %s", p)
	}
	return h, err
}

// Chain reads a partition's head and every sealed segment that still exists, in order, the head's Last included,
// at one revision.
func (s *Store) Chain(ctx context.Context, p mq.PartitionID) (h mq.Head, sealed []mq.Segment, err error) {
	r, err := patiently(ctx, s, "reading the chain of "+p.String(), func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.c.Txn(ctx).Then(clientv3.OpGet(partitionKey(p)), clientv3.OpGet(segmentsPrefix(p), clientv3.WithPrefix())).Commit()
	})
	if err != nil {
		return h, nil, err
	}
	heads := r.Responses[0].GetResponseRange().Kvs
	if len(heads) == 0 {
		return h, nil, mqerr.New(mqerr.PartitionNotFound, "partition %s", p)
	}
	if err := decode(heads[0], &h); err != nil {
		return h, nil, err
	}
	h.Revision = heads[0].ModRevision
	for _, kv := range r.Responses[1].GetResponseRange().Kvs {
		var seg mq.Segment
		if err := decode(kv, &seg); err != nil {
			return h, nil, err
		}
		sealed = append(sealed, seg)
	}
	if h.Last != nil {
		sealed = append(sealed, *h.Last)
	}
	return h, sealed, nil
}

// Segments reads every sealed segment of a partition that still exists, in order.
func (s *Store) Segments(ctx context.Context, p mq.PartitionID) ([]mq.Segment, error) {
	_, sealed, err := s.Chain(ctx, p)
	return sealed, err
}

// CreatePartitions writes the keys of partitions from <= n < to with an empty chain, where they are missing.
// TopicNotFound if the topic is deleted. Controller only.
func (s *Store) CreatePartitions(ctx context.Context, topic mq.TopicID, from, to uint32, replicas, quorum int) error {
	for from < to {
		n := min(to-from, partitionsAtOnce)
		ok, err := s.createPartitions(ctx, topic, from, from+n, replicas, quorum)
		for at := from; !ok && err == nil && at < from+n; at++ { // some are there: one by one
			if ok, err = s.createPartitions(ctx, topic, at, at+1, replicas, quorum); !ok && err == nil {
				_, err = s.Head(ctx, mq.PartitionID{Topic: topic, Number: at})
			}
			ok = false
		}
		if mqerr.Is(err, mqerr.PartitionNotFound) {
			return mqerr.New(mqerr.TopicNotFound, "the topic was deleted")
		}
		if err != nil {
			return err
		}
		from += n
	}
	return nil
}

// createPartitions makes all of them or none.
func (s *Store) createPartitions(ctx context.Context, topic mq.TopicID, from, to uint32, replicas, quorum int) (bool, error) {
	cmps := []clientv3.Cmp{unchanged(deletedKey(topic), 0)}
	var ops []clientv3.Op
	for n := from; n < to; n++ {
		p := mq.PartitionID{Topic: topic, Number: n}
		value, err := encode(mq.Head{Partition: p, Replicas: replicas, Quorum: quorum, Next: 1})
		if err != nil {
			return false, err
		}
		cmps = append(cmps, unchanged(partitionKey(p), 0))
		ops = append(ops, clientv3.OpPut(partitionKey(p), value))
	}
	ok, _, err := s.commit(ctx, "making partitions", cmps, ops...)
	return ok, err
}

// Opening is one change of a chain: Head is the new value, and its Revision the one that it was made
// from. Displaced is the head's former Last, which gets a key of its own when another takes its place.
type Opening struct {
	Head      mq.Head
	Displaced *mq.Segment
}

// OpenSegments carries out openings (at most MaxOpenings) in one transaction, all or none: ok is false if any
// head has changed meanwhile. With an error the outcome is unknown: read the heads again. Controller only.
func (s *Store) OpenSegments(ctx context.Context, openings []Opening) (ok bool, revision int64, err error) {
	if len(openings) > MaxOpenings {
		return false, 0, mqerr.New(mqerr.Internal, "%d openings in one transaction, at most %d", len(openings), MaxOpenings)
	}
	var cmps []clientv3.Cmp
	var ops []clientv3.Op
	for i := range openings {
		o := &openings[i]
		key := partitionKey(o.Head.Partition)
		value, err := encode(o.Head)
		if err != nil {
			return false, 0, err
		}
		cmps = append(cmps, unchanged(key, o.Head.Revision))
		ops = append(ops, clientv3.OpPut(key, value))
		if o.Displaced != nil {
			old, err := encode(o.Displaced)
			if err != nil {
				return false, 0, err
			}
			ops = append(ops, clientv3.OpPut(segmentKey(o.Displaced.Partition, o.Displaced.Number), old))
		}
	}
	return s.commit(ctx, "opening segments", cmps, ops...)
}

// DropSegments takes the sealed segments whose number is below oldest off the front of a chain (retention,
// decided by the leader). h must be as read; PreconditionFailed if the head changed meanwhile. The newest
// sealed segment (Last) can't be dropped. Returns the new head.
func (s *Store) DropSegments(ctx context.Context, h mq.Head, oldest uint64) (mq.Head, error) {
	if h.Last == nil || oldest > h.Last.Number || oldest <= h.Oldest {
		return h, mqerr.New(mqerr.Internal, "dropping segments below %d of %s, whose chain does not allow it", oldest, h.Partition)
	}
	h.Oldest = oldest
	value, err := encode(h)
	if err != nil {
		return h, err
	}
	key := partitionKey(h.Partition)
	ok, at, err := s.commit(ctx, "dropping segments of "+h.Partition.String(), []clientv3.Cmp{unchanged(key, h.Revision)},
		clientv3.OpPut(key, value),
		clientv3.OpDelete(segmentsPrefix(h.Partition), clientv3.WithRange(segmentKey(h.Partition, oldest))))
	if err == nil && !ok {
		err = mqerr.New(mqerr.PreconditionFailed, "the head of %s changed", h.Partition)
	}
	h.Revision = at
	return h, err
}

// RecordLost records that a sealed segment of the chain ends at held, and that what lies between that and its end is
// lost (rule R6). h must be as read, with its Revision, by the leader of its open segment: nobody else may judge what
// can't be found. PreconditionFailed if the head or the segment changed meanwhile. Returns the new head.
func (s *Store) RecordLost(ctx context.Context, h mq.Head, seg mq.Segment, held mq.Position, by Force) (mq.Head, error) {
	if !held.Before(seg.DataEnd()) || held.Before(seg.Base) {
		return h, mqerr.New(mqerr.Internal, "%s can't be lost from %s on, it has entries to %s", &seg, held, seg.DataEnd())
	}
	h, ok := h.Lose(mq.Hole{From: held, To: seg.DataEnd(), Segment: seg.ID, At: time.Now().UTC(), By: by.By, Node: by.Node})
	if !ok {
		return h, mqerr.New(mqerr.ValidationFailed, "partition %s has %d recorded holes, which is the most", h.Partition, mq.MaxHoles)
	}
	key := partitionKey(h.Partition)
	cmps := []clientv3.Cmp{unchanged(key, h.Revision)}
	var ops []clientv3.Op
	if h.Last == nil || h.Last.ID != seg.ID {
		var now mq.Segment
		old := segmentKey(seg.Partition, seg.Number)
		revision, err := s.get(ctx, old, &now)
		if err != nil {
			return h, err
		}
		// Who holds it may have changed without the head: then there is somebody who was not asked.
		if now.ID != seg.ID || !slices.Equal(now.Replicas, seg.Replicas) || !slices.Equal(now.Adding, seg.Adding) {
			return h, mqerr.New(mqerr.PreconditionFailed, "%s is not in the chain any more, or has other holders", &seg)
		}
		now.Held = &held
		text, err := encode(now)
		if err != nil {
			return h, err
		}
		cmps, ops = append(cmps, unchanged(old, revision)), append(ops, clientv3.OpPut(old, text))
	}
	text, err := encode(h)
	if err != nil {
		return h, err
	}
	ok, at, err := s.commit(ctx, "recording a loss in "+h.Partition.String(), cmps, append(ops, clientv3.OpPut(key, text))...)
	if err == nil && !ok {
		err = mqerr.New(mqerr.PreconditionFailed, "the head of %s changed", h.Partition)
	}
	h.Revision = at
	return h, err
}
