package replica

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// broken is why the partition was stopped, "" if it was not.
func (o *one) broken() string {
	ch := make(chan string, 1)
	o.p.post(func() { ch <- o.p.fault })
	return <-ch
}

// A broken invariant stops its partition, counted and with the reason, and no other.
func TestBrokenInvariantsStopThePartition(t *testing.T) {
	for _, x := range []struct {
		name string
		harm func(o *one)
	}{
		{"I1: a segment gets a second end", func(o *one) {
			h := o.world.head
			last := *h.Last
			last.End.Offset++
			h.Last, h.Revision = &last, h.Revision+1
			o.p.SetHead(h)
		}},
		{"I2: more is acknowledged than was placed", func(o *one) {
			o.p.post(func() { o.p.acked(o.p.lead, 0, mq.Position{Offset: 1 << 40}) })
		}},
		{"I3: the own copy does not take what its leader placed", func(o *one) {
			o.p.post(func() { o.p.copies[o.p.lead.seg.Segment().ID].copy.Seal() })
			_ = o.tryPublish("x")
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			o := newOne(t)
			o.publish("a")
			o.restart()
			o.publish("b")
			if why := o.broken(); why != "" {
				t.Fatalf("stopped before: %s", why)
			}
			x.harm(o)
			if o.broken() == "" {
				t.Fatal("it goes on")
			}
			if err := o.tryPublish("c"); !mqerr.Is(err, mqerr.NotLeader) && !mqerr.Is(err, mqerr.NoLeader) {
				t.Errorf("a publish to a partition that was stopped: %v", err)
			}
			other := New(o.env, mq.PartitionID{Topic: 9})
			other.Close()
		})
	}
}
