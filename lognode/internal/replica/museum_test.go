package replica

import (
	"testing"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Museum 10: a seek by time on an idle stream fails. A time behind everything that there is means the end, for a read and for
// a group; also in an empty partition, and when all that there is lies in sealed segments.
func TestMuseum10ATimeBehindEverythingIsTheEnd(t *testing.T) {
	o := newOne(t)
	o.group(1, nil)
	const later = int64(1) << 62
	check := func(end uint64) {
		t.Helper()
		x := ask(t, func(reply Reply) {
			o.p.Read(frame.Read{Partition: testPartition, From: frame.Place{Where: frame.AtTime, Value: uint64(later)},
				To: frame.Place{Where: frame.Latest}, Limit: 10, MaxBytes: 1 << 20}, reply)
		})
		var d frame.ReadDone
		if err := x.err(); err != nil || d.Parse(x.body) != nil || d.Next != end || len(d.Chunks) != 0 {
			t.Errorf("a read from a later time on: %+v %v", d, err)
		}
		moved := make(chan *mqpb.SeekResult, 1)
		o.p.Seek(&mqpb.SeekRequest{Group: 1, To: "time", Time: later}, func(r *mqpb.SeekResult) { moved <- r })
		if r := <-moved; r.Code != 0 || r.To != end {
			t.Errorf("a group that seeks a later time: %v; the end is %d", r, end)
		}
		if got := o.receive(1, 10); len(got) != 0 {
			t.Errorf("and receives %v", values(got))
		}
	}
	check(0)
	o.publish("a", "b")
	check(2)
	o.restart() // now they are in a sealed segment, and the open one is empty
	check(2)
	if f := o.publish("c"); f.First != 2 {
		t.Errorf("the next message got offset %d", f.First)
	}
	if got := values(o.receive(1, 10)); len(got) != 1 || got[0] != "c" {
		t.Errorf("received %v", got)
	}
}
