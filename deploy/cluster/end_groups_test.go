package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// TestEndGroupsAtWork does to groups what operators do, with the leader killed in between.
func TestEndGroupsAtWork(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	t.Run("museum 30: redrive reaches the same group", func(t *testing.T) { redriveOverCrash(t, c) })
	t.Run("what is past its TTL is never delivered", func(t *testing.T) { expiredOverCrash(t, c) })
	t.Run("a seek makes receipts stale and lasts", func(t *testing.T) { seekOverCrash(t, c) })
	t.Run("a snapshot brings back what was settled", func(t *testing.T) { snapshotOverCrash(t, c) })
	t.Run("museum 33: a filter, with a crash in between", func(t *testing.T) { filterOverCrash(t, c) })
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

func (c caller) whole(topic, name string) (g whole) {
	c.t.Helper()
	eventually(c.t, "all leaders answer for group "+name, func() bool {
		g = whole{}
		c.call(200, "GET", "/v1/topics/"+topic+"/groups/"+name, "", &g)
		return !g.Partial
	})
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
	var dead api.HeldList // the new leader has what became of each attempt from the journal
	one.call(200, "GET", "/v1/topics/redrive/groups/g/dead?history=true", "", &dead)
	for _, m := range dead.Messages {
		if h := m.History; len(h) != 1 || h[0].Attempt != 1 || h[0].Result != "dead" || h[0].Reason != "Card declined" || h[0].Consumer == "" ||
			h[0].DeliveredAt.IsZero() || h[0].EndedAt.IsZero() {
			t.Errorf("history: %+v (%+v)", h, m.HistoryError)
		}
	}
	if len(dead.Messages) != 4 {
		t.Errorf("%d letters with histories", len(dead.Messages))
	}
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

// expiredOverCrash: what expired before anybody asked, and what expired while it waited for its retry.
func expiredOverCrash(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("ttl", `{"partitions":1}`)
	one.call(200, "POST", "/v1/topics/ttl/messages/batch", `{"messages":[{"value":"old","ttl":"1ms"},{"value":"a"},{"value":"b","ttl":"1h"}]}`, nil)
	crash(t, c, "ttl")
	got := one.receiveN("ttl", "g", 2, "")
	if values(got)[0] != "a" || values(got)[1] != "b" {
		t.Errorf("got %v", values(got))
	}
	one.settle("reject", got, "")
	one.call(200, "POST", "/v1/topics/ttl/messages/batch", `{"messages":[{"value":"retry","ttl":"2s"}]}`, nil)
	retry := one.receiveN("ttl", "g", 1, "")
	one.settle("nack", retry, `,"delay":"2s"`)
	crash(t, c, "ttl")
	for deadline := time.Now().Add(hang); one.whole("ttl", "g").Expired < 2 && time.Now().Before(deadline); {
		if again := one.receive("ttl", "g", "wait=1s"); len(again) > 0 {
			t.Fatalf("delivered after its time: %+v", again)
		}
	}
	if g := one.whole("ttl", "g"); g.Expired != 2 || g.Dead != 2 || g.Lag != 0 {
		t.Errorf("the group: %+v", g)
	}
	var read struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/ttl/messages?partition=0", "", &read)
	if len(read.Messages) != 4 {
		t.Errorf("a read without a group shows %d of 4", len(read.Messages))
	}
}

func filterOverCrash(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("filtered", `{"partitions":1}`)
	one.call(201, "PUT", "/v1/topics/filtered/groups/g", `{"filter":{"kind":["a","b"]}}`, nil)
	one.publishMany("filtered", "v", 500)
	one.call(200, "POST", "/v1/topics/filtered/messages/batch", `{"messages":[{"value":"x","headers":{"kind":"c"}},{"value":"y","headers":{"kind":"a"}}]}`, nil)
	got := one.receiveN("filtered", "g", 1, "")
	if got[0].Value != "y" {
		t.Errorf("got %+v", got)
	}
	one.settle("ack", got, "")
	crash(t, c, "filtered")
	one.call(200, "POST", "/v1/topics/filtered/messages/batch", `{"messages":[{"value":"z","headers":{"kind":"b"}}]}`, nil)
	one.settle("ack", one.receiveN("filtered", "g", 1, ""), "")
	if g := one.whole("filtered", "g"); g.Filtered != 501 || g.Acked != 2 || g.Lag != 0 {
		t.Errorf("the group: %+v", g)
	}
}

type seekResult struct {
	Lag, Again, Skipped int
	InFlight            int `json:"in_flight"`
}

func (c caller) seek(topic, how, to string) (r seekResult) {
	c.t.Helper()
	c.call(200, "POST", "/v1/topics/"+topic+"/groups/g/seek"+how, `{"to":`+to+`}`, &r)
	return r
}

func seekOverCrash(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("seek", `{"partitions":1}`)
	one.publishMany("seek", "v", 5)
	got := one.receiveN("seek", "g", 5, "")
	one.settle("ack", got[:3], "")
	if r := one.seek("seek", "?dry_run=true", `{"partition":0,"offset":1}`); r != (seekResult{4, 2, 0, 2}) {
		t.Errorf("a dry run: %+v", r)
	}
	if g := one.group("seek", "g"); g.Lag != 2 || g.InFlight != 2 {
		t.Errorf("after a dry run: %+v", g)
	}
	if r := one.seek("seek", "", `{"partition":0,"offset":1}`); r != (seekResult{4, 2, 0, 2}) {
		t.Errorf("back to 1: %+v", r)
	}
	crash(t, c, "seek")
	one.call(409, "POST", "/v1/ack", got[4].Receipt, nil)
	again := one.receiveN("seek", "g", 4, "")
	for _, m := range again {
		if m.Offset < 1 || m.Attempt != 1 {
			t.Errorf("after the seek: %+v", m)
		}
	}
	one.settle("ack", again, "")
	// Museum 10: a time behind the last message of an idle stream is its end, and no error.
	if r := one.seek("seek", "", `{"time":"2200-01-01T00:00:00Z"}`); r.Lag != 0 {
		t.Errorf("to a time to come: %+v", r)
	}
	if r := one.seek("seek", "", `"earliest"`); r.Lag != 5 || r.Again != 5 {
		t.Errorf("to the beginning: %+v", r)
	}
	if r := one.seek("seek", "", `"latest"`); r.Lag != 0 || r.Skipped != 5 {
		t.Errorf("to the end: %+v", r)
	}
	crash(t, c, "seek")
	if late := one.receive("seek", "g", "wait=100ms"); len(late) != 0 {
		t.Errorf("skipped, and came: %+v", late)
	}
	one.publish("seek", "new")
	one.settle("ack", one.receiveN("seek", "g", 1, ""), "")
}

func snapshotOverCrash(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("snap", `{"partitions":1}`)
	one.publishMany("snap", "v", 4)
	got := one.receiveN("snap", "g", 4, "")
	one.settle("ack", got[1:2], "")
	one.settle("reject", got[3:], "")
	const path = "/v1/topics/snap/groups/g/snapshots"
	one.call(201, "POST", path, `{"name":"before"}`, nil)
	one.call(412, "POST", path, `{"name":"before"}`, nil)
	one.settle("ack", []message{got[0], got[2]}, "")
	one.publish("snap", "later")
	one.settle("ack", one.receiveN("snap", "g", 1, ""), "")
	crash(t, c, "snap")
	if r := one.seek("snap", "", `{"snapshot":"before"}`); r.Lag != 3 || r.Again != 3 {
		t.Errorf("back to the snapshot: %+v", r)
	}
	crash(t, c, "snap")
	again := one.receiveN("snap", "g", 3, "")
	want := []string{got[0].Value, got[2].Value, "later"}
	slices.Sort(want)
	if !slices.Equal(values(again), want) {
		t.Errorf("after the snapshot %v came, want %v", values(again), want)
	}
	if g := one.group("snap", "g"); g.Dead != 1 {
		t.Errorf("the dead letter: %+v", g)
	}
	one.settle("ack", again, "")
	var list struct{ Snapshots []struct{ Name string } }
	if one.call(200, "GET", path, "", &list); len(list.Snapshots) != 1 || list.Snapshots[0].Name != "before" {
		t.Errorf("the list: %+v", list)
	}
	var made struct{ Name string }
	if one.call(201, "POST", path, `{"name":"second"}`, &made); made.Name != "second" {
		t.Errorf("made second, and the answer is %+v", made)
	}
	one.call(200, "DELETE", path+"/before", "", nil)
	one.call(404, "POST", "/v1/topics/snap/groups/g/seek", `{"to":{"snapshot":"before"}}`, nil)
}
