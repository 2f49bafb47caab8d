package meta

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// kind is one prefix of keys in a view: how a key's value goes into the data and out of it. set is called with
// the rest of the key behind the prefix and must change nothing when it fails.
type kind struct {
	prefix string
	exact  bool // one key, not a prefix
	set    func(rest string, value []byte, revision int64) error
	unset  func(rest string)

	// mods are the ModRevisions of the keys that are held, and floor the revision of the newest list: an
	// event that is not newer than either is ignored, so nothing goes back in time. seen is the highest revision met
	// at all: an etcd that answers less is not the one that this view has seen. Guarded by View.mu.
	mods  map[string]int64
	floor int64
	seen  int64
	// heard is when etcd last said something of the prefix, be it that nothing is new. Guarded by View.mu.
	heard time.Time
	// watched is while a watch listens, which etcd should tell something now and then. Guarded by View.mu.
	watched bool
	// patience is how long a list waits for an answer. The goroutine that follows the prefix owns it.
	patience time.Duration
}

// named is a kind whose rest of the key is the key in a map.
func named[T any](prefix string, m map[string]T) *kind {
	return &kind{
		prefix: prefix,
		set: func(rest string, value []byte, _ int64) error {
			var t T
			if err := json.Unmarshal(value, &t); err != nil {
				return err
			}
			m[rest] = t
			return nil
		},
		unset: func(rest string) { delete(m, rest) },
	}
}

func (d *data) reportKind() *kind { return withMods(named(prefixReports, d.reports)) }

func withMods(k *kind) *kind {
	k.mods = map[string]int64{}
	return k
}

func (d *data) kinds() []*kind {
	out := []*kind{
		d.clusterKind(), named(prefixNodes, d.nodes), named(prefixGateways, d.gateways),
		named(prefixCoordinators, d.coordinators), d.topicKind(), d.deletedKind(), d.headKind(), d.groupKind(), d.secretKind(),
		named(prefixDrains, d.drains), d.assignmentKind(),
	}
	for _, k := range out {
		withMods(k)
	}
	return out
}

func (d *data) clusterKind() *kind {
	return &kind{
		prefix: keyCluster, exact: true,
		set: func(_ string, value []byte, _ int64) error {
			var c Cluster
			if err := json.Unmarshal(value, &c); err != nil {
				return err
			}
			d.cluster = c.ID
			return nil
		},
		unset: func(string) {}, // a cluster does not lose its id
	}
}

func (d *data) topicKind() *kind {
	return &kind{
		prefix: prefixTopics,
		set: func(name string, value []byte, revision int64) error {
			var t Topic
			if err := json.Unmarshal(value, &t); err != nil {
				return err
			}
			if t.Name != name {
				return fmt.Errorf("it is of topic %q", t.Name)
			}
			t.Revision = revision
			if old, ok := d.topics[name]; ok {
				delete(d.topicNames, old.ID)
			}
			d.topics[name], d.topicNames[t.ID] = t, name
			return nil
		},
		unset: func(name string) {
			delete(d.topicNames, d.topics[name].ID)
			delete(d.topics, name)
		},
	}
}

func (d *data) deletedKind() *kind {
	return &kind{
		prefix: prefixDeleted,
		set: func(rest string, value []byte, revision int64) error {
			if prefixDeleted+rest == keyFolded {
				return d.setFolded(value)
			}
			var t Topic
			if err := json.Unmarshal(value, &t); err != nil {
				return err
			}
			if strconv.FormatUint(uint64(t.ID), 10) != rest {
				return fmt.Errorf("it is of topic %d", t.ID)
			}
			t.Deleted, t.Revision = true, revision
			if !d.folded.Has(t.ID) {
				d.deleted[t.ID] = t
			}
			return nil
		},
		unset: func(string) {}, // a tombstone stays; when it is folded, setFolded says so
	}
}

// setFolded takes over the tombstones that have no key of their own any more.
func (d *data) setFolded(value []byte) error {
	var set TopicSet
	if err := json.Unmarshal(value, &set); err != nil {
		return err
	}
	d.folded = set
	for id := range d.deleted {
		if set.Has(id) {
			delete(d.deleted, id)
		}
	}
	return nil
}

func (d *data) headKind() *kind {
	return &kind{
		prefix: prefixPartitions,
		set: func(rest string, value []byte, revision int64) error {
			var h mq.Head
			if err := json.Unmarshal(value, &h); err != nil {
				return err
			}
			if p, ok := parsePartition(rest); !ok || p != h.Partition {
				return fmt.Errorf("it is of partition %s", h.Partition)
			}
			h.Revision = revision
			d.heads[h.Partition] = h
			d.headChanged(h.Partition)
			return nil
		},
		unset: func(rest string) {
			if p, ok := parsePartition(rest); ok {
				delete(d.heads, p)
				d.headChanged(p)
			}
		},
	}
}

func (d *data) groupKind() *kind {
	drop := func(ref groupRef) {
		old, ok := d.groups[ref]
		if !ok {
			return
		}
		delete(d.groups, ref)
		delete(d.groupRefs, old.ID)
		delete(d.topicGroups[ref.topic], ref.name)
		if len(d.topicGroups[ref.topic]) == 0 {
			delete(d.topicGroups, ref.topic)
		}
	}
	return &kind{
		prefix: prefixGroups,
		set: func(rest string, value []byte, revision int64) error {
			var g Group
			if err := json.Unmarshal(value, &g); err != nil {
				return err
			}
			ref := groupRef{g.Topic, g.Name}
			if prefixGroups+rest != groupKey(ref.topic, ref.name) {
				return fmt.Errorf("it is of group %q of topic %d", g.Name, g.Topic)
			}
			g.Revision = revision
			drop(ref)
			d.groups[ref], d.groupRefs[g.ID] = g, ref
			if d.topicGroups[ref.topic] == nil {
				d.topicGroups[ref.topic] = map[string]struct{}{}
			}
			d.topicGroups[ref.topic][ref.name] = struct{}{}
			return nil
		},
		unset: func(rest string) {
			for ref := range d.groups { // rare: only when a topic is deleted
				if prefixGroups+rest == groupKey(ref.topic, ref.name) {
					drop(ref)
					return
				}
			}
		},
	}
}

func (d *data) secretKind() *kind {
	return &kind{
		prefix: prefixReceipts,
		set: func(_ string, value []byte, _ int64) error {
			var s secret
			if err := json.Unmarshal(value, &s); err != nil {
				return err
			}
			if s.Number == 0 || len(s.Secret) != 32 {
				return fmt.Errorf("it is no numbered secret of 32 bytes")
			}
			d.secrets[s.Number] = s.Secret
			d.newestSecret = max(d.newestSecret, s.Number)
			return nil
		},
		unset: func(rest string) {
			n, err := strconv.ParseUint(rest, 10, 32)
			if err != nil {
				return
			}
			delete(d.secrets, uint32(n))
			d.newestSecret = 0
			for have := range d.secrets {
				d.newestSecret = max(d.newestSecret, have)
			}
		},
	}
}
