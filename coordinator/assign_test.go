package coordinator

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// assignedGroup makes a topic and a group of it whose partitions have owners. No node is needed for that.
func (c *cluster) assignedGroup(partitions uint32, mode string) meta.Group {
	c.t.Helper()
	s := mq.DefaultTopicSettings()
	s.Partitions = partitions
	topic, err := c.store.CreateTopic(c.ctx, "work", s)
	if err != nil {
		c.t.Fatal(err)
	}
	settings := mq.DefaultGroupSettings()
	settings.Mode = mode
	g, err := c.store.CreateGroup(c.ctx, topic.ID, "workers", settings)
	if err != nil {
		c.t.Fatal(err)
	}
	return g
}

func (c *cluster) join(g meta.Group, name string, ttl time.Duration) meta.Member {
	c.t.Helper()
	m, err := c.store.JoinMember(c.ctx, meta.Member{Name: name, Group: g.ID, TTL: mq.Duration(ttl)})
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// shares waits until the members of an assignment have these numbers of partitions, by name.
func (c *cluster) shares(g meta.Group, want map[string]int) meta.Assignment {
	c.t.Helper()
	var out meta.Assignment
	c.wait(fmt.Sprintf("the shares %v", want), func(v *meta.View) bool {
		out, _ = v.Assignment(g.ID)
		if len(out.Members) != len(want) {
			return false
		}
		for _, m := range out.Members {
			if n, ok := want[m.Name]; !ok || n != len(m.Partitions) {
				return false
			}
		}
		return true
	})
	return out
}

func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0, startAll(t, configs(t, 1)...)...)
	g := c.assignedGroup(4, mq.ModeAssigned)
	c.join(g, "b", time.Minute)
	first := c.shares(g, map[string]int{"b": 4})
	c.join(g, "a", time.Minute)
	second := c.shares(g, map[string]int{"a": 2, "b": 2})
	if second.Generation <= first.Generation {
		t.Errorf("generation %d after %d", second.Generation, first.Generation)
	}
	// Who joins again under its name is the same member, with a lease of its own.
	again := c.join(g, "a", time.Minute)
	if err := c.store.RenewMember(c.ctx, again); err != nil {
		t.Error(err)
	}
	// A third one costs one move; a member that is not heard of loses its partitions.
	c.join(g, "dies", 2*time.Second)
	c.shares(g, map[string]int{"a": 2, "b": 1, "dies": 1})
	if third := c.shares(g, map[string]int{"a": 2, "b": 2}); third.Generation != second.Generation+2 {
		t.Errorf("a member that joins and dies makes 2 generations, not %d", third.Generation-second.Generation)
	}
	if err := c.store.LeaveMember(c.ctx, g.ID, "b"); err != nil {
		t.Fatal(err)
	}
	last := c.shares(g, map[string]int{"a": 4})
	// The last one leaves: silence unassigns nobody, and the next one gets everything.
	if err := c.store.LeaveMember(c.ctx, g.ID, "a"); err != nil {
		t.Fatal(err)
	}
	c.join(g, "c", time.Minute)
	if after := c.shares(g, map[string]int{"c": 4}); after.Generation != last.Generation+1 {
		t.Errorf("generation %d after %d", after.Generation, last.Generation)
	}
}

func TestGatewaysAreTheMembersOfGroupsThatPush(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0, startAll(t, configs(t, 1)...)...)
	g := c.assignedGroup(5, mq.ModePush)
	enter := func(name string) (*meta.Registration, net.Listener) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.store.Register(c.ctx, meta.GatewayKey(name), meta.Gateway{Name: name, Addr: l.Addr().String()}, time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r, l
	}
	one, at := enter("gateway-1")
	defer one.Close()
	defer at.Close()
	c.shares(g, map[string]int{"gateway-1": 5})
	two, _ := enter("gateway-2")
	c.shares(g, map[string]int{"gateway-1": 3, "gateway-2": 2})
	two.Close() // as a gateway does that drains: its partitions go at once
	c.shares(g, map[string]int{"gateway-1": 5})
	// One that is killed lets go of its address, long before its lease ends.
	three, killed := enter("gateway-3")
	defer three.Close()
	c.shares(g, map[string]int{"gateway-1": 3, "gateway-3": 2})
	knocked(t, killed)
	killed.Close()
	c.shares(g, map[string]int{"gateway-1": 5})
	// With all of them refusing it is not they who are gone.
	at.Close()
	four, _ := enter("gateway-4")
	defer four.Close()
	c.shares(g, map[string]int{"gateway-4": 5})
}

