package replica

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// removal is what the leader says of other settings.
func (o *one) removal(r mq.Retention) *mqpb.Removal {
	o.t.Helper()
	t := o.world.topic
	t.Partitions, t.Retention = 1, r
	figures := make(chan *mqpb.PartitionFigures, 1)
	o.p.Figures(&t, func(f *mqpb.PartitionFigures) { figures <- f })
	f := <-figures
	if f.Code != 0 || f.Removal == nil {
		o.t.Fatalf("answered %v", f)
	}
	return f.Removal
}

// The leader tells before what retention would remove by other settings: whole segments that nothing keeps, and never the newest
// sealed one. Nothing of that happens until the settings are those.
func TestRemovalIsToldBefore(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.segments() // the offsets 0 and 1, 2 and 3, 4 and 5, each a segment; 6 is in the open one
	small := mq.Retention{Bytes: 1, KeepUnsettled: true}
	check := func(when string, r mq.Retention, segments, messages uint64, kept bool) {
		t.Helper()
		got := o.removal(r)
		if got.Segments != segments || got.Messages != messages || kept != (got.KeptFor != "") || (got.Bytes > 0) != (segments > 0) {
			t.Errorf("%s: %v, want %d segments of %d messages, kept %v", when, got, segments, messages, kept)
		}
	}
	check("a group has settled nothing", small, 0, 0, true)
	check("nothing is kept for groups", mq.Retention{Bytes: 1}, 2, 4, false)
	check("no limit", mq.Retention{KeepUnsettled: true}, 0, 0, false)
	check("more than there is", mq.Retention{Bytes: 1 << 40}, 0, 0, false)
	check("nothing is so old", mq.Retention{Time: mq.Duration(time.Hour)}, 0, 0, false)
	check("everything before the newest message is too old", mq.Retention{Time: 1}, 2, 4, false)

	m := o.receive(1, 10)
	o.settle(delivery.Ack, m[0])
	o.settle(delivery.Reject, m[1])
	o.settle(delivery.Ack, m[2])
	check("the second segment is not settled", small, 1, 1, true) // the dead one is kept elsewhere
	o.settle(delivery.Ack, m[3:]...)
	check("all is settled", small, 2, 3, false)

	o.retain()
	if first := o.first(); first != 0 {
		t.Fatalf("a question removed what is before offset %d", first)
	}
	o.world.topic.Partitions, o.world.topic.Retention = 1, small
	for range 4 {
		o.retain()
	}
	if first := o.first(); first != 4 {
		t.Errorf("retention left what begins at %d, and was to leave what begins at 4", first)
	}
	check("it is done", small, 0, 0, false)
}
