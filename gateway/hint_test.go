package gateway

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// The old leader knows who leads now, and etcd has not told this gateway yet: the member that it watches may hang.
func TestPublishGoesWhereTheOldLeaderSends(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	next := startLeader(t, e.view.Secret)
	node, err := e.store.Register(t.Context(), meta.NodeKey("node-2"),
		meta.Node{Name: "node-2", Store: "2222", Boot: 1, Addr: next.addr}, time.Minute, nil)
	e.check(err)
	t.Cleanup(node.Close)
	e.leader.with(func() {
		e.leader.refuse = func(frame.Type, mq.PartitionID) error {
			return &mqerr.Error{Code: mqerr.NotLeader, Leader: "node-2"}
		}
	})
	if a := e.post("/v1/topics/t/messages", "x"); a.status != 201 {
		t.Errorf("%d %s", a.status, a.body)
	}
	stored := 0
	next.with(func() {
		for _, p := range next.parts {
			stored += len(p.batches)
		}
	})
	if stored != 1 {
		t.Errorf("the new leader has %d batches, the view names node-1", stored)
	}
}
