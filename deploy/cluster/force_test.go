package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/coordinator"
)

// nobodyIsLost makes coordinators wait for nodes that are away longer than any test lasts.
func nobodyIsLost(_ int, cfg *coordinator.Config) { cfg.RepairAfter = time.Hour }

// Both of two replicas must have a message. With one of them gone for good the other one is copied to a third node at
// once: publishing and consuming do not wait until the first is taken for lost.
func TestEndSuffixIsCopiedAtOnce(t *testing.T) {
	c := start(t, Options{Nodes: 3, CoordinatorConfig: nobodyIsLost})
	one := via(t, c, 1)
	one.topic("two", `{"partitions":1,"replicas":2,"ack_quorum":2}`)
	for i := range 20 {
		one.publish("two", fmt.Sprintf("v-%d", i))
	}
	gone := c.NodeNamed(one.leader("two", 0))
	began := time.Now()
	must(t, gone.Kill())
	publishAnyway(t, one, "two", "v-20")
	t.Logf("the first publish was acknowledged %s after the leader was killed", time.Since(began))
	if got := values(one.receiveN("two", "g", 21, "")); !slices.Equal(got, numbered("v", 21)) {
		t.Errorf("received %v", got)
	}
}
