package replica

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A leader that hears that it was named serves although etcd is away since: over a roll, and anew with all that the chain holds.
func TestLeadsThoughEtcdVanishes(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.publish("a")
	o.open()
	o.publish("b")
	o.vanish = true
	o.open()
	o.publish("c")
	o.settle(delivery.Ack, o.receive(1, 1)...)

	o.world.mu.Lock()
	o.world.broken = nil
	o.world.mu.Unlock()
	o.restart()
	o.publish("d")
	var values []string
	for _, g := range o.receive(1, 10) {
		values = append(values, g.value)
	}
	if len(values) != 3 || values[0] != "b" || values[2] != "d" {
		t.Errorf("received %v after an ack of a", values)
	}
}

// A leader that hears nothing of its successor but what that one sends leaves off, and says who leads now.
func TestLeavesOffForTheNextLeader(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.publish("a")
	first := o.world.head.Open
	next := mq.Incarnation{Store: "2222", Boot: 1}
	seg := mq.Segment{ID: 77, Partition: testPartition, Number: first.Number + 1, Base: mq.Position{Offset: 1}, Quorum: 1, Leader: next,
		Replicas: []mq.Replica{{Store: next.Store, Node: "other"}, {Store: first.Leader.Store, Node: "n"}}}
	if err := o.store.CreateSegments([]mq.Segment{seg}); err != nil {
		t.Fatal(err)
	}
	info, _ := o.store.Segment(seg.ID)
	o.p.Adopt(info)
	sealed := make(chan bool, 1)
	o.p.BeginSeal(first.ID, func(known bool) { sealed <- known })
	<-sealed
	asked := make(chan frame.Ack, 10)
	o.p.Ask(next, seg.ID, func(a frame.Ack) { asked <- a })
	if a := <-asked; a.Segment != seg.ID {
		t.Fatalf("answers %+v", a)
	}
	for range 2 { // what waits for the next segment, and what comes after
		body, n := batchOf("b")
		err := ask(t, func(r Reply) { o.p.Append(body, n, r) }).err()
		if e := mqerr.Of(err); e == nil || e.Code != mqerr.NotLeader || e.Leader != "other" {
			t.Errorf("answered %v", err)
		}
	}
}

// A leader that was sealed by somebody who then did nothing more asks for its next segment.
func TestAsksForTheNextSegment(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	id := o.world.head.Open.ID
	o.p.BeginSeal(id, func(bool) {})
	select {
	case asked := <-o.wants:
		if asked != id {
			t.Errorf("asked for another one than %d: %d", id, asked)
		}
	case <-time.After(time.Minute):
		t.Error("nobody is asked")
	}
}
