package replica

import (
	"runtime"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// rested is until when the partition is left alone after a Retain by itself. It waits until that is so.
func (o *one) rested() time.Time {
	o.t.Helper()
	o.settled()
	for tries := 0; o.p.rest.Load() == 0; tries++ {
		if tries%10_000 == 0 { // again, should it have shared its round with another event
			o.p.Retain()
		}
		runtime.Gosched()
	}
	return time.Unix(0, o.p.rest.Load())
}

func TestPartitionToWhichNothingHappensIsLeftAlone(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.publish("x")
	began := time.Now()
	until := o.rested()
	if until.Before(began) || until.After(time.Now().Add(restMost)) {
		t.Fatalf("left alone until %v", until)
	}
	o.p.RetainDue(until.Add(-time.Nanosecond))
	if at := o.p.rest.Load(); at != until.UnixNano() {
		t.Error("a look before its time")
	}
	o.publish("y")
	if at := o.p.rest.Load(); at != 0 {
		t.Errorf("something happened, and it is left alone until %v", time.Unix(0, at))
	}
}

func TestPartitionWhoseSegmentIsToRollIsLookedAtInTime(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.publish("x")
	o.world.topic.Retention = mq.Retention{Time: mq.Duration(80 * time.Second)} // an eighth of it: 10 s
	until := o.rested()
	if time.Until(until) > 10*time.Second {
		t.Fatalf("left alone until %v", until)
	}
}

func TestPartitionWithSomethingToRemoveIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.segments()
	o.world.topic.Partitions, o.world.topic.Retention = 1, mq.Retention{Bytes: 1, KeepUnsettled: true}
	o.retain() // the group keeps what is there
	o.p.RetainDue(time.Now())
	o.settled()
	if at := o.p.rest.Load(); at != 0 {
		t.Errorf("retention waits for a group, and nobody looks until %v", time.Unix(0, at))
	}
}
