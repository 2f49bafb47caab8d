package delivery

import (
	"runtime"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// BenchmarkCheckpointOfTenMillion is the state of two groups over ten million messages of random lanes and 10,000 keys. One is
// through with all of them, with one in a thousand rejected; the other, which orders by key, is through with a million. Each has its last
// 10,000 out, every other one of them acked. It reports the checkpoint, the heap, and how long a new leader loads.
func BenchmarkCheckpointOfTenMillion(b *testing.B) {
	const messages, block = 10_000_000, 50_000
	for b.Loop() {
		before := heapMiB()
		m := New(part)
		m.Lead(1, base)
		plain, ordered := mq.DefaultGroupSettings(), mq.DefaultGroupSettings()
		ordered.Ordering = mq.OrderingKey
		for id, s := range map[mq.GroupID]mq.GroupSettings{1: plain, 2: ordered} {
			if err := m.EnsureGroup(base, GroupConfig{ID: id, Version: 1, Settings: s}); err != nil {
				b.Fatal(err)
			}
		}
		given := attributesInABlock(block, 10_000, mq.Lanes)
		for at := uint64(0); at < messages; at += block {
			m.Append(at, block, given)
		}
		m.Commit(messages)
		settleMost(b, m, 1, messages, given)
		settleMost(b, m, 2, 1_000_000, given)
		b.ReportMetric(heapMiB()-before, "MiB-heap")
		parts := m.Checkpoint(mq.Position{Offset: messages}, PartBytes)
		size := 0
		for _, p := range parts {
			size += len(p)
		}
		b.ReportMetric(float64(size)/(1<<20), "MiB-checkpoint")
		b.ReportMetric(float64(m.Size())/(1<<20), "MiB-estimated")
		if size > MaxCheckpoint {
			b.Fatalf("a checkpoint of %d bytes", size)
		}
		start := time.Now()
		if _, _, err := LoadCheckpoint(part, parts); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms-load")
	}
}

// settleMost takes n messages of a group, and leaves the last 10,000 out.
func settleMost(b *testing.B, m *Machine, id mq.GroupID, n int, given Attributes) {
	var results []SettleResult
	var items []SettleItem
	var records []byte
	for taken := 0; taken < n; {
		r := ReceiveRequest{Group: id, Max: 1000, Consumer: "worker-1", Lease: int64(mq.MaxLease)}
		g, err := m.Receive(base, r)
		for err == nil && g.Messages() == 0 && g.Why == WhyKeys {
			at := g.Need % uint64(len(given.Keys))
			m.LearnKeys(id, g.Need, given.Keys[at:min(at+MaxLearn, uint64(len(given.Keys)))])
			g, err = m.Receive(base, r)
		}
		if err != nil || g.Messages() == 0 {
			b.Fatal(g, err)
		}
		taken += g.Messages()
		items = appendReceipts(items[:0], g)
		if taken > n-10_000 {
			for i := range len(items) / 2 {
				items[i] = items[2*i]
			}
			items = items[:len(items)/2]
		} else {
			items[0].Outcome = Reject
		}
		results = m.Settle(base, items, results[:0])
		records = m.TakeRecords(records[:0])
		m.TakeTimers(func(TimerOp) {})
		m.TakeReady(func(mq.GroupID) {})
	}
}

func heapMiB() float64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc) / (1 << 20)
}
