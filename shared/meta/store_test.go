package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

func wantCode(t *testing.T, what string, err error, code mqerr.Code) {
	t.Helper()
	if !mqerr.Is(err, code) {
		t.Errorf("%s: %v; want %s", what, err, code)
	}
}

func TestTopics(t *testing.T) {
	s, ctx := testStore(t)
	for _, n := range []string{"a", "b", "c"} {
		r, err := s.Register(ctx, NodeKey(n), Node{Name: n}, 2e9, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
	}
	first, err := s.CreateTopic(ctx, "orders", mq.DefaultTopicSettings())
	if err != nil {
		t.Fatal(err)
	}
	if first.Settings.Replicas != 3 || first.Settings.Quorum != 2 || first.Route != 1 || first.Revision == 0 {
		t.Errorf("created %+v", first)
	}
	_, err = s.CreateTopic(ctx, "orders", mq.DefaultTopicSettings())
	wantCode(t, "creating it again", err, mqerr.AlreadyExists)

	grown, err := s.UpdateTopic(ctx, "orders", first.Revision, func(x *mq.TopicSettings) { x.Partitions, x.Replicas, x.Quorum = 8, 0, 0 })
	if err != nil || grown.Route != 2 || grown.Settings.Replicas != 3 || grown.Settings.Quorum != 2 || grown.ID != first.ID {
		t.Errorf("grown to %+v, %v", grown, err)
	}
	_, err = s.UpdateTopic(ctx, "orders", first.Revision, func(x *mq.TopicSettings) { x.Partitions = 9 })
	wantCode(t, "updating what changed", err, mqerr.PreconditionFailed)
	_, err = s.UpdateTopic(ctx, "orders", 0, func(x *mq.TopicSettings) { x.Partitions = 4 })
	wantCode(t, "shrinking", err, mqerr.ValidationFailed)
	same, err := s.UpdateTopic(ctx, "orders", 0, func(*mq.TopicSettings) {})
	if err != nil || same.Revision != grown.Revision {
		t.Errorf("an update that changes nothing: %+v, %v", same, err)
	}
	wantCode(t, "deleting what changed", s.DeleteTopic(ctx, "orders", first.Revision), mqerr.PreconditionFailed)
	if err := s.DeleteTopic(ctx, "orders", grown.Revision); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "deleting it again", s.DeleteTopic(ctx, "orders", 0), mqerr.TopicNotFound)
	_, err = s.GetTopic(ctx, "orders")
	wantCode(t, "reading it", err, mqerr.TopicNotFound)
	_, err = s.CreateGroup(ctx, first.ID, "g", mq.DefaultGroupSettings())
	wantCode(t, "a group of it", err, mqerr.TopicNotFound)
	wantCode(t, "partitions of it", s.CreatePartitions(ctx, first.ID, 0, 1, 1, 1), mqerr.TopicNotFound)

	again, err := s.CreateTopic(ctx, "orders", mq.DefaultTopicSettings())
	if err != nil || again.ID <= first.ID {
		t.Errorf("created anew: %+v, %v", again, err)
	}
}

