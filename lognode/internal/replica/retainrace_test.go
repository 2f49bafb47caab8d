package replica

import (
	"testing"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// settledSegments is one with a first segment of two messages, which group 1 has settled, and whose idempotency keys must
// be carried on: that is read beside the partition, and other requests come in between.
func settledSegments(t *testing.T) (*one, []got) {
	o := newOne(t)
	o.group(1, nil)
	o.appendKeyed(keyed{1, 1}, keyed{2, 1})
	o.open()
	o.publish("later")
	o.open()
	o.world.topic.Partitions, o.world.topic.Retention = 1, mq.Retention{Time: 1, KeepUnsettled: true}
	return o, o.receive(1, 2)
}

// A seek back that is answered while retention prepares to remove a segment keeps it, as one that came before does.
func TestSeekBackWhileASegmentGoesKeepsIt(t *testing.T) {
	t.Parallel()
	o, m := settledSegments(t)
	o.settle(delivery.Ack, m...)
	moved := make(chan *mqpb.SeekResult, 1)
	o.together(func() {
		o.p.Retain()
		o.p.Seek(&mqpb.SeekRequest{Group: 1, To: "earliest"}, func(r *mqpb.SeekResult) { moved <- r })
	})
	if r := <-moved; r.Code != 0 || r.Lag != 3 {
		t.Fatalf("the seek: %v", r)
	}
	o.settled()
	if first := o.first(); first != 0 {
		t.Errorf("offset %d is the first one, though the group wants 0 again", first)
	}
	if m := o.receive(1, 10); len(m) != 3 || m[0].receipt.Offset != 0 {
		t.Errorf("after the seek: %+v", m)
	}
}

// So does a message that dies meanwhile, until it is carried too.
func TestMessageThatDiesWhileItsSegmentGoesIsCarried(t *testing.T) {
	t.Parallel()
	o, m := settledSegments(t)
	o.world.topic.Retention.KeepUnsettled = false
	settled := make(chan []delivery.SettleResult, 1)
	o.together(func() {
		o.p.Retain()
		o.p.post(func() {
			settled <- o.p.lead.machine.Settle(1, []delivery.SettleItem{{Receipt: m[1].receipt, Outcome: delivery.Reject}}, nil)
		})
	})
	if r := <-settled; r[0].Code != delivery.SettleOK || r[0].State != delivery.StateDead {
		t.Fatalf("the rejection: %+v", r)
	}
	o.settled()
	for range 3 {
		o.retain()
	}
	if first, dead := o.first(), o.deadList(); first != 2 || len(dead) != 1 {
		t.Errorf("offset %d is the first one, want 2; dead: %v", first, dead)
	}
}

// A group that is made when the state has forgotten a segment, and etcd has not yet, begins behind it.
func TestGroupMadeWhileASegmentGoesBeginsBehindIt(t *testing.T) {
	t.Parallel()
	o, m := settledSegments(t)
	o.settle(delivery.Ack, m...)
	o.onPartition(func(l *leadership) { l.machine.Drop(1, 2) }) // as forgetFirst does
	o.group(2, nil)
	for range 2 {
		if f := o.figures(2); f.Lag != 1 {
			t.Errorf("%v", f)
		}
		o.restart()
		o.first()
	}
	if m := o.receive(2, 10); len(m) != 1 || m[0].value != "later" {
		t.Errorf("received %v", values(m))
	}
}
