package cluster

import (
	"slices"
	"strings"
	"testing"
)

func TestProcessKilledNodeKeepsWhatWasAcked(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Processes: &Processes{}})
	one := via(t, c, 1)
	acked, out := history(t, one, "topic")
	must(t, c.Node(1).Kill()) // kill -9
	must(t, c.Node(1).Start(ctxFor(t)))
	checkHistory(t, one, "topic", acked, out)
}

func TestProcessesAllKilledAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Processes: &Processes{}, Nodes: 3, Gateways: 2})
	acked, out := history(t, via(t, c, 1), "topic")
	everything := slices.Concat(c.gateways, c.nodes, c.coordinators)
	for _, m := range everything {
		must(t, m.Kill())
	}
	ctx := ctxFor(t)
	must(t, c.startAll(ctx))
	checkHistory(t, via(t, c, 2), "topic", acked, out)
}

func TestProcessFrozenLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Processes: &Processes{}, Nodes: 3})
	one := via(t, c, 1)
	one.topic("frozen", `{"partitions":1,"replicas":3}`)
	one.publish("frozen", "before")
	leader := c.NodeNamed(one.leader("frozen", 0))
	must(t, leader.Pause())
	t.Cleanup(func() { _ = leader.Resume() })
	publishAnyway(t, one, "frozen", "during")
	must(t, leader.Resume()) // a zombie: it has not learned of the seal yet (museum 4)
	publishAnyway(t, one, "frozen", "after")
	got := values(one.receiveN("frozen", "g", 3, ""))
	if !slices.Equal(got, []string{"after", "before", "during"}) {
		t.Errorf("got %v", got)
	}
}

// A child that ends by itself is reported; its end at our hands is not.
func TestProcessThatFailsIsReported(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Processes: &Processes{}})
	must(t, c.Gateway(1).Kill())
	select {
	case err := <-c.Failed():
		t.Fatalf("we killed it, and it is reported: %v", err)
	default:
	}
	must(t, c.Gateway(1).Start(ctxFor(t)))
	run := c.Gateway(1).run.(*process)
	must(t, run.cmd.Process.Kill()) // somebody else does
	<-run.done
	if err := <-c.Failed(); !strings.Contains(err.Error(), "gateway-1 ended by itself") {
		t.Errorf("got %v", err)
	}
	_ = c.Gateway(1).Stop(ctxFor(t)) // says how it ended
}

func TestMembersInThisProcessCannotBePaused(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	if err := c.Node(1).Pause(); err == nil || !strings.Contains(err.Error(), "processes") {
		t.Errorf("got %v", err)
	}
	if err := c.Node(1).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("starting it twice: %v", err)
	}
}