func TestGroups(t *testing.T) {
	s, ctx := testStore(t)
	g, err := s.CreateGroup(ctx, 1, "g", mq.DefaultGroupSettings())
	if err != nil || g.Version != 1 || g.Started {
		t.Fatalf("%+v, %v", g, err)
	}
	_, err = s.CreateGroup(ctx, 1, "g", mq.DefaultGroupSettings())
	wantCode(t, "creating it again", err, mqerr.AlreadyExists)
	if g, err = s.MarkStarted(ctx, 1, "g", g.ID); err != nil || !g.Started || g.Version != 1 {
		t.Errorf("started: %+v, %v", g, err)
	}
	paused, err := s.UpdateGroup(ctx, 1, "g", g.Revision, func(g *Group) { g.Paused = true })
	if err != nil || paused.Version != 2 || !paused.Started {
		t.Errorf("paused: %+v, %v", paused, err)
	}
	_, err = s.UpdateGroup(ctx, 1, "g", g.Revision, func(g *Group) { g.Paused = false })
	wantCode(t, "updating what changed", err, mqerr.PreconditionFailed)
	if _, err := s.DeleteGroup(ctx, 1, "g", 0); err != nil {
		t.Fatal(err)
	}
	_, err = s.DeleteGroup(ctx, 1, "g", 0)
	wantCode(t, "deleting it again", err, mqerr.GroupNotFound)
	again, err := s.CreateGroup(ctx, 1, "g", mq.DefaultGroupSettings())
	if err != nil || again.ID <= g.ID {
		t.Errorf("created anew: %+v, %v", again, err)
	}
	_, err = s.MarkStarted(ctx, 1, "g", g.ID)
	wantCode(t, "starting the old one", err, mqerr.GroupNotFound)
}

