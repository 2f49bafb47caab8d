package cluster

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode"
)

// Two of three nodes are gone, and with them the quorum: nothing can be written, and nobody leads. What lies in sealed
// segments is read from the node that is left, by offset, by time and by id; what only a leader can tell is answered 503.
func TestEndSealedSegmentsAreReadWithoutALeader(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3, CoordinatorConfig: nobodyIsLost,
		NodeConfig: func(_ int, cfg *lognode.Config) { // leases that a busy machine does not lose: nothing is sealed by itself
			cfg.BallastBytes, cfg.VolumeBytes, cfg.LeaseTTL = 1<<20, 32<<20, 30*time.Second
		}})
	one := via(t, c, 1)
	one.topic("past", `{"partitions":1,"replicas":3}`)
	before := time.Now()
	first := one.publish("past", "v-0")
	for i := 1; i < 20; i++ {
		one.publish("past", fmt.Sprintf("v-%d", i))
	}
	one.call(200, "POST", "/v1/topics/past/partitions/0/move-leader", `{}`, nil)
	one.publish("past", "open")
	store, view := chains(t, c)
	open := leaderOf(t, store, view, "past")
	_, sealed, err := store.Chain(ctxFor(t), open.Partition)
	must(t, err)
	if len(sealed) == 0 || sealed[len(sealed)-1].End.Offset != 20 {
		t.Fatalf("sealed: %v", sealed)
	}
	leader := open.LeaderNode()
	for _, r := range sealed[len(sealed)-1].Replicas {
		if r.Node != leader {
			must(t, c.NodeNamed(r.Node).Kill())
			break
		}
	}
	must(t, c.NodeNamed(leader).Kill()) // last: without it two that live would seal what it leads, and lead on
	var read struct {
		Messages   []message
		NextCursor string `json:"next_cursor"`
		AtEnd      bool   `json:"at_end"`
	}
	path := "/v1/topics/past/messages?"
	one.call(200, "GET", path+"partition=0&from=5&limit=10", "", &read)
	if len(read.Messages) != 10 || read.Messages[0].Value != "v-5" || read.AtEnd {
		t.Errorf("from an offset: %v", values(read.Messages))
	}
	one.call(200, "GET", path+"limit=100&from="+url.QueryEscape(before.Format(time.RFC3339Nano)), "", &read)
	if got := values(read.Messages); !slices.Equal(got, numbered("v", 20)) || read.AtEnd || read.NextCursor == "" {
		t.Errorf("from a time: %v, at the end: %t", got, read.AtEnd)
	}
	one.call(200, "GET", "/v1/messages/"+first.ID, "", nil)
	if status, text, err := one.try(ctxFor(t), "GET", path+"cursor="+read.NextCursor, ""); status != 503 {
		t.Errorf("a read of what only a leader knows is answered %d %s, %v", status, text, err)
	}
}
