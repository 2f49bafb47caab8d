package cluster

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// Redrives, deletions and listings of dead letters that meet the death of a leader wait for the next one, and do what was asked
// once: no more than their limit, and nothing is left out.
func TestEndDeadLettersThroughAKill(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3})
	one := via(t, c, 1)
	one.topic("kill", `{"partitions":1,"replicas":3}`)
	one.call(201, "PUT", "/v1/topics/kill/groups/g", impatient, nil)
	const n = 4000
	for range n / 1000 {
		one.publishMany("kill", "v", 1000)
	}
	for left := n; left > 0; {
		got := one.receiveN("kill", "g", 1000, "")
		one.settle("reject", got, "")
		left -= len(got)
	}
	killed := func(act func()) {
		t.Helper()
		leader := c.NodeNamed(one.leader("kill", 0))
		must(t, leader.Kill())
		act()
		must(t, leader.Start(ctxFor(t)))
		eventually(t, "there is a leader", func() bool { return one.leader("kill", 0) != "" })
	}
	dead := func(when string, want int) {
		t.Helper()
		var r deadResult // waits for a leader, which figures do not
		if one.call(200, "POST", "/v1/topics/kill/groups/g/redrive?dry_run=true", "", &r); r.Messages != want {
			t.Errorf("%s %d are dead, want %d", when, r.Messages, want)
		}
	}
	var moved deadResult
	killed(func() {
		one.call(200, "POST", "/v1/topics/kill/groups/g/redrive", `{"limit":1000}`, &moved)
		if moved.Messages != 1000 {
			t.Errorf("with the leader dead: %+v", moved)
		}
	})
	killed(func() {
		var list struct{ Messages []struct{ ID string } }
		one.call(200, "GET", "/v1/topics/kill/groups/g/dead?limit=3", "", &list)
		if len(list.Messages) != 3 {
			t.Errorf("%d are listed", len(list.Messages))
		}
		var why struct{ State string }
		one.call(200, "GET", "/v1/messages/"+list.Messages[0].ID+"/explain?group=g", "", &why)
		if why.State != "dead" {
			t.Errorf("explained %+v", why)
		}
	})
	// The leader dies somewhere on the way.
	left := n - 1000
	for _, after := range []time.Duration{0, 2 * time.Millisecond, 8 * time.Millisecond} {
		var work sync.WaitGroup
		work.Go(func() {
			var r deadResult
			one.call(200, "POST", "/v1/topics/kill/groups/g/redrive", `{"limit":500}`, &r)
			if r.Messages != 500 {
				t.Errorf("killed after %s: %+v", after, r)
			}
		})
		wait := time.NewTimer(after)
		<-wait.C
		killed(work.Wait)
		left -= 500
		dead(fmt.Sprintf("killed after %s", after), left)
	}
	var removed deadResult
	killed(func() { one.call(200, "DELETE", "/v1/topics/kill/groups/g/dead", "", &removed) })
	if removed.Messages != left {
		t.Errorf("removed %+v, want %d", removed, left)
	}
	dead("after the removal", 0)
}
