package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// keyRecovering is there from the moment an empty etcd was given the id of a cluster whose metadata was lost until the
// metadata is rebuilt from what the log nodes hold. Meanwhile no topic is made: its id could be that of an old one.
const keyRecovering = "/recovering"

// KV is one key as it is stored.
type KV struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Mirror is a copy of the configuration in etcd that a log node keeps on its disk, for the case that etcd's own data is
// lost: all keys without a lease, but for those that only etcd can know (who is there, wishes, counters) and the
// chains of partitions, which the nodes' segments tell more exactly. Of the heads it has those with holes.
type Mirror struct {
	Cluster  string    `json:"cluster"`
	Revision int64     `json:"revision"` // of etcd, as of which it is
	At       time.Time `json:"at"`
	Keys     []KV      `json:"keys"`
	Heads    []mq.Head `json:"heads,omitempty"`
}

// notMirrored are the prefixes that lie between those of the configuration, in the order of keys.
var notMirrored = [...]string{prefixBoots, keyCluster, keyController, prefixCoordinators, prefixForces, prefixGateways, prefixIDs,
	prefixMembers, prefixMoves, prefixNodes, prefixPartitions, keyRecovering, prefixReports, prefixSegments}

// ReadMirror reads the configuration as of one revision. heads are those of the reader's view.
func (s *Store) ReadMirror(ctx context.Context, cluster string, heads []mq.Head) (*Mirror, error) {
	m := &Mirror{Cluster: cluster, At: time.Now().UTC()}
	from := "/"
	for i := 0; i <= len(notMirrored); i++ {
		to := "0" // behind every key that begins with a slash
		if i < len(notMirrored) {
			to = notMirrored[i]
		}
		if err := s.mirrorRange(ctx, m, from, to); err != nil {
			return nil, err
		}
		if i < len(notMirrored) {
			from = clientv3.GetPrefixRangeEnd(to)
		}
	}
	for _, h := range heads {
		if len(h.Holes) > 0 {
			m.Heads = append(m.Heads, h)
		}
	}
	return m, nil
}

