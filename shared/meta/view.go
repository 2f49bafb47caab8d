package meta

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// View is this process's copy of the cluster's keys, kept by watches. It may be behind etcd, never goes back in
// time (museum 18), and stays readable while etcd is away. Run keeps it; everything else may be called by
// anyone at any time. Values that it returns are shared: do not change what they point to.
type View struct {
	s       *Store
	log     *slog.Logger
	kinds   []*kind
	recheck time.Duration
	// sayEvery is how often WaitReady says that it waits.
	sayEvery time.Duration
	stream   atomic.Pointer[stream] // that watches are on

	ready chan struct{} // closed when every prefix was listed once

	mu      sync.RWMutex
	data    data
	subs    map[chan struct{}]struct{}
	missing int // prefixes not listed yet
	version uint64
	back    time.Time // when etcd was heard again after it could not be; zero if it always could
}

// data is what the keys say, indexed for the questions that are asked; guarded by View.mu.
type data struct {
	cluster      string
	nodes        map[string]Node
	gateways     map[string]Gateway
	coordinators map[string]Coordinator
	reports      map[string]Report
	drains       map[string]Drain
	moves        map[string]Move
	forces       map[string]Force
	topics       map[string]Topic
	topicNames   map[mq.TopicID]string
	deleted      map[mq.TopicID]Topic // those with a tombstone of their own
	folded       TopicSet             // and those without
	heads        map[mq.PartitionID]mq.Head
	feeds        map[*HeadFeed]struct{}
	groups       map[groupRef]Group
	groupRefs    map[mq.GroupID]groupRef
	topicGroups  map[mq.TopicID]map[string]struct{}
	assignments  map[mq.GroupID]*assigned
	members      map[mq.GroupID]*membership
	// memberVersion is the last version given to a membership.
	memberVersion uint64
	webhooks      map[string]Webhook // by "<topic id>/<name>"
	secrets       map[uint32][]byte
	newestSecret  uint32
}

type groupRef struct {
	topic mq.TopicID
	name  string
}

// NewView makes a view of everything that gateways and log nodes need; Run fills it. With WithReports it also
// holds the reports of log nodes, which only the controller needs.
func NewView(s *Store, log *slog.Logger, options ...ViewOption) *View {
	v := &View{
		s: s, log: log, recheck: time.Minute, sayEvery: 5 * time.Second,
		ready: make(chan struct{}), subs: map[chan struct{}]struct{}{},
		data: data{
			drains: map[string]Drain{}, moves: map[string]Move{}, forces: map[string]Force{},
			assignments: map[mq.GroupID]*assigned{}, members: map[mq.GroupID]*membership{},
			webhooks: map[string]Webhook{},
			nodes:    map[string]Node{}, gateways: map[string]Gateway{}, coordinators: map[string]Coordinator{},
			reports: map[string]Report{}, topics: map[string]Topic{}, topicNames: map[mq.TopicID]string{},
			deleted: map[mq.TopicID]Topic{}, heads: map[mq.PartitionID]mq.Head{}, feeds: map[*HeadFeed]struct{}{}, groups: map[groupRef]Group{},
			groupRefs: map[mq.GroupID]groupRef{}, topicGroups: map[mq.TopicID]map[string]struct{}{}, secrets: map[uint32][]byte{},
		},
	}
	v.stream.Store(&stream{over: make(chan struct{})})
	v.kinds = v.data.kinds()
	for _, o := range options {
		o(v)
	}
	for _, k := range v.kinds {
		k.patience = firstPatience
	}
	v.missing = len(v.kinds)
	return v
}

// ViewOption changes what a view holds.
type ViewOption func(*View)

// WithReports makes the view hold reports.
func WithReports(v *View) {
	v.kinds = append(v.kinds, v.data.reportKind(), v.data.moveKind(), v.data.forceKind())
}

// Ready is closed when the view has seen every key once.
func (v *View) Ready() <-chan struct{} { return v.ready }

// WaitReady waits until the view is ready, and says aloud from time to time that it is waited for an answer from servers, which are
// the addresses to name. The error says that ctx ended first.
func (v *View) WaitReady(ctx context.Context, servers []string) error {
	say := time.NewTicker(v.sayEvery)
	defer say.Stop()
	for {
		select {
		case <-v.ready:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("no coordinator answers at %s: %w", strings.Join(servers, ", "), ctx.Err())
		case <-say.C:
			v.log.Warn("no coordinator answers yet, waiting: is this where their etcd listens (--etcd-client)?",
				"etcd", strings.Join(servers, ", "))
		}
	}
}

// Subscribe gives a channel (capacity 1) that is sent to after changes: a wake-up, not data. cancel must be
// called when it is not needed any more.
func (v *View) Subscribe() (changes <-chan struct{}, cancel func()) {
	c := make(chan struct{}, 1)
	v.mu.Lock()
	v.subs[c] = struct{}{}
	v.mu.Unlock()
	return c, func() {
		v.mu.Lock()
		delete(v.subs, c)
		v.mu.Unlock()
	}
}

