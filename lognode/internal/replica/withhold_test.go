package replica

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// batchTTL makes a batch of one message for each TTL.
func batchTTL(codec mq.Codec, ttl ...time.Duration) []byte {
	var b mq.BatchBuilder
	for i, d := range ttl {
		b.Add(&mq.Message{Value: []byte{byte('a' + i)}, Lane: mq.LaneNormal, TTL: int64(d)})
	}
	packed := []byte("packed") // nobody unpacks it here
	if codec == mq.CodecNone {
		packed = nil
	}
	return b.AppendTo(nil, "", "", codec, packed)
}

func TestInTime(t *testing.T) {
	t.Parallel()
	const first, now = 100, int64(1000)
	short, long := time.Duration(5), time.Duration(50)
	whole := func(codec mq.Codec) []frame.Chunk {
		return []frame.Chunk{{First: first, Stamp: now - 10, Batch: batchTTL(codec, 0, short, long, short, 0)},
			{First: first + 5, Stamp: now - 10, Numbers: []uint64{7, 8}, Batch: batchTTL(codec, 10, 11)}}
	}
	some := []frame.Chunk{{First: first, Stamp: now - 10, Ordinals: []uint32{1, 2, 4}, Batch: batchTTL(mq.CodecS2, 0, short, long, short, 0)}}
	sliced := []frame.Chunk{{First: first, Stamp: now - 10, Sliced: true, Ordinals: []uint32{1, 2, 4}, Batch: batchTTL(mq.CodecNone, short, long, 0)}}
	for name, c := range map[string]struct {
		chunks            []frame.Chunk
		got, left, dealt  uint32
		kept, gone, named []uint64
	}{
		"raw":                 {whole(mq.CodecNone), 7, 10, 7, []uint64{100, 102, 104, 106}, []uint64{101, 103, 105}, []uint64{8}},
		"packed":              {whole(mq.CodecS2), 7, 10, 7, []uint64{100, 102, 104, 106}, []uint64{101, 103, 105}, []uint64{8}},
		"some of a packed":    {some, 3, 10, 3, []uint64{102, 104}, []uint64{101}, nil},
		"sliced before":       {sliced, 3, 10, 3, []uint64{102, 104}, []uint64{101}, nil},
		"no more than wanted": {whole(mq.CodecNone), 7, 2, 4, []uint64{100, 102}, []uint64{101, 103}, nil},
		"nothing wanted":      {whole(mq.CodecNone), 7, 0, 0, nil, nil, nil},
	} {
		left := c.left
		kept, dealt, gone, err := inTime(c.chunks, c.got, &left, now)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var offsets, named []uint64
		for _, k := range kept {
			n, _ := mq.BatchShape(k.Batch)
			if len(k.Ordinals) > 0 {
				n = len(k.Ordinals)
			}
			for i := range n {
				offsets = append(offsets, meant(&k, i))
			}
			named = append(named, k.Numbers...)
			if b, err := mq.ParseBatch(k.Batch); err != nil || k.Sliced && b.Count != n {
				t.Errorf("%s: a sliced chunk of %d has a batch of %d, %v", name, n, b.Count, err)
			}
		}
		if !slices.Equal(offsets, c.kept) || !slices.Equal(gone, c.gone) || !slices.Equal(named, c.named) || dealt != c.dealt ||
			left != c.left-uint32(len(c.kept)) {
			t.Errorf("%s: kept %v, gone %v, schedule numbers %v, dealt with %d, left %d", name, offsets, gone, named, dealt, left)
		}
	}
	runs, behind := cutRun(delivery.Run{First: 100, Count: 9, Attempt: 2, Counter: 50}, 7, []uint64{100, 103, 104, 109}, nil)
	if want := []frame.Run{{First: 101, Count: 2, Attempt: 2, Counter: 51}, {First: 105, Count: 2, Attempt: 2, Counter: 55}}; !slices.Equal(runs, want) || !slices.Equal(behind, []uint64{109}) {
		t.Errorf("runs %+v, behind %v", runs, behind)
	}
}

func (o *one) append(b *mq.BatchBuilder) {
	o.t.Helper()
	a := ask(o.t, func(r Reply) { o.p.Append(b.AppendTo(nil, "producer", "gateway", mq.CodecNone, nil), b.Len(), r) })
	if err := a.err(); err != nil {
		o.t.Fatal(err)
	}
}

