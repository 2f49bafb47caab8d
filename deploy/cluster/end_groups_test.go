package cluster

import "testing"

// TestEndGroupsAtWork does to groups what operators do, with the leader killed in between.
func TestEndGroupsAtWork(t *testing.T) {
	c := start(t, Options{})
	t.Run("museum 30: redrive reaches the same group", func(t *testing.T) { redriveOverCrash(t, c) })
}

// crash kills the only node and starts it again: the leader that comes knows what the journal says and nothing else.
func crash(t *testing.T, c *Cluster, topic string) {
	t.Helper()
	must(t, c.Node(1).Kill())
	must(t, c.Node(1).Start(ctxFor(t)))
	via(t, c, 1).receive(topic, "waits-for-the-leader", "max=1")
}

// whole is a group with what became of the messages that it does not hold any more.
type whole struct {
	group
	Acked, Expired, Filtered, Dropped, Discarded int
}

func (c caller) whole(topic, name string) whole {
	c.t.Helper()
	var g whole
	c.call(200, "GET", "/v1/topics/"+topic+"/groups/"+name, "", &g)
	return g
}

type deadResult struct {
	Messages   int
	More       bool
	Partial    bool
	Partitions []struct{ Messages int }
}

// redriveOverCrash: what a redrive moved comes to the same group from its first attempt on, whoever leads then.
func redriveOverCrash(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("redrive", `{"partitions":1}`)
	one.call(201, "PUT", "/v1/topics/redrive/groups/g", impatient, nil)
	one.publishMany("redrive", "v", 6)
	got := one.receiveN("redrive", "g", 6, "")
	one.settle("reject", got[:5], `,"reason":"Card declined"`)
	one.settle("ack", got[5:], "")

	redrive := func(path, body string) (r deadResult) {
		t.Helper()
		one.call(200, "POST", "/v1/topics/redrive/groups/g/redrive"+path, body, &r)
		return r
	}
	if r := redrive("?dry_run=true", ""); r.Messages != 5 {
		t.Errorf("a dry run: %+v", r)
	}
	if r := redrive("", `{"filter":{"reason":"timeout"}}`); r.Messages != 0 {
		t.Errorf("no reason is like that: %+v", r)
	}
	if r := redrive("", `{"filter":{"reason":"card","key":"`+got[0].Key+`"}}`); r.Messages != 1 {
		t.Errorf("by key: %+v", r)
	}
	crash(t, c, "redrive")
	again := one.receiveN("redrive", "g", 1, "")
	if again[0].ID != got[0].ID || again[0].Attempt != 1 {
		t.Errorf("after the redrive: %+v, want %s as attempt 1", again[0], got[0].ID)
	}
	one.settle("ack", again, "")
	// A rate: the first one is ready at once, the second 50 ms later; the leader that gives it out is another one.
	if r := redrive("", `{"rate":20,"limit":2}`); r.Messages != 2 || !r.More {
		t.Errorf("two at a rate: %+v", r)
	}
	crash(t, c, "redrive")
	one.settle("ack", one.receiveN("redrive", "g", 2, ""), "")
	var removed deadResult
	one.call(200, "DELETE", "/v1/topics/redrive/groups/g/dead?ids="+got[4].ID, "", &removed)
	if g := one.group("redrive", "g"); removed.Messages != 1 || g.Dead != 1 || g.Lag != 0 {
		t.Errorf("after one was removed: %+v, group %+v", removed, g)
	}
	crash(t, c, "redrive")
	if g := one.whole("redrive", "g"); g.Dead != 1 || g.Lag != 0 || g.Acked != 4 || g.Discarded != 1 {
		t.Errorf("at the last leader: %+v", g)
	}
}
