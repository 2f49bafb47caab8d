package delivery

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// One grant of 100 messages and one settle of them, with the records taken: the figure is per message.
func BenchmarkLeaseAndAck(b *testing.B) {
	for _, behind := range []uint64{0, 10_000_000} {
		name := map[uint64]string{0: "at the tail", 10_000_000: "10 million behind"}[behind]
		b.Run(name, func(b *testing.B) {
			m := New(part)
			m.Lead(1, base)
			if err := m.EnsureGroup(base, GroupConfig{ID: 1, Version: 1, Settings: mq.DefaultGroupSettings()}); err != nil {
				b.Fatal(err)
			}
			items := make([]SettleItem, 0, 100)
			results := make([]SettleResult, 0, 100)
			var records []byte
			n, now := uint64(0), base
			b.ReportAllocs()
			for b.Loop() {
				if n%100 != 0 {
					n++
					continue
				}
				m.Commit(n + 100 + behind)
				now += 1000
				g, err := m.Receive(now, ReceiveRequest{Group: 1, Max: 100, Consumer: "worker-1", Stream: 1, Delivery: n})
				if err != nil || g.Messages() != 100 {
					b.Fatal(g, err)
				}
				m.Confirm(1, n)
				items = items[:0]
				for _, r := range g.Runs {
					for i := range uint64(r.Count) {
						items = append(items, SettleItem{Receipt: mq.Receipt{Partition: part, Offset: r.First + i, Group: 1,
							Generation: 1, Segment: 1, Counter: r.Counter + i}})
					}
				}
				results = m.Settle(now, items, results[:0])
				records = m.TakeRecords(records[:0])
				m.TakeTimers(func(TimerOp) {})
				m.TakeReady(func(mq.GroupID) {})
				n++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// Single messages with ten thousand leased ahead of them.
func BenchmarkSingleMessages(b *testing.B) {
	m := New(part)
	m.Lead(1, base)
	s := mq.DefaultGroupSettings()
	s.MaxInFlight = 20_000
	if err := m.EnsureGroup(base, GroupConfig{ID: 1, Version: 1, Settings: s}); err != nil {
		b.Fatal(err)
	}
	m.Commit(1 << 40)
	for range 10_000 {
		_, _ = m.Receive(base, ReceiveRequest{Group: 1, Max: 1, Lease: int64(mq.MaxLease), Stream: 1, Delivery: 1})
		m.Confirm(1, 1)
	}
	var records []byte
	item := make([]SettleItem, 1)
	var results []SettleResult
	now := base
	b.ReportAllocs()
	for b.Loop() {
		now += 500
		g, _ := m.Receive(now, ReceiveRequest{Group: 1, Max: 1, Consumer: "worker-1", Stream: 1, Delivery: 1})
		m.Confirm(1, 1)
		item[0].Receipt = mq.Receipt{Partition: part, Offset: g.Runs[0].First, Group: 1, Generation: 1, Segment: 1, Counter: g.Runs[0].Counter}
		results = m.Settle(now, item, results[:0])
		records = m.TakeRecords(records[:0])
	}
}
