package replica

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// A leader that begins reads the pending schedules where they are, and not what was published since the oldest of them: so
// opening does not take longer the more is kept.
func TestOldSchedulesAreReadWhereTheyAre(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.schedule(time.Hour, "a", "b")
	large := strings.Repeat("x", 200<<10)
	const between = 40
	for range between {
		o.publish(large)
	}
	o.schedule(time.Hour, "c")
	o.open()
	o.publish("y")
	o.restart()
	if p := o.pending(); len(p) != 3 {
		t.Fatalf("pending: %v", p)
	}
	res := call(t, func(done func(*mqpb.FindScheduledResponse, error)) { o.p.FindScheduled(1, false, done) })
	b, err := mq.ParseBatch(res.Batch)
	if err != nil || b.Count != 1 {
		t.Fatal(b, err)
	}
	ch := make(chan []mq.Segment, 1)
	o.p.post(func() { ch <- o.p.lead.chain })
	read := 0
	for _, s := range <-ch {
		err := o.p.walkScheduled(context.Background(), &s, mq.Position{}, func(e *mq.Entry) error {
			read += len(e.Records)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read == 0 || read > between*len(large)/4 {
		t.Errorf("%d bytes of %d were read", read, between*len(large))
	}
}