func TestIDsAreNeverGivenTwice(t *testing.T) {
	s, ctx := testStore(t)
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 5 {
				first, err := s.NextIDs(ctx, SegmentIDs, 3)
				mu.Lock()
				for i := first; i < first+3 && err == nil; i++ {
					if seen[i] || i == 0 {
						t.Errorf("id %d was given before", i)
					}
					seen[i] = true
				}
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	if len(seen) == 0 {
		t.Error("no ids at all")
	}
}

// unsureKV carries transactions out and answers, to the next one that writes key, that nobody knows.
type unsureKV struct {
	clientv3.KV
	key string
}

type unsureTxn struct {
	clientv3.Txn
	kv   *unsureKV
	hits bool
}

func (k *unsureKV) Txn(ctx context.Context) clientv3.Txn {
	return &unsureTxn{Txn: k.KV.Txn(ctx), kv: k}
}

func (t *unsureTxn) If(c ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(c...)
	return t
}

func (t *unsureTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, o := range ops {
		t.hits = t.hits || t.kv.key != "" && string(o.KeyBytes()) == t.kv.key
	}
	t.Txn = t.Txn.Then(ops...)
	return t
}

func (t *unsureTxn) Commit() (*clientv3.TxnResponse, error) {
	r, err := t.Txn.Commit()
	if t.hits {
		t.kv.key = ""
		return nil, errors.New("etcdserver: request timed out")
	}
	return r, err
}

// TestMuseum16UnknownOutcomeIsReadAgain: each write is carried out and reported as timed out; nothing happens
// twice.
func TestMuseum16UnknownOutcomeIsReadAgain(t *testing.T) {
	_, c := testEtcd(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kv := &unsureKV{KV: c.KV}
	c.KV = kv
	s := New(c, quiet())
	unsure := func(key string, f func()) {
		t.Helper()
		kv.key = key
		if f(); kv.key != "" {
			t.Errorf("%s was not written", key)
		}
	}

	first, err := s.NextID(ctx, TopicIDs)
	if err != nil {
		t.Fatal(err)
	}
	unsure("/ids/topics", func() {
		if second, err := s.NextID(ctx, TopicIDs); err != nil || second != first+2 {
			t.Errorf("id %d after %d (%v); the one of unknown outcome is burnt", second, first, err)
		}
	})
	unsure("/cluster", func() {
		cluster, err := s.EnsureCluster(ctx)
		if id, err2 := s.ClusterID(ctx); err != nil || err2 != nil || id != cluster.ID {
			t.Errorf("cluster %v, then %v (%v, %v)", cluster, id, err, err2)
		}
	})
	settings := mq.DefaultTopicSettings()
	settings.Replicas, settings.Quorum = 1, 1
	unsure("/topics/orders", func() {
		topic, err := s.CreateTopic(ctx, "orders", settings)
		if have, err2 := s.GetTopic(ctx, "orders"); err != nil || err2 != nil || have.ID != topic.ID || have.Revision != topic.Revision {
			t.Errorf("created %+v (%v), there is %+v (%v)", topic, err, have, err2)
		}
	})
	unsure("/topics/orders", func() {
		topic, err := s.UpdateTopic(ctx, "orders", 0, func(x *mq.TopicSettings) { x.Partitions = 9 })
		if err != nil || topic.Settings.Partitions != 9 || topic.Route != 2 {
			t.Errorf("updated to %+v, %v", topic, err)
		}
	})
	unsure("/topics/orders", func() {
		topic, err := s.GetTopic(ctx, "orders")
		if err != nil {
			t.Fatal(err)
		}
		// With a condition, whose change is there can't be told: the caller learns that.
		_, err = s.UpdateTopic(ctx, "orders", topic.Revision, func(x *mq.TopicSettings) { x.Partitions = 10 })
		wantCode(t, "a conditional update", err, mqerr.MetadataUnavailable)
	})
	topic, err := s.GetTopic(ctx, "orders")
	if err != nil || topic.Route != 3 {
		t.Fatalf("%+v, %v", topic, err)
	}
	unsure(groupKey(topic.ID, "g"), func() {
		if g, err := s.CreateGroup(ctx, topic.ID, "g", mq.DefaultGroupSettings()); err != nil || g.Version != 1 {
			t.Errorf("group %+v, %v", g, err)
		}
	})
	unsure(groupKey(topic.ID, "g"), func() {
		if g, err := s.UpdateGroup(ctx, topic.ID, "g", 0, func(g *Group) { g.Paused = true }); err != nil || g.Version != 2 {
			t.Errorf("group %+v, %v; one change is one version", g, err)
		}
	})
	unsure("/topics/orders", func() {
		if err := s.DeleteTopic(ctx, "orders", 0); err != nil {
			t.Errorf("deleted: %v", err)
		}
	})
}

func TestConnectReportsEtcdThatIsAway(t *testing.T) {
	e, _ := testEtcd(t)
	addr := e.Clients[0].Addr().String()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := Connect(ctx, []string{addr}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Alive(ctx); err != nil {
		t.Fatal(err)
	}
	e.Server.HardStop()
	over, end := context.WithCancel(ctx)
	end()
	wantCode(t, "reading", s.Alive(over), mqerr.MetadataUnavailable)
	if _, err := Connect(ctx, nil, quiet()); err == nil {
		t.Error("no endpoints are taken")
	}
}

// A topic has its most groups, whoever asks for one more; deleted ones make room.
func TestGroupsOfATopicAreBounded(t *testing.T) {
	s, ctx := testStore(t)
	var ops []clientv3.Op
	put := func(name string, deleted bool) {
		value, err := encode(Group{ID: mq.GroupID(len(ops) + 1), Topic: 1, Name: name, Version: 1, Deleted: deleted})
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, clientv3.OpPut(groupKey(1, name), value))
	}
	for i := range mq.MaxGroups {
		put(fmt.Sprintf("g%d", i), false)
		put(fmt.Sprintf("gone%d", i), true)
	}
	for ops := range slices.Chunk(ops, 100) {
		if ok, _, err := s.commit(ctx, "test", nil, ops...); !ok || err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.CreateGroup(ctx, 1, "one-more", mq.DefaultGroupSettings())
	wantCode(t, "one more than the most", err, mqerr.ValidationFailed)
	if r, err := s.get(ctx, groupKey(1, "one-more"), &Group{}); r != 0 || err != nil {
		t.Errorf("its key is there: %d %v", r, err)
	}
	_, err = s.CreateGroup(ctx, 1, "g7", mq.DefaultGroupSettings())
	wantCode(t, "one that is there", err, mqerr.AlreadyExists)
	if _, err := s.CreateGroup(ctx, 2, "one-more", mq.DefaultGroupSettings()); err != nil {
		t.Errorf("in another topic: %v", err)
	}
	if _, err := s.DeleteGroup(ctx, 1, "g7", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateGroup(ctx, 1, "one-more", mq.DefaultGroupSettings()); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}
