package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/lognode"
)

// Dead letters outlive what retention removes: whoever leads then lists, reads, traces, explains, deletes and redrives them as
// before, after kills of the leader and a restart of it.
func TestEndDeadLettersOutliveRetention(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3, NodeConfig: func(_ int, cfg *lognode.Config) {
		cfg.BallastBytes, cfg.VolumeBytes, cfg.SegmentBytes = 1<<20, 32<<20, 1<<20
	}})
	one := via(t, c, 1)
	one.topic("kept", `{"partitions":1,"replicas":3,"retention":{"bytes":1048576,"keep_unsettled":false}}`)
	one.call(201, "PUT", "/v1/topics/kept/groups/g", impatient, nil)
	one.publishMany("kept", "v", 4)
	dead := one.receiveN("kept", "g", 4, "")
	one.settle("reject", dead, `,"reason":"card declined"`)
	first := func() int {
		var topic struct {
			Partitions []struct {
				First int `json:"first_offset"`
			}
		}
		one.call(200, "GET", "/v1/topics/kept", "", &topic)
		return topic.Partitions[0].First
	}
	n := 0
	fill := func(to int) {
		t.Helper()
		eventually(t, fmt.Sprintf("retention removes up to %d", to), func() bool {
			publishAnyway(t, one, "kept", fmt.Sprintf("%d-", n)+strings.Repeat("x", 200<<10))
			n++
			return first() > to
		})
	}
	look := func(when string, left []message) {
		t.Helper()
		var list struct {
			Messages []struct{ ID, Reason, State string }
		}
		one.call(200, "GET", "/v1/topics/kept/groups/g/dead", "", &list)
		if len(list.Messages) != len(left) {
			t.Fatalf("%s %d dead letters are there, want %d", when, len(list.Messages), len(left))
		}
		for i, m := range left {
			var read message
			var trace struct {
				Events []struct{ Type string }
			}
			var why struct{ State string }
			one.call(200, "GET", "/v1/messages/"+m.ID, "", &read)
			one.call(200, "GET", "/v1/messages/"+m.ID+"/trace", "", &trace)
			one.call(200, "GET", "/v1/messages/"+m.ID+"/explain?group=g", "", &why)
			var types []string
			for _, e := range trace.Events {
				types = append(types, e.Type)
			}
			if list.Messages[i].ID != m.ID || list.Messages[i].Reason != "card declined" || read.Value != m.Value || why.State != "dead" ||
				!slices.Equal(types[:4], []string{"PUBLISHED", "REPLICATED", "DELIVERED", "DEAD"}) {
				t.Errorf("%s: %+v, read %q, explained %+v, traced %v", when, list.Messages[i], read.Value, why, types)
			}
		}
	}
	fill(3)
	look("carried", dead)
	leader := c.NodeNamed(one.leader("kept", 0))
	must(t, leader.Kill())
	eventually(t, "another one leads", func() bool { l := one.leader("kept", 0); return l != "" && l != leader.Name() })
	look("at the next leader", dead)
	must(t, leader.Start(ctxFor(t)))
	fill(first() + 12) // what was carried is carried again
	look("carried again", dead)
	crash(t, c, "kept")
	one.call(200, "DELETE", "/v1/topics/kept/groups/g/dead?ids="+dead[0].ID, "", nil)
	look("after a restart", dead[1:])
	var moved deadResult
	one.call(200, "POST", "/v1/topics/kept/groups/g/redrive", "", &moved)
	if moved.Messages != 3 {
		t.Errorf("redriven: %+v", moved)
	}
	crash(t, c, "kept")
	again := one.receiveN("kept", "g", 3, "")
	if !slices.Equal(values(again), values(dead[1:])) || again[0].ID != dead[1].ID || again[0].Attempt != 1 {
		t.Errorf("redriven: %v", values(again))
	}
	one.settle("ack", again, "")
	one.call(404, "GET", "/v1/messages/"+dead[1].ID, "", nil)
}
