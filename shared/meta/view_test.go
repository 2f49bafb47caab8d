package meta

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
)

func waitView(t *testing.T, ctx context.Context, v *View, what string, ok func(*View) bool) {
	t.Helper()
	if err := v.WaitFor(ctx, ok); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func TestViewFollows(t *testing.T) {
	s, ctx := testStore(t)
	v := NewView(s, quiet(), WithReports)
	runView(t, ctx, v)

	cluster, err := s.EnsureCluster(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.EnsureReceiptSecret(ctx); err != nil {
		t.Fatal(err)
	}
	node, err := s.Register(ctx, NodeKey("n1"), Node{Name: "n1", Store: "s1", Boot: 4, Addr: "a:1"}, 2*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	report, err := s.Register(ctx, ReportKey("s1"), Report{Store: "s1", SealWanted: []mq.SegmentID{3}}, 2*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer report.Close()
	topic, err := s.CreateTopic(ctx, "orders", mq.DefaultTopicSettings())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreatePartitions(ctx, topic.ID, 0, 3, 1, 1); err != nil {
		t.Fatal(err)
	}
	group, err := s.CreateGroup(ctx, topic.ID, "g", mq.DefaultGroupSettings())
	if err != nil {
		t.Fatal(err)
	}
	waitView(t, ctx, v, "everything", func(v *View) bool {
		_, secret := v.NewestSecret()
		_, live := v.Group(topic.ID, "g")
		_, made := v.Topic("orders") // each prefix has a watch of its own
		return made && v.ClusterID() == cluster.ID && len(secret) == 32 && len(v.Nodes()) == 1 && len(v.Reports()) == 1 && len(v.Heads(topic.ID)) == 3 && live
	})
	if got, ok := v.Topic("orders"); !ok || got.ID != topic.ID || got.Revision != topic.Revision {
		t.Errorf("topic %+v", got)
	}
	if n, ok := v.NodeByStore("s1"); !ok || n.Boot != 4 {
		t.Errorf("node %+v", n)
	}
	if g, ok := v.GroupByID(group.ID); !ok || g.Name != "g" || len(v.Groups(topic.ID)) != 1 {
		t.Errorf("group %+v", g)
	}
	h, _ := v.Head(mq.PartitionID{Topic: topic.ID, Number: 1})
	seg := segment(h.Partition, 1)
	seg.Replicas[0].Store = "s1"
	h.Open = &seg
	if ok, _, err := s.OpenSegments(ctx, []Opening{{Head: h}}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	waitView(t, ctx, v, "the opening", func(v *View) bool { return len(v.HeadsOf("s1")) == 1 })

	if err := s.DeleteTopic(ctx, "orders", 0); err != nil {
		t.Fatal(err)
	}
	if err := s.ForgetTopic(ctx, topic.ID); err != nil {
		t.Fatal(err)
	}
	node.Close()
	waitView(t, ctx, v, "the end", func(v *View) bool {
		old, ok := v.TopicByID(topic.ID)
		return len(v.Topics()) == 0 && ok && old.Deleted && len(v.AllHeads()) == 0 && len(v.Groups(topic.ID)) == 0 && len(v.Nodes()) == 0
	})
}

// TestViewListsAgainAfterCompaction: what a watch would resume from is compacted, with changes and removals in
// what it missed.
func TestViewListsAgainAfterCompaction(t *testing.T) {
	s, ctx := testStore(t)
	v := NewView(s, quiet())
	nodes := v.kinds[1]
	put := func(name, addr string) int64 {
		value, err := encode(Node{Name: name, Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.c.Put(ctx, NodeKey(name), value)
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.Revision
	}
	put("a", "a:1")
	put("b", "b:1")
	at, err := v.list(ctx, nodes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Delete(ctx, NodeKey("b")); err != nil {
		t.Fatal(err)
	}
	put("a", "a:2")
	last := put("c", "c:1")
	if _, err := s.c.Compact(ctx, last); err != nil {
		t.Fatal(err)
	}
	if err := v.watch(ctx, nodes, at); err != rpctypes.ErrCompacted {
		t.Fatalf("the watch ended with %v", err)
	}
	if _, err := v.list(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	got := v.Nodes()
	if len(got) != 2 || got[0].Addr != "a:2" || got[1].Name != "c" {
		t.Errorf("after the second list: %+v", got)
	}
}

// TestMuseum18NothingGoesBack: events are lost, doubled, late; and etcd itself is put back.
func TestMuseum18NothingGoesBack(t *testing.T) {
	s, ctx := testStore(t)
	v := NewView(s, quiet())
	nodes := v.kinds[1]
	event := func(name, addr string, revision int64) *clientv3.Event {
		value, err := encode(Node{Name: name, Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		e := &clientv3.Event{Type: mvccpb.Event_PUT, Kv: &mvccpb.KeyValue{Key: []byte(NodeKey(name)), Value: []byte(value), ModRevision: revision}}
		if addr == "" {
			e.Type = mvccpb.Event_DELETE
		}
		return e
	}
	addr := func() string { n, _ := v.Node("a"); return n.Addr }
	v.take(nodes, []*clientv3.Event{event("a", "new", 9)})
	v.take(nodes, []*clientv3.Event{event("a", "old", 7), event("a", "", 8), event("a", "twice", 9)})
	if addr() != "new" {
		t.Errorf("an older event won: %q", addr())
	}
	// This etcd is at revision 1, far behind: put back from an old copy.
	if _, err := v.list(ctx, nodes); err == nil || addr() != "new" {
		t.Errorf("an etcd that went back is believed: %v, %q", err, addr())
	}
	// Nor is a value that can't be read.
	v.take(nodes, []*clientv3.Event{{Type: mvccpb.Event_PUT, Kv: &mvccpb.KeyValue{Key: []byte(NodeKey("a")), Value: []byte("{"), ModRevision: 10}}})
	if addr() != "new" {
		t.Errorf("a broken value replaced a good one: %q", addr())
	}
}

// TestMuseum18LostEventsAreFound: the check finds a change, an addition and a removal that no event told.
func TestMuseum18LostEventsAreFound(t *testing.T) {
	s, ctx := testStore(t)
	v := NewView(s, quiet())
	nodes := v.kinds[1]
	for _, n := range []string{"changed", "removed"} {
		if _, err := s.c.Put(ctx, NodeKey(n), `{"name":"`+n+`"}`); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.list(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	s.c.Put(ctx, NodeKey("changed"), `{"name":"changed","boot":2}`)
	s.c.Delete(ctx, NodeKey("removed"))
	s.c.Put(ctx, NodeKey("added"), `{"name":"added"}`)
	changes, cancel := v.Subscribe()
	defer cancel()
	if err := v.check(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	if got := v.Nodes(); len(got) != 2 || got[0].Name != "added" || got[1].Boot != 2 {
		t.Errorf("%+v", got)
	}
	select {
	case <-changes:
	default:
		t.Error("nobody was woken")
	}
}

// A list or a check that finds nothing new wakes nobody: each of those who are woken goes through all partitions, and there is
// a check of each prefix once a minute.
func TestWhatBringsNothingNewWakesNobody(t *testing.T) {
	s, ctx := testStore(t)
	if err := s.CreatePartitions(ctx, 1, 0, 10, 1, 1); err != nil {
		t.Fatal(err)
	}
	v := NewView(s, quiet(), WithReports)
	all := func(look func(context.Context, *kind) error) {
		t.Helper()
		for _, k := range v.kinds {
			if err := look(ctx, k); err != nil {
				t.Fatal(err)
			}
		}
	}
	list := func(ctx context.Context, k *kind) error { _, err := v.list(ctx, k); return err }
	all(list)
	changes, cancel := v.Subscribe()
	defer cancel()
	was := v.Version()
	all(v.check)
	all(list)
	select {
	case <-changes:
		t.Error("somebody was woken")
	default:
	}
	if got := v.Version(); got != was || was == 0 {
		t.Errorf("version %d, before %d", got, was)
	}
	// What is gone is found by a list too.
	if _, err := s.c.Delete(ctx, prefixPartitions, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	all(list)
	select {
	case <-changes:
	default:
		t.Error("nobody was woken by what is gone")
	}
}

// TestViewListsByPages: more keys than one answer holds.
func TestViewListsByPages(t *testing.T) {
	s, ctx := testStore(t)
	if err := s.CreatePartitions(ctx, 1, 0, 1024, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.CreatePartitions(ctx, 2, 0, 1024, 1, 1); err != nil {
		t.Fatal(err)
	}
	v := NewView(s, quiet())
	runView(t, ctx, v)
	if n := len(v.AllHeads()); n != 2048 {
		t.Errorf("%d heads of 2048", n)
	}
	if n := len(v.Heads(2)); n != 1024 {
		t.Errorf("%d heads of 1024", n)
	}
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	s, ctx := testStore(t)
	v := NewView(s, quiet())
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := v.WaitFor(over, func(*View) bool { return false }); err != context.Canceled {
		t.Errorf("%v", err)
	}
	if err := v.WaitFor(over, func(*View) bool { return true }); err != nil {
		t.Errorf("what holds already: %v", err)
	}
}

// told gives the records that are logged to it.
type told chan slog.Record

func (h told) Enabled(context.Context, slog.Level) bool { return true }
func (h told) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h told) WithGroup(string) slog.Handler            { return h }
func (h told) Handle(_ context.Context, r slog.Record) error {
	select {
	case h <- r:
	default:
	}
	return nil
}

// Who waits for coordinators says so, and where it looks for them.
func TestWaitReadySaysWhatItWaitsFor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	records := make(told, 1)
	v := NewView(nil, slog.New(records))
	v.sayEvery = time.Millisecond
	waits, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- v.WaitReady(waits, []string{"a:1", "b:2"}) }()
	select {
	case r := <-records:
		var etcd string
		r.Attrs(func(a slog.Attr) bool {
			etcd = a.Value.String()
			return a.Key != "etcd"
		})
		if r.Level != slog.LevelWarn || etcd != "a:1, b:2" {
			t.Errorf("%v %q, looking at %q", r.Level, r.Message, etcd)
		}
	case <-ctx.Done():
		t.Fatal("nobody says what is waited for")
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "a:1, b:2") {
		t.Errorf("it ended with %v", err)
	}
	close(v.ready)
	if err := v.WaitReady(ctx, nil); err != nil {
		t.Error(err)
	}
}