// WaitFor returns nil as soon as ok(v) holds, which is asked now and after every change, or ctx's error.
func (v *View) WaitFor(ctx context.Context, ok func(v *View) bool) error {
	changes, cancel := v.Subscribe()
	defer cancel()
	for {
		if ok(v) {
			return nil
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notify wakes all subscribers; the caller holds v.mu.
func (v *View) notify() {
	v.version++
	for c := range v.subs {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func read[T any](v *View, f func(d *data) T) T {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return f(&v.data)
}

// ClusterID is the cluster's id, "" while no controller has made it.
func (v *View) ClusterID() string { return read(v, func(d *data) string { return d.cluster }) }

// Topic finds a living topic by name.
func (v *View) Topic(name string) (Topic, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	t, ok := v.data.topics[name]
	return t, ok && !t.Deleted
}

// Partitions is how many all topics have together, as their settings say, but for those of deleted topics.
func (v *View) Partitions() (n int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, t := range v.data.topics {
		if !t.Deleted {
			n += int(t.Settings.Partitions)
		}
	}
	return n
}

// TopicByID finds a topic by id, a deleted one too: look at Deleted. Of one that was deleted long ago nothing else is known.
func (v *View) TopicByID(id mq.TopicID) (Topic, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if t, ok := v.data.deleted[id]; ok {
		return t, true
	}
	if v.data.folded.Has(id) {
		return Topic{ID: id, Deleted: true}, true
	}
	name, ok := v.data.topicNames[id]
	if !ok {
		return Topic{}, false
	}
	return v.data.topics[name], true
}

// Topics are the living topics, by name.
func (v *View) Topics() []Topic {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := make([]Topic, 0, len(v.data.topics))
	for _, t := range v.data.topics {
		if !t.Deleted {
			out = append(out, t)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// DeletedTopics are the tombstones of topics that were deleted not long ago, in no order; Deletions knows of all.
func (v *View) DeletedTopics() []Topic {
	return read(v, func(d *data) []Topic { return values(d.deleted) })
}

// Head is a partition's head.
func (v *View) Head(p mq.PartitionID) (mq.Head, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	h, ok := v.data.heads[p]
	return h, ok
}

// Heads are the heads of a topic's partitions that exist already, by number.
func (v *View) Heads(topic mq.TopicID) []mq.Head {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []mq.Head
	for n := uint32(0); n < mq.MaxPartitions; n++ {
		h, ok := v.data.heads[mq.PartitionID{Topic: topic, Number: n}]
		if !ok {
			break // partitions are made in order
		}
		out = append(out, h)
	}
	return out
}

// AllHeads are the heads of all partitions, in no order.
func (v *View) AllHeads() []mq.Head {
	return read(v, func(d *data) []mq.Head { return values(d.heads) })
}

// HeadsOf are the heads in whose open or last segment a store is a replica, or which it copies, in no order. It looks through all
// heads: about a millisecond for 10,000.
func (v *View) HeadsOf(store mq.StoreID) []mq.Head {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []mq.Head
	for _, h := range v.data.heads {
		if h.Open != nil && h.Open.ReplicaIndex(store) >= 0 || h.Last != nil && h.Last.Holds(store) {
			out = append(out, h)
		}
	}
	return out
}

// Leads says whether a store leads any open segment.
func (v *View) Leads(store mq.StoreID) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, h := range v.data.heads {
		if h.Open != nil && h.Open.Leader.Store == store {
			return true
		}
	}
	return false
}

// Node finds a live log node by name.
func (v *View) Node(name string) (Node, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n, ok := v.data.nodes[name]
	return v.data.drained(n), ok
}

// NodeByStore finds a live log node by its store id.
func (v *View) NodeByStore(id mq.StoreID) (Node, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, n := range v.data.nodes {
		if n.Store == id {
			return v.data.drained(n), true
		}
	}
	return Node{}, false
}

// Nodes are the live log nodes, by name.
func (v *View) Nodes() []Node {
	out := read(v, func(d *data) []Node {
		nodes := values(d.nodes)
		for i := range nodes {
			nodes[i] = d.drained(nodes[i])
		}
		return nodes
	})
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Gateways are the live gateways, by name.
func (v *View) Gateways() []Gateway {
	out := read(v, func(d *data) []Gateway { return values(d.gateways) })
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Coordinators are the live coordinators, by name.
func (v *View) Coordinators() []Coordinator {
	out := read(v, func(d *data) []Coordinator { return values(d.coordinators) })
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Reports are the reports of log nodes, in no order; none without WithReports.
func (v *View) Reports() []Report {
	return read(v, func(d *data) []Report { return values(d.reports) })
}

// Group finds a living group by name.
func (v *View) Group(topic mq.TopicID, name string) (Group, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	g, ok := v.data.groups[groupRef{topic, name}]
	return g, ok && !g.Deleted
}

// GroupByID finds a group by id; a deleted one too while its name is not used again: look at Deleted.
func (v *View) GroupByID(id mq.GroupID) (Group, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	ref, ok := v.data.groupRefs[id]
	if !ok {
		return Group{}, false
	}
	g, ok := v.data.groups[ref]
	return g, ok
}

// Groups are the living groups of a topic, by name.
func (v *View) Groups(topic mq.TopicID) []Group {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []Group
	for name := range v.data.topicGroups[topic] {
		if g := v.data.groups[groupRef{topic, name}]; !g.Deleted {
			out = append(out, g)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Secret is the numbered key that signs receipts and cursors, nil if there is none.
func (v *View) Secret(number uint32) []byte {
	return read(v, func(d *data) []byte { return d.secrets[number] })
}

// NewestSecret is the secret to sign with; (0, nil) while there is none.
func (v *View) NewestSecret() (uint32, []byte) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.data.newestSecret, v.data.secrets[v.data.newestSecret]
}

func values[K comparable, T any](m map[K]T) []T {
	out := make([]T, 0, len(m))
	for _, x := range m {
		out = append(out, x)
	}
	return out
}
