package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// A group's dead letters keep to their limit by bytes, oldest first, also when a new leader has to measure them all.
func TestDeadLettersKeepToTheirBytes(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, func(s *mq.GroupSettings) { s.Dead.MaxBytes = 1000 })
	o.publish(strings.Repeat("a", 400), strings.Repeat("b", 400), strings.Repeat("c", 400), "d")
	m := o.receive(1, 10)
	o.settle(delivery.Reject, m[1])
	o.settle(delivery.Reject, m[0], m[3])
	o.measured()
	if n := o.onDead("count", nil); n != 3 {
		t.Fatalf("%d dead letters of 801 bytes", n)
	}
	o.restart()
	o.settle(delivery.Reject, m[2])
	o.measured()
	list := o.deadList()
	if len(list) != 3 || !strings.HasPrefix(list[0], "0 ") {
		t.Errorf("of 1,201 bytes these are left: %q", list)
	}
	if types := strings.Join(o.traceTypes(1), " "); types != "PUBLISHED REPLICATED DELIVERED DEAD DEAD_REMOVED RETAINED" {
		t.Errorf("traced: %s", types)
	}
}

// measured waits until the sizes of dead letters are known, and what follows from them is in the journal.
func (o *one) measured() {
	for busy := true; busy; {
		ch := make(chan bool)
		o.p.post(func() {
			l := o.p.lead
			o.p.learnSizes(l)
			ch <- l.sizing || l.machine.Pending() > 0 || l.seg.Commit() != l.seg.Next()
		})
		busy = <-ch
	}
}

// A trace ends with how long the message is kept, as far as anybody can tell.
func TestTraceSaysHowLongAMessageIsKept(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.publish("x")
	for want, r := range map[string]mq.Retention{
		"nothing limits how long":          {},
		"by retention.time":                {Time: mq.Duration(time.Hour)},
		"until it is over retention.bytes": {Bytes: 5},
		"by retention.time, or until it is over retention.bytes; longer while an active group has not settled it": {
			Time: mq.Duration(time.Hour), Bytes: 5, KeepUnsettled: true},
	} {
		o.world.topic.Retention = r
		res := call(t, func(done func(*mqpb.TraceResponse, error)) { o.p.Trace(0, false, done) })
		last := res.Events[len(res.Events)-1]
		if last.Type != eventRetained || last.Reason != want || (last.Until != 0) != (r.Time != 0) || r.Time != 0 && last.Until != res.Events[0].At+int64(time.Hour) {
			t.Errorf("%+v: %v", r, last)
		}
	}
}