func (s *Store) mirrorRange(ctx context.Context, m *Mirror, from, to string) error {
	for from < to {
		options := []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithLimit(sealedPage)}
		if m.Revision != 0 {
			options = append(options, clientv3.WithRev(m.Revision))
		}
		r, err := s.read(ctx, "mirroring the configuration", from, options...)
		if err != nil {
			return err
		}
		if m.Revision == 0 {
			m.Revision = r.Header.Revision
		}
		for _, kv := range r.Kvs {
			if kv.Lease == 0 {
				m.Keys = append(m.Keys, KV{string(kv.Key), kv.Value})
			}
		}
		if !r.More || len(r.Kvs) == 0 {
			return nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
	return nil
}

// RecoverCluster gives an etcd without any topic the id of a cluster whose metadata was lost. Controller only. With the
// same id there already it does nothing; it is an error if another cluster has begun to live here.
func (s *Store) RecoverCluster(ctx context.Context, id string) error {
	value, err := encode(Cluster{ID: id, Created: time.Now().UTC()})
	if err != nil {
		return err
	}
	for range maxSwaps {
		var have Cluster
		revision, err := s.get(ctx, keyCluster, &have)
		if err != nil {
			return err
		}
		if have.ID == id {
			return nil
		}
		ok, _, err := s.commit(ctx, "taking up cluster "+id,
			[]clientv3.Cmp{unchanged(keyCluster, revision), unchanged(prefixIDs+string(TopicIDs), 0)},
			clientv3.OpPut(keyCluster, value), clientv3.OpPut(keyRecovering, value))
		if ok {
			return nil
		}
		if err == nil && revision != 0 {
			return fmt.Errorf("meta: etcd holds cluster %s, which had topics: it can't take up cluster %s", have.ID, id)
		}
	}
	return mqerr.New(mqerr.MetadataUnavailable, "taking up cluster %s: no try in %d came through", id, maxSwaps)
}

// Recovering says whether the cluster waits for its metadata to be rebuilt.
func (s *Store) Recovering(ctx context.Context) (bool, error) {
	var ignored json.RawMessage
	revision, err := s.get(ctx, keyRecovering, &ignored)
	return revision != 0, err
}

// CheckRecovering is NothingToRecover in a cluster that does not wait for its metadata to be rebuilt.
func (s *Store) CheckRecovering(ctx context.Context) error {
	waits, err := s.Recovering(ctx)
	if err == nil && !waits {
		err = mqerr.New(mqerr.NothingToRecover, "the cluster has its metadata: its coordinators were not started with --recover-cluster, "+
			"or what was lost is rebuilt already")
	}
	return err
}

// errRecovering is the answer to what must wait for the rebuild.
func errRecovering() error {
	return mqerr.New(mqerr.MetadataUnavailable, "the cluster's metadata was lost and is not rebuilt yet: splashdam cluster rebuild-metadata")
}

// Restored is what a rebuild writes.
type Restored struct {
	Keys   []KV         // the configuration
	Heads  []mq.Head    // of all partitions
	Sealed []mq.Segment // those that have a key of their own
	Last   map[Kind]uint64
}

// restoreAtOnce is how many keys of a rebuild are written in one transaction.
const restoreAtOnce = 50

// Restore writes rebuilt metadata into a cluster that is recovering, and ends that. It may be called again after a
// failure: what is there already is left as it is, since the controller may have gone on from it. Topics come last: before a
// topic is there, nobody touches its partitions.
func (s *Store) Restore(ctx context.Context, r *Restored) error {
	if err := s.CheckRecovering(ctx); err != nil {
		return err
	}
	var all, topics []KV
	add := func(key string, v any) error {
		text, err := encode(v)
		all = append(all, KV{key, []byte(text)})
		return err
	}
	for kind, last := range r.Last {
		if err := add(prefixIDs+string(kind), last); err != nil {
			return err
		}
	}
	for i := range r.Sealed {
		if err := add(segmentKey(r.Sealed[i].Partition, r.Sealed[i].Number), r.Sealed[i]); err != nil {
			return err
		}
	}
	for i := range r.Heads {
		if err := add(partitionKey(r.Heads[i].Partition), r.Heads[i]); err != nil {
			return err
		}
	}
	for _, kv := range r.Keys {
		if isTopic(kv.Key) {
			topics = append(topics, kv)
		} else {
			all = append(all, kv)
		}
	}
	if err := s.restore(ctx, append(all, topics...)); err != nil {
		return err
	}
	_, _, err := s.commit(ctx, "ending the recovery", nil, clientv3.OpDelete(keyRecovering))
	return err
}

func isTopic(key string) bool {
	return len(key) > len(prefixTopics) && key[:len(prefixTopics)] == prefixTopics
}

// restore writes keys in order where they are missing. A receipt's secret and a counter that a new controller made
// already are replaced: nobody has used them.
func (s *Store) restore(ctx context.Context, list []KV) error {
	for len(list) > 0 {
		n := min(len(list), restoreAtOnce)
		var gets []clientv3.Op
		for _, kv := range list[:n] {
			gets = append(gets, clientv3.OpGet(kv.Key, clientv3.WithKeysOnly()))
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		have, err := s.c.Txn(call).Then(gets...).Commit()
		cancel()
		if err != nil {
			return unavailable("reading what is rebuilt", err)
		}
		puts := []clientv3.Op{}
		for i, kv := range list[:n] {
			fresh := len(have.Responses[i].GetResponseRange().Kvs) == 0
			if fresh || kv.Key == receiptKey(1) {
				puts = append(puts, clientv3.OpPut(kv.Key, string(kv.Value)))
			}
		}
		if len(puts) > 0 {
			ok, _, err := s.commit(ctx, "rebuilding metadata",
				[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(keyRecovering), ">", 0)}, puts...)
			if err != nil {
				return err
			}
			if !ok {
				return mqerr.New(mqerr.NothingToRecover, "somebody else has ended the recovery")
			}
		}
		list = list[n:]
	}
	return nil
}

// TopicOf reads the topic that a mirrored key holds; false if it is none, or the topic is deleted.
func TopicOf(kv KV) (Topic, bool) {
	var t Topic
	if !isTopic(kv.Key) || json.Unmarshal(kv.Value, &t) != nil {
		return t, false
	}
	return t, !t.Deleted
}

// GroupOf reads the group that a mirrored key holds; false if it is none.
func GroupOf(kv KV) (Group, bool) {
	var g Group
	if len(kv.Key) <= len(prefixGroups) || kv.Key[:len(prefixGroups)] != prefixGroups || json.Unmarshal(kv.Value, &g) != nil {
		return g, false
	}
	return g, g.ID != 0
}

// tombstoneID reads the id of a deleted topic off the key of its tombstone.
func tombstoneID(key string) (mq.TopicID, bool) {
	id, ok := strings.CutPrefix(key, prefixDeleted)
	n, err := strconv.ParseUint(id, 10, 64)
	return mq.TopicID(n), ok && err == nil
}

// TopicKV is the key of a topic.
func TopicKV(t Topic) (KV, error) {
	text, err := encode(t)
	return KV{topicKey(t.Name), []byte(text)}, err
}
