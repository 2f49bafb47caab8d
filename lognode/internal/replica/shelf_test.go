package replica

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/splashdam/splashdam/lognode/internal/archive"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// A bucket that fails is asked ever more seldom, up to once a minute, and at once after it took a segment.
func TestArchiveBacksOff(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var h shelf
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if h.failed(errors.New("down"), now); h.until.Sub(now) != want*time.Second || h.down == nil {
			t.Errorf("the next try is %s later, want %d s; down: %v", h.until.Sub(now), want, h.down)
		}
	}
	h.add(archive.Object{Segment: 3})
	if h.failed(errors.New("down again"), now); h.until.Sub(now) != time.Second {
		t.Errorf("after a success the first pause is %s", h.until.Sub(now))
	}
}

// Nothing is removed that is not in the archive: not while the bucket is down, however often retention looks. Only a disk that is
// nearly full lets one segment go at a time, counted. What was archived can be read on.
func TestRetentionWaitsForTheArchive(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	bucket := filepath.Join(t.TempDir(), "bucket")
	a, err := archive.Open(t.Context(), "file://"+bucket, "cluster")
	noError(t, err)
	t.Cleanup(func() { noError(t, a.Close()) })
	o.env.Archive = a
	noError(t, os.Rename(bucket, bucket+".away"))
	noError(t, os.WriteFile(bucket, nil, 0o600)) // the bucket is down
	o.segments()
	o.world.topic.Partitions, o.world.topic.Retention, o.world.topic.Archive = 1, mq.Retention{Bytes: 1}, true
	check := func(when string, first uint64, errors, archived, unarchived float64) {
		t.Helper()
		m := o.env.Metrics
		if got := o.first(); got != first || testutil.ToFloat64(m.ArchiveErrors) != errors || testutil.ToFloat64(m.Archived) != archived ||
			testutil.ToFloat64(m.Unarchived) != unarchived {
			t.Fatalf("%s: the first offset is %d, %v errors, %v archived, %v not; want %d, %v, %v, %v", when, got, testutil.ToFloat64(m.ArchiveErrors),
				testutil.ToFloat64(m.Archived), testutil.ToFloat64(m.Unarchived), first, errors, archived, unarchived)
		}
	}
	began := time.Now()
	o.retain()
	again := func(at time.Time) { // by itself it is a second later, see TestArchiveBacksOff
		o.inside(func(l *leadership) {
			if l.shelf.until.Before(began) {
				t.Errorf("tried again at %s, having begun at %s", l.shelf.until, began)
			}
			l.shelf.until = at
		})
	}
	again(began.Add(time.Hour))
	o.retain()
	check("down, and looked at twice", 0, 1, 0, 0)
	o.used.Store(85) // of the disk, with the usual 10: more than publishes may use
	o.retain()
	o.used.Store(0)
	check("down, and the disk nearly full", 2, 1, 0, 1)
	noError(t, os.Remove(bucket))
	noError(t, os.Rename(bucket+".away", bucket))
	o.retain()
	check("up, and too early to try again", 2, 1, 0, 1)
	again(time.Time{})
	o.retain()
	check("up", 4, 1, 1, 1)
	read := ask(t, func(r Reply) {
		at := func(offset uint64) frame.Place { return frame.Place{Where: frame.AtOffset, Value: offset} }
		o.p.Read(frame.Read{Partition: testPartition, From: at(2), To: at(4), Limit: 10, MaxBytes: 1 << 20, Archived: true}, r)
	})
	noError(t, read.err())
	var d frame.ReadDone
	noError(t, d.Parse(read.body))
	if d.First != 2 || d.Next != 4 {
		t.Errorf("the first offset with the archive is %d, and a read of it goes on at %d", d.First, d.Next)
	}
}

// inside runs f on the partition's goroutine.
func (o *one) inside(f func(*leadership)) {
	done := make(chan struct{})
	o.p.post(func() { defer close(done); f(o.p.lead) })
	<-done
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An upload is ended when it lasts while publishes are refused, and not before.
func TestArchiveHurries(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	h := shelf{stop: stop, since: began}
	if h.hurry(began.Add(archivePatience)); ctx.Err() != nil {
		t.Error("an upload was ended that may still last")
	}
	if h.hurry(began.Add(archivePatience + 1)); !errors.Is(context.Cause(ctx), errSlowArchive) {
		t.Errorf("an upload that lasts ended with %v", context.Cause(ctx))
	}
	(&shelf{}).hurry(began) // none runs
}
