package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
)

// TopicSet is a set of topics as ascending runs of their ids, [first, last], which is how it is stored. Ids come from a counter,
// so a set of deleted topics has about as many runs as there are living ones between them. The zero value is empty.
type TopicSet struct{ runs [][2]mq.TopicID }

// NewTopicSet is the set of these topics.
func NewTopicSet(ids ...mq.TopicID) TopicSet { return TopicSet{}.With(ids...) }

// Has says whether a topic is in the set.
func (s TopicSet) Has(id mq.TopicID) bool {
	i := sort.Search(len(s.runs), func(i int) bool { return s.runs[i][1] >= id })
	return i < len(s.runs) && s.runs[i][0] <= id
}

// With is a set with these topics, too.
func (s TopicSet) With(ids ...mq.TopicID) TopicSet {
	all := slices.Clone(s.runs)
	for _, id := range ids {
		all = append(all, [2]mq.TopicID{id, id})
	}
	slices.SortFunc(all, func(a, b [2]mq.TopicID) int {
		if a[0] < b[0] {
			return -1
		}
		return 1
	})
	var out [][2]mq.TopicID
	for _, r := range all {
		if n := len(out); n > 0 && r[0] <= out[n-1][1]+1 {
			out[n-1][1] = max(out[n-1][1], r[1])
			continue
		}
		out = append(out, r)
	}
	return TopicSet{out}
}

// Count is how many topics are in the set.
func (s TopicSet) Count() (n int64) {
	for _, r := range s.runs {
		n += int64(r[1]-r[0]) + 1
	}
	return n
}

// Last is the highest id of the set, 0 of an empty one.
func (s TopicSet) Last() mq.TopicID {
	if len(s.runs) == 0 {
		return 0
	}
	return s.runs[len(s.runs)-1][1]
}

// MarshalJSON writes the runs.
func (s TopicSet) MarshalJSON() ([]byte, error) { return json.Marshal(s.runs) }

// UnmarshalJSON reads runs, which must ascend without touching each other: nothing is removed on the word of a set that is not
// what With makes.
func (s *TopicSet) UnmarshalJSON(b []byte) error {
	var runs [][2]mq.TopicID
	if err := json.Unmarshal(b, &runs); err != nil {
		return err
	}
	for i, r := range runs {
		if r[0] > r[1] || i > 0 && (r[0] <= runs[i-1][1] || r[0]-runs[i-1][1] < 2) {
			return fmt.Errorf("meta: run %d of a set of topics is %d to %d, which does not follow", i, r[0], r[1])
		}
	}
	s.runs = runs
	return nil
}

// keyFolded is where the tombstones are that have no key of their own any more.
const keyFolded = prefixDeleted + "folded"

// maxFolded bounds the value of keyFolded. Beyond it, with some twenty thousand living topics each between two deleted ones,
// tombstones keep their own keys.
const maxFolded = 512 << 10

// foldAtOnce is how many tombstones one transaction folds; etcd takes 128 comparisons.
const foldAtOnce = 40

// FoldTombstones puts the ids of deleted topics into the one key that holds them all, and removes their tombstones and what is left
// under their names; topics are those of View.DeletedTopics, of which it takes the first few. They must have been deleted for
// much longer than any call can be under way: who writes something of a topic compares that it has no tombstone of its own.
// folded is how many it were, 0 if somebody else changed something meanwhile, or the set would grow too long. Controller only.
func (s *Store) FoldTombstones(ctx context.Context, topics []Topic) (folded int, err error) {
	topics = topics[:min(len(topics), foldAtOnce)]
	var have TopicSet
	revision, err := s.get(ctx, keyFolded, &have)
	if err != nil {
		return 0, err
	}
	ids := make([]mq.TopicID, len(topics))
	cmps, ops := []clientv3.Cmp{unchanged(keyFolded, revision)}, []clientv3.Op(nil)
	for i, t := range topics {
		ids[i] = t.ID
		cmps, ops = append(cmps, unchanged(deletedKey(t.ID), t.Revision)), append(ops, clientv3.OpDelete(deletedKey(t.ID)))
		named, err := s.readTopic(ctx, t.Name)
		if err != nil {
			return 0, err
		}
		if named.Revision != 0 && named.ID == t.ID && named.Deleted { // else the name is another topic's
			cmps, ops = append(cmps, unchanged(topicKey(t.Name), named.Revision)), append(ops, clientv3.OpDelete(topicKey(t.Name)))
		}
	}
	value, err := encode(have.With(ids...))
	if err != nil || len(value) > maxFolded {
		return 0, err
	}
	ok, _, err := s.commit(ctx, "folding tombstones", cmps, append(ops, clientv3.OpPut(keyFolded, value))...)
	if !ok {
		return 0, err
	}
	return len(topics), nil
}

// Deletions are all topics that were deleted, ever, as a view knows them.
type Deletions struct {
	single map[mq.TopicID]bool
	folded TopicSet
}

// Has says whether a topic was deleted.
func (d Deletions) Has(id mq.TopicID) bool { return d.single[id] || d.folded.Has(id) }

// Count is how many there are; it only rises.
func (d Deletions) Count() int64 { return int64(len(d.single)) + d.folded.Count() }

// Deletions are the topics that were deleted, ever.
func (v *View) Deletions() Deletions {
	return read(v, func(d *data) Deletions {
		out := Deletions{single: make(map[mq.TopicID]bool, len(d.deleted)), folded: d.folded}
		for id := range d.deleted {
			out.single[id] = true
		}
		return out
	})
}

// TombstonesOf reads the deleted topics that a mirrored key holds; false if the key is no tombstone.
func TombstonesOf(kv KV) (TopicSet, bool) {
	if kv.Key == keyFolded {
		var out TopicSet
		return out, json.Unmarshal(kv.Value, &out) == nil
	}
	id, ok := tombstoneID(kv.Key)
	return NewTopicSet(id), ok
}