func (o *one) figures(g mq.GroupID) *mqpb.GroupFigures {
	ch := make(chan *mqpb.GroupFigures, 1)
	o.p.GroupFigures(g, Oldest{}, func(f *mqpb.GroupFigures) { ch <- f })
	return <-ch
}

// A message past its TTL reaches no consumer, is counted and traced, and does not come back after a restart. However
// many there are, one receive finds what is good behind them.
func TestExpiredMessagesAreSettledInsteadOfHandedOver(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, nil)
	var b mq.BatchBuilder
	for i, ttl := range []time.Duration{1, 0, time.Hour, 1} {
		b.Add(&mq.Message{Value: []byte(fmt.Sprint(i)), Lane: mq.LaneNormal, TTL: int64(ttl)})
	}
	o.append(&b)
	m := o.receive(1, 10)
	want(t, "in time", values(m), []string{"1", "2"})
	o.settle(delivery.Ack, m...)
	const old = 20_000
	for range old / 10_000 {
		b.Reset()
		for range 10_000 {
			b.Add(&mq.Message{Lane: mq.LaneNormal, TTL: 1})
		}
		o.append(&b)
	}
	o.publish("behind")
	m = o.receive(1, 1)
	want(t, "behind many old ones", values(m), []string{"behind"})
	o.settle(delivery.Ack, m...)
	if f := o.figures(1); f.Expired != old+2 || f.Acked != 3 || f.Lag != 0 || f.Leased != 0 {
		t.Errorf("figures: %v", f)
	}
	o.restart()
	if m := o.receive(1, 10); len(m) != 0 {
		t.Errorf("after a restart: %+v", m)
	}
	trace := make(chan *mqpb.TraceResponse, 1)
	o.p.Trace(0, false, func(r *mqpb.TraceResponse, err error) { trace <- r })
	var types []string
	told := <-trace
	for _, ev := range told.Events {
		types = append(types, ev.Type+" "+ev.Reason)
	}
	if g := told.Groups; len(g) != 1 || g[0].State != delivery.ExplainExpired {
		t.Errorf("the trace's groups: %v", g)
	}
	want(t, "trace", types, []string{"PUBLISHED ", "REPLICATED ", "EXPIRED " + delivery.ReasonLapsed,
		"RETAINED by retention.time; longer while an active group has not settled it"})
}

// One of a hundred thousand messages is wanted; one receive finds it, and the next publish is found too.
func TestFilterFindsWhatIsWanted(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, func(s *mq.GroupSettings) {
		s.Filter = mq.Filter{{Name: "Region", Values: []string{"eu", "us"}}, {Name: "type", Prefix: "order."}}
	})
	var b mq.BatchBuilder
	put := func(n int, m mq.Message) {
		m.Lane = mq.LaneNormal
		for range n {
			b.Add(&m)
		}
		o.append(&b)
		b.Reset()
	}
	headers := func(region, kind string) []mq.Header {
		return []mq.Header{{Name: "region", Value: region}, {Name: "type", Value: kind}}
	}
	for range 5 {
		put(10_000, mq.Message{Headers: headers("eu", "invoice.paid")})
		put(10_000, mq.Message{})
	}
	b.Add(&mq.Message{Value: []byte("first"), Lane: mq.LaneNormal, Headers: headers("us", "order.made")})
	put(3, mq.Message{Headers: headers("asia", "order.made")})
	m := o.receive(1, 10)
	want(t, "behind what is not wanted", values(m), []string{"first"})
	o.settle(delivery.Ack, m...)
	b.Add(&mq.Message{Value: []byte("second"), Lane: mq.LaneNormal, Headers: headers("eu", "order.sent")})
	o.append(&b)
	m = o.receive(1, 10)
	want(t, "what came", values(m), []string{"second"})
	o.settle(delivery.Nack, m...)
	if f := o.figures(1); f.Filtered != 100_003 || f.Acked != 1 || f.Lag != 1 || f.Ready != 1 {
		t.Errorf("figures: %v", f)
	}
	o.restart()
	if f := o.figures(1); f.Filtered != 100_003 || f.Acked != 1 || f.Ready != 1 {
		t.Errorf("figures after a restart: %v", f)
	}
}
