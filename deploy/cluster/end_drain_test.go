package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
)

// One of two nodes is emptied while somebody publishes: of a topic with one replica it has all there is. When the answer
// says that nothing is left the node goes for good, and everything is on the other one.
func TestEndDrainTakesTheOnlyReplicaAlong(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 2})
	one := via(t, c, 1)
	one.topic("single", `{"partitions":1,"replicas":1}`)
	var sent []string
	publish := func() {
		sent = append(sent, fmt.Sprintf("v-%02d", len(sent)))
		publishAnyway(t, one, "single", sent[len(sent)-1])
	}
	for range 20 {
		publish()
	}
	leaving := one.leader("single", 0)
	var node api.NodeInfo
	eventually(t, "the node is empty", func() bool {
		node = api.NodeInfo{}
		one.call(200, "POST", "/v1/nodes/"+leaving+"/drain", "", &node)
		if len(sent) < 90 { // a page holds 100
			publish()
		}
		return node.Leads+node.Replicas+node.Sealed == 0
	})
	if now := one.leader("single", 0); now == leaving || node.NeededBy != 0 {
		t.Errorf("led by %s, and the answer is %+v", now, node)
	}
	must(t, c.NodeNamed(leaving).Stop(ctxFor(t)))
	publish()
	if got := values(one.untilRead("single", len(sent))); !slices.Equal(got, sent) {
		t.Errorf("read %v, want %v", got, sent)
	}
}

// Of three nodes with three replicas none can be emptied, though the two others go on: the dry run says so before.
func TestEndDrainWithoutAFourthNode(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3})
	one := via(t, c, 1)
	one.topic("all", `{"partitions":2,"replicas":3}`)
	one.publish("all", "v")
	var node api.NodeInfo
	one.call(200, "POST", "/v1/nodes/node-2/drain?dry_run=true", "", &node)
	if !node.DryRun || node.NeededBy != 0 || node.NodesWanted != 1 {
		t.Errorf("%+v, want one more node", node)
	}
}

// With two replicas on two nodes nobody can leave, and the answer says so.
func TestEndDrainSaysWhatCannotLeave(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 2})
	one := via(t, c, 1)
	one.topic("both", `{"partitions":3,"replicas":2}`)
	one.publish("both", "v")
	var node api.NodeInfo
	one.call(200, "POST", "/v1/nodes/node-2/drain", "", &node)
	if !node.Draining || node.NeededBy != 3 || node.NodesWanted != 1 {
		t.Errorf("%+v, want 3 partitions that can't leave", node)
	}
	var again api.NodeInfo
	one.call(200, "DELETE", "/v1/nodes/node-2/drain", "", &again)
	if again.Draining || again.NeededBy != 0 {
		t.Errorf("%+v", again)
	}
}
