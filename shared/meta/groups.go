package meta

import (
	"context"
	"reflect"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// GetGroup reads a group linearizably: GroupNotFound if there is none, or it is deleted.
func (s *Store) GetGroup(ctx context.Context, topic mq.TopicID, name string) (Group, error) {
	g, err := s.readGroup(ctx, topic, name)
	if err == nil && (g.Revision == 0 || g.Deleted) {
		return Group{}, mqerr.New(mqerr.GroupNotFound, "group %q of this topic", name)
	}
	return g, err
}

// OrderedByKey reads linearizably which groups of a topic order by key, by name: their keys must stay in their partitions.
func (s *Store) OrderedByKey(ctx context.Context, topic mq.TopicID) ([]string, error) {
	var out []string
	err := s.eachGroup(ctx, topic, func(g *Group) {
		if g.Settings.Ordering == mq.OrderingKey {
			out = append(out, g.Name)
		}
	})
	return out, err
}

func (s *Store) readGroup(ctx context.Context, topic mq.TopicID, name string) (g Group, err error) {
	g.Revision, err = s.get(ctx, groupKey(topic, name), &g)
	return g, err
}

// CreateGroup makes a group that is not started yet: AlreadyExists if one of this name lives, TopicNotFound
// if the topic is deleted, ValidationFailed if it has its most groups. The caller then tells every partition's leader (EnsureGroup) and calls MarkStarted.
func (s *Store) CreateGroup(ctx context.Context, topic mq.TopicID, name string, settings mq.GroupSettings) (Group, error) {
	id, err := s.NextID(ctx, GroupIDs)
	if err != nil {
		return Group{}, err
	}
	want := Group{ID: mq.GroupID(id), Topic: topic, Name: name, Version: 1, Settings: settings, Created: time.Now().UTC()}
	for range maxSwaps {
		have, err := s.readGroup(ctx, topic, name)
		if err != nil {
			return Group{}, err
		}
		if have.Revision != 0 && have.ID == want.ID {
			return have, nil // an earlier try of unknown outcome was carried out
		}
		if have.Revision != 0 && !have.Deleted {
			return Group{}, mqerr.New(mqerr.AlreadyExists, "group %q of this topic", name)
		}
		if err := s.roomForGroup(ctx, topic); err != nil {
			return Group{}, err
		}
		ok, err := s.putGroup(ctx, &want, have.Revision)
		if ok {
			return want, nil
		}
		if err != nil && (ctx.Err() != nil || mqerr.Is(err, mqerr.TopicNotFound)) {
			return Group{}, err
		}
	}
	return Group{}, mqerr.New(mqerr.MetadataUnavailable, "creating group %q: no try in %d came through", name, maxSwaps)
}

// roomForGroup counts the groups of a topic that live. Whoever receives makes a group, of whatever name, and one that the leaders refuse
// because they have their most would leave its key behind. Two that come at the bound at once may both find room: then
// the leaders decide.
func (s *Store) roomForGroup(ctx context.Context, topic mq.TopicID) error {
	r, err := s.read(ctx, "counting groups", groupsPrefix(topic), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || r.Count < mq.MaxGroups {
		return err
	}
	live := 0
	if err := s.eachGroup(ctx, topic, func(*Group) { live++ }); err != nil || live < mq.MaxGroups {
		return err
	}
	return mqerr.New(mqerr.ValidationFailed, "the topic has %d groups, which is the most", live)
}

// eachGroup reads the groups of a topic linearizably and calls f with those that are not deleted, by name.
func (s *Store) eachGroup(ctx context.Context, topic mq.TopicID, f func(*Group)) error {
	r, err := s.read(ctx, "reading the groups of a topic", groupsPrefix(topic), clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range r.Kvs {
		var g Group
		if err := decode(kv, &g); err != nil {
			return err
		}
		if !g.Deleted {
			f(&g)
		}
	}
	return nil
}

// putGroup writes g if its key is at revision and the topic is not deleted, and sets g.Revision.
func (s *Store) putGroup(ctx context.Context, g *Group, revision int64) (bool, error) {
	value, err := encode(g)
	if err != nil {
		return false, err
	}
	key, tomb := groupKey(g.Topic, g.Name), deletedKey(g.Topic)
	ok, at, err := s.commit(ctx, "writing group "+g.Name, []clientv3.Cmp{unchanged(key, revision), unchanged(tomb, 0)}, clientv3.OpPut(key, value))
	if err != nil {
		return false, err
	}
	if ok {
		g.Revision = at
		return true, nil
	}
	var t Topic
	if r, err := s.get(ctx, tomb, &t); err == nil && r != 0 {
		return false, mqerr.New(mqerr.TopicNotFound, "topic %q is deleted", t.Name)
	}
	return false, nil
}

// UpdateGroup changes a group's settings or pause: change is called with what is there, perhaps more than
// once, and the version rises if it changed something. ifRevision must be the group's Revision (else
// PreconditionFailed), or 0 for whatever is there. The caller then tells every partition's leader (EnsureGroup).
func (s *Store) UpdateGroup(ctx context.Context, topic mq.TopicID, name string, ifRevision int64, change func(*Group)) (Group, error) {
	for range maxSwaps {
		have, err := s.GetGroup(ctx, topic, name)
		if err != nil {
			return Group{}, err
		}
		if ifRevision != 0 && ifRevision != have.Revision {
			return Group{}, mqerr.New(mqerr.PreconditionFailed, "group %q is at revision %d, not %d", name, have.Revision, ifRevision)
		}
		want := have
		change(&want)
		want.ID, want.Topic, want.Name = have.ID, have.Topic, have.Name
		if reflect.DeepEqual(want, have) {
			return have, nil // also what an earlier try of unknown outcome left
		}
		if want.Paused != have.Paused || !reflect.DeepEqual(want.Settings, have.Settings) {
			want.Version = have.Version + 1
		}
		ok, err := s.putGroup(ctx, &want, have.Revision)
		if ok {
			return want, nil
		}
		if err != nil && (ctx.Err() != nil || ifRevision != 0 || mqerr.Is(err, mqerr.TopicNotFound)) {
			return Group{}, err
		}
	}
	return Group{}, mqerr.New(mqerr.MetadataUnavailable, "updating group %q: no try in %d came through", name, maxSwaps)
}

// MarkStarted records that every partition knows where the group starts. GroupNotFound if the group of
// this id is gone meanwhile.
func (s *Store) MarkStarted(ctx context.Context, topic mq.TopicID, name string, id mq.GroupID) (Group, error) {
	return s.changeExact(ctx, topic, name, id, func(g *Group) { g.Started = true })
}

// DeleteGroup marks a group as deleted. The caller then tells every partition's leader (DeleteGroup); a leader that
// was not told finds out from the key. ifRevision as in UpdateGroup.
func (s *Store) DeleteGroup(ctx context.Context, topic mq.TopicID, name string, ifRevision int64) (Group, error) {
	g, err := s.GetGroup(ctx, topic, name)
	if err != nil {
		return Group{}, err
	}
	if ifRevision != 0 && ifRevision != g.Revision {
		return Group{}, mqerr.New(mqerr.PreconditionFailed, "group %q is at revision %d, not %d", name, g.Revision, ifRevision)
	}
	return s.changeExact(ctx, topic, name, g.ID, func(g *Group) { g.Deleted = true })
}

// changeExact changes the group that has this id, and no later one of the same name.
func (s *Store) changeExact(ctx context.Context, topic mq.TopicID, name string, id mq.GroupID, change func(*Group)) (Group, error) {
	for range maxSwaps {
		g, err := s.readGroup(ctx, topic, name)
		if err != nil {
			return Group{}, err
		}
		if g.Revision == 0 || g.ID != id {
			return Group{}, mqerr.New(mqerr.GroupNotFound, "group %q was deleted meanwhile", name)
		}
		want := g
		change(&want)
		if reflect.DeepEqual(want, g) {
			return g, nil
		}
		if g.Deleted {
			return Group{}, mqerr.New(mqerr.GroupNotFound, "group %q was deleted meanwhile", name)
		}
		ok, err := s.putGroup(ctx, &want, g.Revision)
		if ok {
			return want, nil
		}
		if err != nil && (ctx.Err() != nil || mqerr.Is(err, mqerr.TopicNotFound)) {
			return Group{}, err
		}
	}
	return Group{}, mqerr.New(mqerr.MetadataUnavailable, "changing group %q: no try in %d came through", name, maxSwaps)
}
