package coordinator

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// A node that gets no new segments is no reason to open one with more replicas: there would be one after the other.
func TestNodesToAvoidReplaceNobody(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name  string
		node  func(*meta.Node)
		lacks bool
	}{
		{"a node like the others", func(*meta.Node) {}, true},
		{"its disk is full", func(n *meta.Node) { n.Full = true }, false},
		{"its clock is off", func(n *meta.Node) { n.Skewed = true }, true},
		{"it is about to stop", func(n *meta.Node) { n.Stopping = true }, false},
		{"it is to be emptied", func(n *meta.Node) { n.Draining = true }, false},
	} {
		log := slog.New(slog.DiscardHandler)
		k := &controller{watch: stopwatch{time.Unix(1000, 0)}, Coordinator: &Coordinator{log: log, view: meta.NewView(nil, log)}, book: newBook()}
		nodes := []meta.Node{{Name: "a", Store: "a"}, {Name: "b", Store: "b"}, {Name: "d", Store: "d"}}
		x.node(&nodes[2])
		k.book.update(nodes, time.Unix(1000, 0))
		c := k.observe(time.Unix(1000, 0))
		h := mq.Head{Replicas: 3, Quorum: 2, Open: &mq.Segment{ID: 7, Quorum: 2, Leader: mq.Incarnation{Store: "a"},
			Replicas: []mq.Replica{{Store: "a"}, {Store: "b"}, {Store: "c"}}}} // c is gone
		if got := seal.Degraded(&h, &c); got != x.lacks {
			t.Errorf("%s: a segment without it is degraded: %v", x.name, got)
		}
	}
}

// The balance gives nothing to a node that would ask to be rid of it, or is to be rid of it.
func TestBalanceLeavesOutWhoShouldNotLead(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		node func(*meta.Node)
		to   bool
	}{
		"like the others": {func(*meta.Node) {}, true},
		"full":            {func(n *meta.Node) { n.Full = true }, false},
		"clock off":       {func(n *meta.Node) { n.Skewed = true }, false},
		"slow":            {func(n *meta.Node) { n.Slow = true }, false},
		"stopping":        {func(n *meta.Node) { n.Stopping = true }, false},
		"draining":        {func(n *meta.Node) { n.Draining = true }, false},
	} {
		k := &controller{book: newBook(), past: map[mq.PartitionID]seal.History{}}
		nodes := []meta.Node{{Name: "a", Store: "a"}, {Name: "b", Store: "b"}, {Name: "c", Store: "c"}}
		x.node(&nodes[2])
		k.book.update(nodes, time.Unix(1000, 0))
		c := seal.Cluster{Alive: map[mq.StoreID]uint64{"a": 0, "b": 0, "c": 0}, Takers: 3}
		h := mq.Head{Replicas: 3, Quorum: 2, Open: &mq.Segment{Quorum: 2, Leader: mq.Incarnation{Store: "a"},
			Replicas: []mq.Replica{{Store: "a"}, {Store: "b"}, {Store: "c"}}}}
		leads := k.leads([]mq.Head{h}, &c)
		if len(leads) != 1 || slices.Contains(leads[0].Replicas, "c") != x.to || !slices.Contains(leads[0].Replicas, "b") {
			t.Errorf("%s: %+v", name, leads)
		}
	}
}
