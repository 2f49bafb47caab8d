package replica

import (
	"runtime"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
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

func TestPartitionThatIsLookedAtGoesOnResting(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.publish("x")
	until := o.rested()
	figures := func(known Oldest) *mqpb.GroupFigures {
		ch := make(chan *mqpb.GroupFigures, 1)
		o.p.GroupFigures(1, known, func(f *mqpb.GroupFigures) { ch <- f })
		return <-ch
	}
	stamp := figures(Oldest{}).OldestStamp
	if stamp == 0 {
		t.Fatal("nobody knows how old the message is")
	}
	looked := make(chan *mqpb.PartitionFigures, 1)
	o.p.Figures(nil, func(f *mqpb.PartitionFigures) { looked <- f })
	if f := <-looked; f.Next != 1 {
		t.Fatalf("%v", f)
	}
	// What is known of the oldest message is taken for it, if it is that one.
	if got := figures(Oldest{Cursor: 0, Stamp: stamp - 5}).OldestStamp; got != stamp-5 {
		t.Errorf("%d, though %d was known", got, stamp-5)
	}
	if got := figures(Oldest{Cursor: 1, Stamp: stamp - 5}).OldestStamp; got != stamp {
		t.Errorf("%d of another message, want %d", got, stamp)
	}
	for tries := 0; o.p.rest.Load() != until.UnixNano(); tries++ { // until the round of the last look is over
		if tries == 10_000_000 {
			t.Fatalf("left alone until %v after the looks, want %v", time.Unix(0, o.p.rest.Load()), until)
		}
		runtime.Gosched()
	}
}
