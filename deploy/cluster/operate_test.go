package cluster

import (
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/metrics"
)

// The operator's calls over HTTP, on a cluster of three.
func TestEndOperatorsCalls(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3})
	one := via(t, c, 1)
	one.topic("led", `{"partitions":1,"replicas":3}`)
	was := one.leader("led", 0)
	var moved struct{ Leader string }
	one.call(200, "POST", "/v1/topics/led/partitions/0/move-leader", "", &moved)
	if moved.Leader == was || moved.Leader == "" {
		t.Fatalf("moved from %s to %s", was, moved.Leader)
	}
	one.call(200, "POST", "/v1/topics/led/partitions/0/move-leader", `{"to":"`+moved.Leader+`"}`, nil) // it leads already
	publishAnyway(t, one, "led", "v-0")

	one.call(422, "POST", "/v1/topics/led/partitions/0/move-leader", `{"to":"node-9"}`, nil)
	one.call(404, "POST", "/v1/topics/led/partitions/7/move-leader", "", nil)
	one.call(404, "POST", "/v1/topics/led/partitions/x/move-leader", "", nil)
	one.call(404, "POST", "/v1/nodes/node-9/drain", "", nil)
	one.call(400, "POST", "/v1/nodes/..%2f..%2fx/drain", "", nil)

	var node, after struct{ Draining bool }
	one.call(200, "POST", "/v1/nodes/"+moved.Leader+"/drain", "", &node)
	if !node.Draining {
		t.Error("the answer does not say that it drains")
	}
	others := []string{"node-1", "node-2", "node-3"}
	others = slices.DeleteFunc(others, func(n string) bool { return n == moved.Leader })
	store, view := chains(t, c)
	for leader := moved.Leader; !slices.Contains(others, leader); {
		leader = leaderOf(t, store, view, "led").LeaderNode()
	}
	one.call(200, "DELETE", "/v1/nodes/"+moved.Leader+"/drain", "", &after)
	if after.Draining {
		t.Error("the answer says that it still drains")
	}
	publishAnyway(t, one, "led", "v-1")
	if got := values(one.receiveN("led", "g", 2, "")); !slices.Equal(got, []string{"v-0", "v-1"}) {
		t.Errorf("%v", got)
	}
	// All that the three tiers count by now, wherever it was registered.
	if problems, err := metrics.Lint(c.Metrics()); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
}
