package gateway

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
)

// A lease that ended says that etcd has not heard of the node, not that the node is gone.
func TestPublishOutlastsTheLeadersLease(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	if a := e.post("/v1/topics/t/messages", "x"); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	// The key goes over to another lease, which ends.
	again, err := e.store.Register(t.Context(), meta.NodeKey("node-1"),
		meta.Node{Name: "node-1", Store: "5707e", Boot: 1, Addr: e.leader.addr}, time.Minute, nil)
	e.check(err)
	again.Close()
	e.check(e.g.view.WaitFor(t.Context(), func(v *meta.View) bool { return len(v.Nodes()) == 0 }))
	if a := e.post("/v1/topics/t/messages", "x"); a.status != 201 {
		t.Errorf("with the leader's stream open: %d %s", a.status, a.body)
	}
}