// knocked waits until somebody has connected.
func knocked(t *testing.T, l net.Listener) {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestWithoutProofGatewaysCountAsThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k, addr := newKnocker(nil), l.Addr().String()
	both := []meta.Gateway{{Name: "a", Addr: addr}, {Name: "b", Addr: "127.0.0.1:1"}}
	knock := func(times int) {
		for range times {
			k.knock(t.Context(), both[0].Addr)
			k.knock(t.Context(), both[1].Addr)
		}
	}
	knock(refusals)
	if n := len(k.living(both)); n != 2 {
		t.Errorf("%d: an address that never opened proves nothing", n)
	}
	l.Close()
	if knock(refusals - 1); len(k.living(both)) != 2 {
		t.Error("one refusal is none")
	}
	if knock(1); len(k.living(both)) != 1 || len(k.living(both[:1])) != 1 {
		t.Errorf("a is gone, %v; with nobody else it is not believed, %v", k.living(both), k.living(both[:1]))
	}
	if k.forget(both[1:]); len(k.living(both)) != 2 {
		t.Error("who is not registered any more is forgotten")
	}
}

// Knocks go the way that the configuration says, like all else between components: a cut link is seen by them, and proves nothing.
func TestKnocksAreDialled(t *testing.T) {
	t.Parallel()
	calls, cut := 0, false
	k := newKnocker(func(ctx context.Context, _ string) (net.Conn, error) {
		calls++
		if cut {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		one, other := net.Pipe()
		return one, other.Close()
	})
	all := []meta.Gateway{{Name: "a", Addr: "far:1"}, {Name: "b", Addr: "far:2"}}
	k.knock(t.Context(), "far:1")
	cut = true
	for range refusals {
		k.knock(t.Context(), "far:1")
	}
	if calls != 1+refusals || len(k.living(all)) != 2 {
		t.Errorf("%d calls, %v are there", calls, k.living(all))
	}
}

func TestPartitionsThatAreAddedGetOwners(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0, startAll(t, configs(t, 1)...)...)
	g := c.assignedGroup(2, mq.ModeAssigned)
	c.join(g, "a", time.Minute)
	c.join(g, "b", time.Minute)
	c.shares(g, map[string]int{"a": 1, "b": 1})
	if _, err := c.store.UpdateTopic(c.ctx, "work", 0, func(s *mq.TopicSettings) { s.Partitions = 6 }); err != nil {
		t.Fatal(err)
	}
	c.shares(g, map[string]int{"a": 3, "b": 3})
}

// The bounds of a group: 200 members of 1,000 partitions. How long it takes is logged, not judged.
func TestLargeGroupSettles(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0, startAll(t, configs(t, 1)...)...)
	g := c.assignedGroup(1000, mq.ModeAssigned)
	want := map[string]int{}
	var joins errgroup.Group
	joins.SetLimit(16)
	for i := range 200 {
		m := meta.Member{Name: fmt.Sprintf("member-%03d", i), Group: g.ID, TTL: mq.Duration(time.Minute), Zone: fmt.Sprintf("zone-%d", i%3)}
		want[m.Name] = 5
		joins.Go(func() error {
			_, err := c.store.JoinMember(c.ctx, m)
			return err
		})
	}
	if err := joins.Wait(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	settled := c.shares(g, want)
	t.Logf("settled %s after the last of 200 joined, in %d generations", time.Since(start), settled.Generation)
	start = time.Now()
	if err := c.store.LeaveMember(c.ctx, g.ID, "member-007"); err != nil {
		t.Fatal(err)
	}
	var after meta.Assignment
	c.wait("199 members", func(v *meta.View) bool { after, _ = v.Assignment(g.ID); return len(after.Members) == 199 })
	t.Logf("settled %s after one left", time.Since(start))
	if after.Generation != settled.Generation+1 {
		t.Errorf("one member left: %d generations", after.Generation-settled.Generation)
	}
	changed := 0
	for p := range uint32(1000) {
		if settled.Owner(p) != after.Owner(p) {
			changed++
		}
	}
	if changed != 5 {
		t.Errorf("%d partitions changed hands, the leaver had 5", changed)
	}
}
