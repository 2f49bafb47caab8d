package meta

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// sealedPage is how many segments one read lists.
const sealedPage = 1000

// SealedSegments calls f with every sealed segment that has a key of its own, over all partitions, until f
// returns false. The newest of each partition is in its head instead. The list is read in pages and so is not of one moment.
func (s *Store) SealedSegments(ctx context.Context, f func(mq.Segment) bool) error {
	from, end := prefixSegments, clientv3.GetPrefixRangeEnd(prefixSegments)
	for {
		r, err := s.read(ctx, "listing sealed segments", from, clientv3.WithRange(end), clientv3.WithLimit(sealedPage))
		if err != nil {
			return err
		}
		for _, kv := range r.Kvs {
			var seg mq.Segment
			if err := decode(kv, &seg); err != nil {
				return err
			}
			if !f(seg) {
				return nil
			}
		}
		if !r.More || len(r.Kvs) == 0 {
			return nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

// ChangeReplicas changes who holds a sealed segment: change gets the segment as it is and returns false to leave
// it. It compares the keys that it read, so nothing that happened meanwhile is undone. PartitionNotFound and
// PreconditionFailed say that the segment is gone or changes all the time. Controller only.
func (s *Store) ChangeReplicas(ctx context.Context, p mq.PartitionID, id mq.SegmentID, number uint64, change func(*mq.Segment) bool) error {
	for range maxSwaps {
		var head mq.Head
		headRevision, err := s.get(ctx, partitionKey(p), &head)
		if err != nil {
			return err
		}
		if headRevision == 0 {
			return mqerr.New(mqerr.PartitionNotFound, "partition %s", p)
		}
		var key string
		var value any
		var cmps []clientv3.Cmp
		if last := head.Last; last != nil && last.ID == id {
			if !change(last) {
				return nil
			}
			key, value = partitionKey(p), head
			cmps = []clientv3.Cmp{unchanged(key, headRevision)}
		} else {
			var seg mq.Segment
			key = segmentKey(p, number)
			revision, err := s.get(ctx, key, &seg)
			if err != nil {
				return err
			}
			if revision == 0 || seg.ID != id {
				return mqerr.New(mqerr.PartitionNotFound, "segment %d of partition %s", id, p)
			}
			if !change(&seg) {
				return nil
			}
			value = seg
			cmps = []clientv3.Cmp{unchanged(key, revision)}
		}
		text, err := encode(value)
		if err != nil {
			return err
		}
		ok, _, err := s.commit(ctx, "changing replicas", cmps, clientv3.OpPut(key, text))
		if err == nil && ok {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
	return mqerr.New(mqerr.PreconditionFailed, "segment %d of partition %s changes all the time", id, p)
}
