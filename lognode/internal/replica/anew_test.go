package replica

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A leader goes on over a roll, and then its copy of the end of the segment before, which no other replica ever had, is lost.
// Who waits for that end does not hear that it is kept, and no group has what was there.
func TestLossBehindARollIsKnown(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.publish("a")
	o.followers = []mq.Replica{{Store: "b", Node: "node-b"}, {Store: "c", Node: "node-c"}}
	o.open()
	o.untilServed()
	last := *o.world.head.Open
	o.inside(func(*leadership) { // b and c answer, and have nothing
		o.env.LossPatience = time.Nanosecond
		o.env.Peers = others{tails: map[mq.StoreID]mq.Position{"b": last.Base, "c": last.Base}, fences: make(chan uint64, 1000)}
	})
	answers := make(chan answer, 1)
	body, n := batchOf("b")
	o.p.Append(body, n, func(ft frame.Type, body link.Encoder) { answers <- answer{ft, body.AppendTo(nil)} })
	o.until("it is not placed", func(l *leadership) bool { return l.seg.Next().Offset == last.Base.Offset+1 })
	o.followers = nil
	o.open()
	if err := o.store.RemoveSegments([]mq.SegmentID{last.ID}); err != nil {
		t.Fatal(err)
	}
	if err := (<-answers).err(); !mqerr.Is(err, mqerr.NotLeader) {
		t.Errorf("a publish of which nothing is left was answered %v", err)
	}
	o.untilServed()
	o.world.mu.Lock()
	holes := o.world.head.Holes
	o.world.mu.Unlock()
	if len(holes) != 1 || holes[0].From != last.Base || holes[0].To.Offset != last.Base.Offset+1 {
		t.Fatalf("recorded %+v", holes)
	}
	if f := o.publish("c"); f.First != last.Base.Offset+1 {
		t.Errorf("the next message got offset %d", f.First)
	}
	if got := o.receive(1, 10); len(got) != 2 || got[0].value != "a" || got[1].value != "c" {
		t.Errorf("received %+v", got)
	}
}

// That a range is recorded as lost may be known from the partition's key only, as its writer did not hear whether it did it. The
// leader that serves then asks for the next segment, and does not go on over that with what it has.
func TestLossThatTheKeyTellsIsKnown(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.publish("a")
	var from mq.Position
	o.inside(func(l *leadership) { from = l.seg.Next() })
	o.publish("b", "c")
	o.open()
	o.untilServed()
	w := o.world
	w.mu.Lock()
	last := *w.head.Last
	last.Held = &from
	w.head.Last, w.sealed = &last, []mq.Segment{last}
	w.head.Holes, w.head.Revision = []mq.Hole{{From: from, To: last.End, Segment: last.ID}}, w.head.Revision+1
	open, head := w.head.Open.ID, w.head
	w.mu.Unlock()
	o.p.SetHead(head)
	if got := <-o.wants; got != open {
		t.Errorf("segment %d is to be sealed, %d is open", got, open)
	}
	o.open()
	o.untilServed()
	if got := o.receive(1, 10); len(got) != 1 || got[0].value != "a" {
		t.Errorf("received %+v", got)
	}
}
