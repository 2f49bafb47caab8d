package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// trace is what the partition tells of a message: types and times.
func (o *one) trace(offset uint64) []string {
	o.t.Helper()
	type told struct {
		res *mqpb.TraceResponse
		err error
	}
	ch := make(chan told, 1)
	o.p.Trace(offset, false, func(res *mqpb.TraceResponse, err error) { ch <- told{res, err} })
	a := <-ch
	if a.err != nil {
		o.t.Fatal(a.err)
	}
	var out []string
	for _, ev := range a.res.Events {
		if ev.Type != eventReplicated && ev.Type != eventRetained { // the entries do not say those
			out = append(out, fmt.Sprint(ev.Type, " ", ev.At))
		}
	}
	return out
}

// told is the same by reading every entry there is: the oracle.
func (o *one) told(offset uint64) (out []string) {
	o.t.Helper()
	infos := o.store.Segments()
	slices.SortFunc(infos, func(a, b store.SegmentInfo) int { return a.Segment.Base.Compare(b.Segment.Base) })
	for _, info := range infos {
		if err := o.store.Scan(info.Segment.ID, mq.Position{}, func(_ mq.Position, data []byte) bool {
			e, err := mq.ParseEntry(data)
			if err != nil {
				o.t.Fatal(err)
			}
			if err := delivery.TraceEntry(&e, offset, func(ev delivery.Event) { out = append(out, fmt.Sprint(ev.Type, " ", ev.At)) }); err != nil {
				o.t.Fatal(err)
			}
			return true
		}); err != nil {
			o.t.Fatal(err)
		}
	}
	return out
}

func (o *one) checkTraces(n int) {
	o.t.Helper()
	for offset := range uint64(n) {
		if got, want := o.trace(offset), o.told(offset); !slices.Equal(got, want) {
			o.t.Fatalf("offset %d: traced %v, the entries say %v", offset, got, want)
		}
	}
}

// waitWritten returns once a sealed segment's footer is whole in its file and nothing of it is in memory any more.
func (o *one) waitWritten(id mq.SegmentID) {
	o.t.Helper()
	ended := make(chan struct{})
	o.p.post(func() {
		h := o.p.copies[id]
		if !o.p.decideEnd(h, *h.copy.End(), func() { close(ended) }) {
			o.t.Error("another end")
		}
	})
	<-ended // on disk, and the last part is on its way
	for o.p.partsInMemory(context.Background(), id)[id] != nil {
		done := make(chan struct{}) // a turn of the readers: the write is one of them
		o.p.beside(func(context.Context) { close(done) })
		<-done
	}
}

func (o *one) busy(round int) {
	o.t.Helper()
	for i := range 5 {
		o.publish(fmt.Sprint(round, i), "second")
	}
	got := o.receive(1, 6)
	o.settle(delivery.Nack, got[0])
	o.settle(delivery.Ack, got[1:3]...)
}

func TestTraceByIndexIsTheTraceByReading(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	o.busy(0)
	o.checkTraces(10)
	o.open() // a roll: the first segment's footer is written from memory
	o.busy(1)
	o.waitWritten(1)
	o.checkTraces(20)
	if n := testutil.ToFloat64(o.env.Metrics.Footers); n != 0 {
		t.Errorf("%v footers were derived though all was indexed as it came", n)
	}
	o.restart() // the second segment's index was in memory only
	o.busy(2)
	o.checkTraces(30)
	if n := testutil.ToFloat64(o.env.Metrics.Footers); n != 1 {
		t.Errorf("%v footers were derived after the restart, want 1", n)
	}
	o.restart() // and is in its file now
	o.checkTraces(30)
	if n := testutil.ToFloat64(o.env.Metrics.Footers); n != 1 {
		t.Errorf("%v footers were derived after the second restart, want 1", n)
	}
}

// A footer is never trusted over the journal: missing, short, damaged or of another stretch, it is derived again.
func TestFooterThatIsWrongIsDerivedAgain(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"short":   func(path string) error { return os.Truncate(path, 70) },
		"bits": func(path string) error {
			b, err := os.ReadFile(path)
			for i := 100; i < len(b); i += 7 {
				b[i] ^= 0x40
			}
			return errors.Join(err, os.WriteFile(path, b, 0o644))
		},
		"another segment's": func(path string) error {
			b := footer.NewBuilder(99, mq.Position{})
			err := b.Add(&mq.Entry{Segment: 99}, 1)
			return errors.Join(err, os.WriteFile(path, b.Next(), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOne(t)
			o.group(1, nil)
			o.busy(0)
			o.open()
			o.waitWritten(1)
			if err := spoil(filepath.Join(o.dir, "footers", "1")); err != nil {
				t.Fatal(err)
			}
			o.checkTraces(10)
			s := o.world.sealed[0]
			if whole, err := o.p.DeriveFooter(context.Background(), &s, unhurried); err != nil || !whole {
				t.Fatal(whole, err)
			}
			derived := testutil.ToFloat64(o.env.Metrics.Footers)
			o.checkTraces(10)
			if n := testutil.ToFloat64(o.env.Metrics.Footers); n != derived {
				t.Errorf("derived again: %v, then %v", derived, n)
			}
		})
	}
}

func TestFooterGoesWithItsSegment(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.publish("a")
	o.open()
	o.waitWritten(1)
	path := filepath.Join(o.dir, "footers", "1")
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	o.p.Drop(1)
	if err := o.store.RemoveSegments([]mq.SegmentID{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the footer is still there:", err)
	}
	if err := o.store.WriteFooter(1, 0, []byte("late")); !errors.Is(err, store.ErrUnknownSegment) {
		t.Fatal("a removed segment got a footer:", err)
	}
}
