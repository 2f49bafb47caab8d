package replica

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// oldDamage is a partition of 40 messages, the first 30 in a segment that nothing needs any more to go on, of whose only
// copy message 20 is broken; it is served. Group 1 has acked the first five.
func oldDamage(t *testing.T) *one {
	o := newOne(t)
	o.thirty()
	o.restart()
	for i := range 10 {
		o.publish(long(30 + i))
	}
	o.restart()
	o.untilServed()
	o.stop()
	spoil(t, o.dir, "message-20")
	o.start()
	o.untilServed()
	return o
}

func begins(list []got) (out []string) {
	for _, g := range list {
		out = append(out, g.value[:10])
	}
	return out
}

func (o *one) explain(g mq.GroupID, offset uint64) *mqpb.ExplainResponse {
	o.t.Helper()
	type answer struct {
		res *mqpb.ExplainResponse
		err error
	}
	ch := make(chan answer, 1)
	o.p.Explain(&mqpb.ExplainRequest{Group: uint64(g), Number: offset}, func(r *mqpb.ExplainResponse, err error) { ch <- answer{r, err} })
	a := <-ch
	noError(o.t, a.err)
	return a.res
}

// A message of an old segment can't be read from anywhere. Readers are told what is damaged and what helps, and read on behind
// it; publishing goes on, and a group gets everything else and says why it waits for this one.
func TestDamagedOldSegmentStopsNobody(t *testing.T) {
	t.Parallel()
	o := oldDamage(t)
	values, done, err := o.readFrom(0)
	if err != nil || !slices.Equal(values, longs(0, 20)) || done.Next != 20 {
		t.Errorf("read %q, then from %d: %v", values, done.Next, err)
	}
	_, _, err = o.readFrom(20)
	if !mqerr.Is(err, mqerr.PartitionDamaged) || !strings.Contains(err.Error(), "offset 20") || !strings.Contains(err.Error(), "force-recover") {
		t.Errorf("a read of what is damaged: %v", err)
	}
	if values, _, err := o.readFrom(21); err != nil || !slices.Equal(values, longs(21, 40)) {
		t.Errorf("behind the damage %q: %v", values, err)
	}
	back := ask(t, func(r Reply) {
		o.p.Read(frame.Read{Partition: testPartition, From: frame.Place{Where: frame.Earliest}, To: frame.Place{Where: frame.Latest},
			Backward: true, Limit: 30, MaxBytes: 4 << 20}, r)
	})
	var d frame.ReadDone
	noError(t, back.err())
	noError(t, d.Parse(back.body))
	if d.Next <= 20 || len(d.Chunks) == 0 {
		t.Errorf("read backward down to %d: %d chunks", d.Next, len(d.Chunks))
	}
	noError(t, o.tryPublish(long(40)))
	list := o.receive(1, 100)
	if want := append(longs(5, 20), longs(21, 41)...); !slices.Equal(begins(list), want) {
		t.Errorf("received %q, want %q", begins(list), want)
	}
	o.inside(func(*leadership) {}) // what was taken back is posted before the answer
	if e := o.explain(1, 20); e.State != "waiting" || !strings.Contains(e.Because, "can't be read") || e.Attempt != 0 {
		t.Errorf("explained as %+v", e)
	}
	for _, code := range o.settle(delivery.Ack, list...) {
		if code != mqerr.OK {
			t.Fatal(code)
		}
	}
	if n := testutil.ToFloat64(o.env.Metrics.Unreadable); n != 1 {
		t.Errorf("%v segments are said to be unreadable", n)
	}
}

// An operator gives up what is damaged in an old segment while the partition is served: the leader records it and asks for the
// next segment, and whoever comes to the range then passes over it.
func TestDamagedOldSegmentIsForced(t *testing.T) {
	t.Parallel()
	o := oldDamage(t)
	open := o.force()
	if _, _, err := o.readFrom(20); !mqerr.Is(err, mqerr.PartitionDamaged) {
		t.Fatalf("a read of what is damaged: %v", err)
	}
	for wanted := mq.SegmentID(0); wanted != open; {
		select {
		case wanted = <-o.wants:
		case <-t.Context().Done():
			t.Fatal("the next segment is not asked for")
		}
	}
	o.world.mu.Lock()
	holes, force := o.world.head.Holes, o.world.force
	o.world.mu.Unlock()
	if len(holes) != 1 || holes[0].From.Offset != 20 || holes[0].To.Offset != 30 || holes[0].By != "ann" || force != (meta.Force{}) {
		t.Fatalf("recorded %+v, the wish is %+v", holes, force)
	}
	o.open() // the node leads the next one too, and does not keep its state
	o.untilServed()
	if _, _, err := o.readFrom(20); !mqerr.Is(err, mqerr.Lost) {
		t.Errorf("a read of what was given up: %v", err)
	}
	values, done, err := o.readFrom(0)
	if err != nil || !slices.Equal(values, longs(0, 20)) || done.Next != 30 {
		t.Errorf("read %q, then from %d: %v", values, done.Next, err)
	}
	if e := o.explain(1, 25); e.State != "lost" {
		t.Errorf("explained as %+v", e)
	}
	list := o.receive(1, 100)
	if want := append(longs(5, 20), longs(30, 40)...); !slices.Equal(begins(list), want) {
		t.Errorf("received %q, want %q", begins(list), want)
	}
	if n := testutil.ToFloat64(o.env.Metrics.Unreadable); n != 0 {
		t.Errorf("%v segments are said to be unreadable", n)
	}
}

// Figures tell segments that can't be read as ranges: those that touch as one, those that end behind an offset, so many at most.
func TestUnreadableRanges(t *testing.T) {
	t.Parallel()
	l := &leadership{}
	segment := func(id, from, to uint64) {
		l.chain = append(l.chain, mq.Segment{ID: mq.SegmentID(id), Base: mq.Position{Offset: from}, End: mq.Position{Offset: to}, Sealed: true})
	}
	tell := func(behind uint64) (out [][2]uint64) {
		for _, r := range l.unreadableRanges(behind) {
			out = append(out, [2]uint64{r.From, r.To})
		}
		return out
	}
	for id, end := range []uint64{10, 30, 40, 70} {
		segment(uint64(id), []uint64{0, 10, 30, 40}[id], end)
	}
	if got := tell(0); got != nil {
		t.Errorf("%v, and all can be read", got)
	}
	l.unreadable.ids = []mq.SegmentID{3, 1, 0, 99}
	for behind, want := range map[uint64][][2]uint64{0: {{0, 30}, {40, 70}}, 9: {{0, 30}, {40, 70}}, 10: {{10, 30}, {40, 70}}, 30: {{40, 70}}, 69: {{40, 70}}, 70: nil} {
		if got := tell(behind); !slices.Equal(got, want) {
			t.Errorf("behind %d: %v, want %v", behind, got, want)
		}
	}
	for id := uint64(100); id < 100+2*maxUnreadableTold; id++ {
		segment(id, 2*id, 2*id+1)
		l.unreadable.ids = append(l.unreadable.ids, mq.SegmentID(id))
	}
	if got := tell(0); len(got) != maxUnreadableTold {
		t.Errorf("%d ranges", len(got))
	}
}
