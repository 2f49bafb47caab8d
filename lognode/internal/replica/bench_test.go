package replica

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
)

// BenchmarkAppend measures a leader on a real store with fsync: how many messages of 100 bytes become durable.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		batch, inFlight int
		keys            string
	}{{1, 64, ""}, {1000, 8, ""}, {1, 64, "_keyed"}, {1000, 8, "_keyed"}} {
		b.Run(fmt.Sprintf("batch_%d_inflight_%d%s", c.batch, c.inFlight, c.keys), func(b *testing.B) {
			cfg := store.DefaultConfig(b.TempDir())
			cfg.BallastBytes = 0
			s, err := store.Open(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			if err != nil {
				b.Fatal(err)
			}
			clock := knownClock()
			env := &Env{Log: slog.New(slog.DiscardHandler), Store: s, Peers: alone{}, Clock: clock, Timers: NewTimers(clock), Cache: &EntryCache{},
				Wake: func(mq.PartitionID, mq.GroupID) {}, WantSeal: func(mq.SegmentID, string) {}, Opening: func(mq.SegmentID, bool) {}, Late: func(mq.SegmentID, []mq.StoreID) {},
				Metrics: NewMetrics(prometheus.NewRegistry()), SegmentBytes: 1 << 40, Readers: make(chan struct{}, 8)}
			id := s.Identity()
			seg := mq.Segment{ID: 1, Partition: testPartition, Number: 1, Replicas: []mq.Replica{{Store: id.Store}}, Quorum: 1, Leader: id}
			head := mq.Head{Partition: testPartition, Open: &seg, Next: 2, Revision: 1}
			env.Chain = &world{head: head}
			if err := s.CreateSegments([]mq.Segment{seg}); err != nil {
				b.Fatal(err)
			}
			p := New(env, testPartition)
			info, _ := s.Segment(1)
			p.Adopt(info)
			p.SetHead(head)
			var values []string
			for range c.batch {
				values = append(values, strings.Repeat("x", 100))
			}
			body, n := batchOf(values...)
			next := func(int) []byte { return body }
			if c.keys != "" {
				next = freshKeys(c.batch)
			}
			slots := make(chan struct{}, c.inFlight)
			var failed atomic.Int64
			reply := func(t frame.Type, _ link.Encoder) {
				if t == frame.TypeError {
					failed.Add(1)
				}
				<-slots
			}
			b.ResetTimer()
			for i := range b.N {
				slots <- struct{}{}
				p.Append(next(i), n, reply)
			}
			for range c.inFlight {
				slots <- struct{}{}
			}
			b.ReportMetric(float64(b.N*c.batch)/b.Elapsed().Seconds(), "msgs/s")
			b.StopTimer()
			if failed.Load() > 0 {
				b.Fatal(failed.Load(), "failed")
			}
			p.Close()
			env.Timers.Close()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// freshKeys gives batches of n messages of 100 bytes, each with an idempotency key that did not come before.
func freshKeys(n int) func(i int) []byte {
	var build mq.BatchBuilder
	for range n {
		build.Add(&mq.Message{Value: make([]byte, 100), Lane: mq.LaneNormal, Idempotency: [16]byte{15: 1}})
	}
	template := build.AppendTo(nil, "producer", "gateway", mq.CodecNone, nil)
	const indexed = 1 + 1 + 16 + 8 // flags, length, key, content
	index := len(template) - n*(100+indexed)
	return func(i int) []byte {
		body := append([]byte(nil), template...)
		for m := range n {
			binary.LittleEndian.PutUint64(body[index+m*indexed+2:], uint64(i*n+m)*0x9E3779B97F4A7C15)
		}
		return body
	}
}

// BenchmarkRecollect is what a new leader does about the keys of its chain: 80 segments with 800 each, read from the files of
// their footers or kept in memory.
func BenchmarkRecollect(b *testing.B) {
	const segments, keys = 80, 800
	o := newOne(b)
	fresh := freshKeys(keys)
	for i := range segments + 1 {
		if i > 0 {
			o.open()
		}
		if err := ask(b, func(r Reply) { o.p.Append(fresh(i), keys, r) }).err(); err != nil {
			b.Fatal(err)
		}
	}
	for i := range o.world.sealed {
		o.waitWritten(o.world.sealed[i].ID)
	}
	for name, most := range map[string]int{"files": 1, "memory": 0} {
		b.Run(name, func(b *testing.B) {
			o.env.Kept.most, o.env.Kept.items, o.env.Kept.bytes = most, nil, 0
			o.env.Kept.order.Init()
			for i := range o.world.sealed {
				if whole, err := o.p.DeriveFooter(b.Context(), &o.world.sealed[i], unhurried); err != nil || !whole {
					b.Fatal(whole, err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				x := loaded{chain: o.world.sealed, machine: delivery.New(testPartition)}
				if err := o.p.recollect(b.Context(), &x); err != nil || x.keys.Len() != segments*keys {
					b.Fatal(x.keys.Len(), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*segments*keys), "ns/key")
		})
	}
}
