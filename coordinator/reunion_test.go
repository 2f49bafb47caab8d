package coordinator

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// When the leases of all members ended the assignment stays, and who comes back soon finds it as it was: nothing moves.
func TestMembersThatAllComeBackKeepTheirPartitions(t *testing.T) {
	t.Parallel()
	all := startAll(t, configs(t, 1)...)
	c := newCluster(t, 0, all...)
	etcd := v3client.New(all[0].etcd.server.Server)
	g := c.assignedGroup(4, mq.ModeAssigned)
	gone := func() { // at one revision, as when a frozen coordinator ends all leases
		t.Helper()
		if _, err := etcd.Delete(c.ctx, fmt.Sprintf("/members/%d/", g.ID), clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
	}
	c.join(g, "a", time.Minute)
	c.join(g, "b", time.Minute)
	before := c.shares(g, map[string]int{"a": 2, "b": 2})
	gone()
	c.join(g, "b", time.Minute)
	// What the controller does for another group shows that it has seen that.
	settings := mq.DefaultGroupSettings()
	settings.Mode = mq.ModeAssigned
	other, err := c.store.CreateGroup(c.ctx, g.Topic, "others", settings)
	if err != nil {
		t.Fatal(err)
	}
	c.join(other, "x", time.Minute)
	c.shares(other, map[string]int{"x": 4})
	c.join(g, "a", time.Minute)
	// A third one costs one move and one generation. Had b been given all for a moment there would be more.
	c.join(g, "c", time.Minute)
	after := c.shares(g, map[string]int{"a": 2, "b": 1, "c": 1})
	kept := 0
	for p := range uint32(4) {
		if before.Owner(p) == after.Owner(p) {
			kept++
		}
	}
	if after.Generation != before.Generation+1 || kept != 3 {
		t.Errorf("generation %d after %d, and %d partitions where they were, want 3", after.Generation, before.Generation, kept)
	}
	// Who does not come back is waited for, but not for long.
	gone()
	c.join(g, "a", time.Minute)
	c.shares(g, map[string]int{"a": 4})
}

func TestReunion(t *testing.T) {
	t.Parallel()
	const written = 100 // the revision of the assignment
	two := &meta.Assignment{Group: 1, Revision: written, Members: []meta.AssignedMember{{Name: "a", Partitions: []uint32{0}},
		{Name: "b", Partitions: []uint32{1}}, {Name: "idle"}}}
	entered := func(at int64, names ...string) (out []meta.Member) {
		for _, n := range names {
			out = append(out, meta.Member{Name: n, Revision: at})
		}
		return out
	}
	old := func(names ...string) []meta.Member { return entered(written-1, names...) }
	back := func(names ...string) []meta.Member { return entered(written+1, names...) }
	type step struct {
		after   time.Duration
		members []meta.Member
		waits   bool
	}
	tests := map[string][]step{
		"one goes alone":                {{0, old("a", "b"), false}, {0, old("a"), false}},
		"one of two comes back":         {{0, append(old("a"), back("x")...), false}},
		"both come back":                {{0, nil, false}, {9 * time.Second, back("b"), true}, {time.Second, back("a", "b"), false}, {0, back("a"), false}},
		"who has nothing is not missed": {{0, back("a", "b"), false}},
		"one does not come back":        {{0, back("b"), true}, {reunion - 1, back("b"), true}, {1, back("b"), false}, {0, back("b"), false}},
		"a stranger waits for them":     {{0, back("x"), true}, {reunion, back("x"), false}},
		"gone again, the time is anew":  {{0, back("a"), true}, {time.Second, nil, false}, {time.Hour, back("b"), true}},
	}
	for name, steps := range tests {
		r, now := reunions{}, time.Unix(1000, 0)
		for i, s := range steps {
			now = now.Add(s.after)
			if got := r.waits(two, s.members, now); got != s.waits {
				t.Errorf("%s, step %d: %t", name, i, got)
			}
		}
	}
	alone := &meta.Assignment{Group: 1, Revision: written, Members: two.Members[:1]}
	if (reunions{}).waits(alone, back("x"), time.Unix(1000, 0)) {
		t.Error("a group of one is waited for")
	}
}
