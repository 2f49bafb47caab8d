package meta

import (
	"context"
	"reflect"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// DefaultRedundancy is how many replicas and acknowledgements a topic gets whose owner says nothing, in a
// cluster of n log nodes; (0, 0) with none.
func DefaultRedundancy(n int) (replicas, quorum int) {
	switch {
	case n >= 3:
		return 3, 2
	default:
		return n, n
	}
}

// GetTopic reads a topic linearizably: TopicNotFound if there is none, or it is deleted.
func (s *Store) GetTopic(ctx context.Context, name string) (Topic, error) {
	t, err := s.readTopic(ctx, name)
	if err == nil && (t.Revision == 0 || t.Deleted) {
		return Topic{}, mqerr.New(mqerr.TopicNotFound, "topic %q", name)
	}
	return t, err
}

func (s *Store) readTopic(ctx context.Context, name string) (t Topic, err error) {
	t.Revision, err = s.get(ctx, topicKey(name), &t)
	return t, err
}

// CreateTopic makes a topic: AlreadyExists if a topic of this name lives. Where settings leave replicas open
// they are fixed now by the number of log nodes that are alive. The controller makes the partitions; WaitFor on a
// View says when they are led. Names and settings must be checked by the caller (mq.CheckName, Validate).
func (s *Store) CreateTopic(ctx context.Context, name string, settings mq.TopicSettings) (Topic, error) {
	if err := s.resolve(ctx, &settings); err != nil {
		return Topic{}, err
	}
	id, err := s.NextID(ctx, TopicIDs)
	if err != nil {
		return Topic{}, err
	}
	want := Topic{Name: name, ID: mq.TopicID(id), Settings: settings, Route: 1, Created: time.Now().UTC()}
	value, err := encode(want)
	if err != nil {
		return Topic{}, err
	}
	key := topicKey(name)
	for range maxSwaps {
		have, err := s.readTopic(ctx, name)
		if err != nil {
			return Topic{}, err
		}
		if have.ID == want.ID && have.Revision != 0 {
			return have, nil // an earlier try of unknown outcome was carried out
		}
		if have.Revision != 0 && !have.Deleted {
			return Topic{}, mqerr.New(mqerr.AlreadyExists, "topic %q", name)
		}
		var ok bool
		ok, want.Revision, err = s.commit(ctx, "creating topic "+name, []clientv3.Cmp{unchanged(key, have.Revision), unchanged(keyRecovering, 0)}, clientv3.OpPut(key, value))
		if ok {
			return want, nil
		}
		if err != nil && ctx.Err() != nil {
			return Topic{}, err
		}
		if waits, err := s.Recovering(ctx); err == nil && waits {
			return Topic{}, errRecovering()
		}
	}
	return Topic{}, mqerr.New(mqerr.MetadataUnavailable, "creating topic %q: no try in %d came through", name, maxSwaps)
}

// resolve fixes open redundancy by the number of live nodes; with none it stays open, and the controller
// decides when there are some.
func (s *Store) resolve(ctx context.Context, t *mq.TopicSettings) error {
	if t.Replicas == 0 {
		r, err := s.read(ctx, "counting nodes", prefixNodes, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		t.Replicas, t.Quorum = DefaultRedundancy(int(r.Count))
	}
	if t.Quorum == 0 && t.Replicas > 0 {
		t.Quorum = t.Replicas/2 + 1
	}
	return nil
}

// UpdateTopic changes a topic's settings: change is called with what is there, perhaps more than once.
// ifRevision must be the topic's Revision (else PreconditionFailed), or 0 for whatever is there. Partitions can only grow
// (ValidationFailed); replicas left at 0 stay as they are.
func (s *Store) UpdateTopic(ctx context.Context, name string, ifRevision int64, change func(*mq.TopicSettings)) (Topic, error) {
	key := topicKey(name)
	for range maxSwaps {
		have, err := s.GetTopic(ctx, name)
		if err != nil {
			return Topic{}, err
		}
		if ifRevision != 0 && ifRevision != have.Revision {
			return Topic{}, mqerr.New(mqerr.PreconditionFailed, "topic %q is at revision %d, not %d", name, have.Revision, ifRevision)
		}
		want := have
		change(&want.Settings)
		if want.Settings.Replicas == 0 {
			want.Settings.Replicas, want.Settings.Quorum = have.Settings.Replicas, have.Settings.Quorum
		}
		if want.Settings.Quorum == 0 && want.Settings.Replicas > 0 {
			want.Settings.Quorum = want.Settings.Replicas/2 + 1
		}
		if want.Settings.Partitions < have.Settings.Partitions {
			e := mqerr.New(mqerr.ValidationFailed, "topic %q has %d partitions; they can only grow", name, have.Settings.Partitions)
			e.Fields = []mqerr.Field{{Pointer: "/partitions", Detail: "must not be less than before"}}
			return Topic{}, e
		}
		if reflect.DeepEqual(want.Settings, have.Settings) {
			return have, nil // also what an earlier try of unknown outcome left
		}
		if want.Settings.Partitions != have.Settings.Partitions {
			want.Route++
		}
		value, err := encode(want)
		if err != nil {
			return Topic{}, err
		}
		var ok bool
		ok, want.Revision, err = s.commit(ctx, "updating topic "+name, []clientv3.Cmp{unchanged(key, have.Revision)}, clientv3.OpPut(key, value))
		if ok {
			return want, nil
		}
		if err != nil && (ctx.Err() != nil || ifRevision != 0) {
			return Topic{}, err // after an unknown outcome the revision can't tell whose change is there
		}
	}
	return Topic{}, mqerr.New(mqerr.MetadataUnavailable, "updating topic %q: no try in %d came through", name, maxSwaps)
}

// DeleteTopic marks a topic as deleted and leaves a tombstone under its id: nodes remove what they
// hold of it, the controller removes its keys. That it was deleted is known for ever (FoldTombstones): a node may have been
// away for as long, and a missing key proves nothing. ifRevision as in UpdateTopic.
func (s *Store) DeleteTopic(ctx context.Context, name string, ifRevision int64) error {
	key := topicKey(name)
	for try := range maxSwaps {
		have, err := s.readTopic(ctx, name)
		if err != nil {
			return err
		}
		if have.Revision == 0 || have.Deleted {
			if try > 0 && have.Deleted {
				return nil // an earlier try of unknown outcome was carried out, or somebody else's
			}
			return mqerr.New(mqerr.TopicNotFound, "topic %q", name)
		}
		if ifRevision != 0 && ifRevision != have.Revision {
			return mqerr.New(mqerr.PreconditionFailed, "topic %q is at revision %d, not %d", name, have.Revision, ifRevision)
		}
		have.Deleted, have.DeletedAt = true, time.Now().UTC()
		value, err := encode(have)
		if err != nil {
			return err
		}
		ok, _, err := s.commit(ctx, "deleting topic "+name, []clientv3.Cmp{unchanged(key, have.Revision)},
			clientv3.OpPut(key, value), clientv3.OpPut(deletedKey(have.ID), value))
		if ok {
			return nil
		}
		if err != nil && ctx.Err() != nil {
			return err
		}
	}
	return mqerr.New(mqerr.MetadataUnavailable, "deleting topic %q: no try in %d came through", name, maxSwaps)
}

// ForgetTopic removes the partition, segment, group and webhook keys of a deleted topic; the tombstone stays.
// Controller only.
func (s *Store) ForgetTopic(ctx context.Context, id mq.TopicID) error {
	_, _, err := s.commit(ctx, "removing the keys of a deleted topic",
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(deletedKey(id)), ">", 0)},
		clientv3.OpDelete(partitionsPrefix(id), clientv3.WithPrefix()),
		clientv3.OpDelete(segmentsOfTopic(id), clientv3.WithPrefix()),
		clientv3.OpDelete(groupsPrefix(id), clientv3.WithPrefix()),
		clientv3.OpDelete(webhooksPrefix(id), clientv3.WithPrefix()))
	return err
}
