package replica

import (
	"path/filepath"
	"testing"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
)

// A leader begins with a checkpoint. Who waits for it to serve does not wait for that to be durable too, and neither does who comes then.
func TestNobodyWaitsForACheckpoint(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.stop()
	hang := make(chan struct{}, 1)
	o.dir, o.world = filepath.Join(t.TempDir(), "again"), &world{topic: mq.DefaultTopicSettings()}
	o.before = func(int64) { hang <- struct{}{}; <-hang }
	o.start()
	o.group(1, nil)
	o.publish("a")
	answers := make(chan error, 2)
	publish := func() {
		body, n := batchOf("b")
		o.p.Append(body, n, func(ft frame.Type, b link.Encoder) { answers <- answer{ft, b.AppendTo(nil)}.err() })
	}
	o.inside(func(l *leadership) { l.seg.Seal() }) // so that the next publish waits for the next segment
	publish()
	hang <- struct{}{} // nothing becomes durable from here on
	o.open()
	o.untilServed()
	o.inside(func(l *leadership) {
		base := l.seg.Segment().Base
		if len(l.own) != 2 || l.own[0].at != base || l.own[0].next.Offset != base.Offset+1 || l.own[1].next.Offset != base.Offset+1 {
			t.Errorf("the segment begins at %s with %+v, not with the message and then a checkpoint", base, l.own)
		}
	})
	<-hang
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
	o.until("the checkpoint is not durable", func(l *leadership) bool { return len(l.own) == 0 })
	hang <- struct{}{}
	t.Cleanup(func() { // runs before the store is closed, also where this test fails
		select {
		case <-hang:
		default:
		}
	})
	o.inside(func(l *leadership) { o.p.checkpoint(l) })
	publish()
	o.until("a publish waits for a checkpoint", func(l *leadership) bool { return len(l.batches) == 0 && len(l.own) == 2 })
	<-hang
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
}
