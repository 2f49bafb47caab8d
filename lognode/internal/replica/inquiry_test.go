package replica

import (
	"testing"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

// silentHolder makes the node's partition one whose last segment is whole here and on b, opens the next one here, and has c say
// nothing of it. It returns where that segment ends and the sum of its entries.
func silentHolder(o *one, c func(end mq.Position, sum uint64) (mq.Position, uint64)) (peers others) {
	o.t.Helper()
	o.publish("a", "b", "c")
	o.publish("d")
	o.publish("e") // three entries, as the others say
	o.open()
	o.beginAgain(func(h *mq.Head, sealed []mq.Segment) {
		self := o.store.Identity().Store
		last := &sealed[len(sealed)-1]
		info, _ := o.store.Segment(last.ID)
		tail, sum := c(last.End, info.Sum)
		peers = others{tails: map[mq.StoreID]mq.Position{"b": last.End, "c": tail}, sums: map[mq.StoreID]uint64{"b": info.Sum, "c": sum},
			slow: "c", silent: make(chan struct{}), copied: make(chan mq.StoreID, 10)}
		last.Replicas = []mq.Replica{{Store: self, Node: "n"}, {Store: "b", Node: "node-b"}, {Store: "c", Node: "node-c"}}
		last.Quorum = 2
		copied := *last
		h.Last = &copied
		o.env.Peers = peers
	})
	return peers
}

// A new leader serves as soon as a quorum has the last segment, though a node hangs; when it answers after all and lacks something,
// it gets that.
func TestOpeningDoesNotWaitForASilentHolder(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	peers := silentHolder(o, func(_ mq.Position, sum uint64) (mq.Position, uint64) { return mq.Position{Offset: 3}, sum })
	o.publish("g") // served while c is silent
	select {
	case to := <-peers.copied:
		t.Fatalf("%s was sent copies before it had said what it lacks", to)
	default:
	}
	close(peers.silent)
	if to := <-peers.copied; to != "c" {
		t.Fatalf("%s was sent copies, not c", to)
	}
}

// What comes late is looked at like the rest.
func TestLateAnswerShowsThatCopiesDiffer(t *testing.T) {
	t.Parallel()
	o, a := newOne(t), &alarms{stopped: make(chan struct{}, 10)}
	o.log = a.logger()
	o.restart()
	peers := silentHolder(o, func(end mq.Position, sum uint64) (mq.Position, uint64) { return end, sum + 1 })
	o.publish("g")
	close(peers.silent)
	<-a.stopped
	if err := o.fault(); segment.Invariant(err) != "I3" {
		t.Fatalf("stopped by %v", err)
	}
}
