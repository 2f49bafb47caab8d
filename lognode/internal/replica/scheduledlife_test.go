package replica

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// What retention by time may not remove for now is not written again either.
func TestWhatRetentionKeepsIsNotCarriedForward(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.publish("first")
	o.open()
	o.schedule(time.Hour, "waits")
	o.open()
	o.segments()
	o.world.topic.Retention = mq.Retention{Time: 1}
	for range 4 {
		o.retain() // the first segment goes; the second is more than a tenth
	}
	place := make(chan mq.Position, 1)
	o.p.post(func() { place <- o.p.lead.ahead.carry.to })
	if to := <-place; to != (mq.Position{}) || o.first() != 1 {
		t.Errorf("what waits before %s is carried forward, and %d is the first offset", to, o.first())
	}
	o.world.topic.Retention.MaxShare = 1
	for o.first() < 3 {
		o.retain()
	}
	if p := o.pending(); len(p) != 1 {
		t.Errorf("pending %v", p)
	}
}

// nackFor fails messages for a while.
func (o *one) nackFor(delay time.Duration, list []got) {
	o.t.Helper()
	items := make([]delivery.SettleItem, len(list))
	for i, g := range list {
		items[i] = delivery.SettleItem{Receipt: g.receipt, Outcome: delivery.Nack, Delay: int64(delay)}
	}
	for _, code := range o.settleItems(items) {
		if code != mqerr.OK {
			o.t.Fatal(code)
		}
	}
}

// Museum 28: many retries and many schedules that are far away keep neither kind from coming when it is due.
func TestMuseum28SchedulesAndRetriesDoNotStarveEachOther(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	in := make([]string, 1000)
	for i := range in {
		in[i] = "far"
	}
	o.schedule(time.Hour, in...)
	o.publish(in...)
	o.nackFor(time.Hour, o.receive(1, len(in)))
	o.publish("retried")
	o.schedule(30*time.Millisecond, "scheduled")
	seen := map[string]bool{}
	for len(seen) < 2 {
		for _, m := range o.await(1) {
			switch {
			case m.value == "far":
				t.Fatal("one that is due in an hour came")
			case m.value == "retried" && m.attempt == 1:
				o.nackFor(30*time.Millisecond, []got{m})
			default:
				seen[m.value] = true
				o.settle(delivery.Ack, m)
			}
		}
	}
}

// Settlements and filters of dead letters know a scheduled message by its number.
func TestReleasedMessagesAreKnownByTheirNumbers(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.publish("plain")
	o.schedule(time.Hour, "waits")
	f := o.schedule(time.Millisecond, "b", "c")
	var all []got
	for len(all) < 3 {
		all = append(all, o.await(1)...)
	}
	for _, m := range all {
		o.settleItems([]delivery.SettleItem{{Receipt: m.receipt, Outcome: delivery.Reject, Reason: "no"}})
	}
	settled := make(chan *mqpb.SettlementsResponse, 1)
	o.p.Settlements(1, 10, func(r *mqpb.SettlementsResponse, err error) { settled <- r })
	ids := map[uint64]string{}
	for _, s := range (<-settled).GetSettlements() {
		ids[s.Offset] = fmt.Sprint(s.Scheduled, s.Number)
	}
	if w := (map[uint64]string{0: "false 0", 1: fmt.Sprint(true, f.First), 2: fmt.Sprint(true, f.First+1)}); !maps.Equal(ids, w) {
		t.Errorf("settlements of %v, want %v", ids, w)
	}
	count := func(f *mqpb.DeadFilter) uint64 {
		ch := make(chan *mqpb.DeadLettersResponse, 1)
		o.p.DeadLetters(&mqpb.DeadLettersRequest{Group: 1, Act: "count", Limit: 100, Filter: f}, func(r *mqpb.DeadLettersResponse, err error) {
			if err != nil {
				t.Error(err)
			}
			ch <- r
		})
		return (<-ch).GetMatched()
	}
	for want, filter := range map[uint64]*mqpb.DeadFilter{
		3: {ByOffset: true, Offsets: []uint64{0}, Numbers: []uint64{f.First, f.First + 1}},
		2: {ByOffset: true, Numbers: []uint64{0, f.First, f.First + 1, 99}},
		1: {ByOffset: true, Offsets: []uint64{0}},
		0: {ByOffset: true, Numbers: []uint64{0}},
	} {
		if n := count(filter); n != want {
			t.Errorf("%v: %d dead letters, want %d", filter, n, want)
		}
	}
}
