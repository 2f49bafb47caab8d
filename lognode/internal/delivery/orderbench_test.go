package delivery

import (
	"math/rand/v2"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// Ten consumers that take a hundred messages at a time and ack them when the other nine have taken theirs, with a backlog: what
// order by 10,000 keys, and lanes, cost against neither. The figure is per message, from append to ack with the records.
func BenchmarkOrderAndLanes(b *testing.B) {
	b.Run("neither", func(b *testing.B) { benchConsumers(b, mq.OrderingNone, 0, 1) })
	b.Run("10000 keys", func(b *testing.B) { benchConsumers(b, mq.OrderingKey, 10_000, 1) })
	b.Run("five lanes", func(b *testing.B) { benchConsumers(b, mq.OrderingNone, 0, mq.Lanes) })
	b.Run("10000 keys in five lanes", func(b *testing.B) { benchConsumers(b, mq.OrderingKey, 10_000, mq.Lanes) })
}

func benchConsumers(b *testing.B, ordering string, keys, lanes int) {
	const consumers, each, backlog = 10, 100, 50_000
	m := New(part)
	m.Lead(1, base)
	s := mq.DefaultGroupSettings()
	s.Ordering = ordering
	if err := m.EnsureGroup(base, GroupConfig{ID: 1, Version: 1, Settings: s}); err != nil {
		b.Fatal(err)
	}
	given, next := attributesInABlock(backlog, keys, lanes), uint64(0)
	publish := func(count uint64) {
		for count > 0 {
			at := next % backlog
			n := min(count, backlog-at)
			a := Attributes{}
			if keys > 0 {
				a.Keys = given.Keys[at : at+n]
			}
			if lanes > 1 {
				a.Lanes = given.Lanes[at : at+n]
			}
			m.Append(next, uint32(n), a)
			next, count = next+n, count-n
		}
		m.Commit(next)
	}
	var out [consumers][]SettleItem
	var results []SettleResult
	var records []byte
	publish(backlog)
	b.ReportAllocs()
	now, acked := base, 0
	turn := func(i int) {
		items := out[i%consumers]
		results = m.Settle(now, items, results[:0])
		acked += len(items)
		publish(uint64(len(items)))
		r := ReceiveRequest{Group: 1, Max: each, Consumer: "worker-1", Stream: 1, Delivery: uint64(i)}
		g, err := m.Receive(now, r)
		for err == nil && g.Messages() == 0 && g.Why == WhyKeys { // the log node reads them from the journal
			at := g.Need % backlog
			m.LearnKeys(1, g.Need, given.Keys[at:min(at+MaxLearn, backlog)])
			g, err = m.Receive(now, r)
		}
		if err != nil || g.Messages() == 0 {
			b.Fatal(g, err)
		}
		m.Confirm(1, uint64(i))
		out[i%consumers] = appendReceipts(items[:0], g)
		records = m.TakeRecords(records[:0])
		m.TakeTimers(func(TimerOp) {})
		m.TakeReady(func(mq.GroupID) {})
		now += 1000
	}
	i := 0
	for ; i < 10*consumers; i++ { // all have something out, and the memory is there
		turn(i)
	}
	b.ResetTimer()
	for acked = 0; acked < b.N; i++ {
		turn(i)
	}
	b.ReportMetric(float64(acked)/b.Elapsed().Seconds(), "messages/s")
}

func attributesInABlock(n, keys, lanes int) (a Attributes) {
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		if keys > 0 {
			key := r.IntN(keys)
			a.Keys = append(a.Keys, KeyHash([]byte{byte(key), byte(key >> 8)}))
		}
		a.Lanes = append(a.Lanes, mq.Lane(r.IntN(lanes)))
	}
	return a
}

func appendReceipts(items []SettleItem, g Grant) []SettleItem {
	for _, r := range g.Runs {
		for i := range uint64(r.Count) {
			items = append(items, SettleItem{Receipt: mq.Receipt{Partition: part, Offset: r.First + i, Group: g.Group,
				Generation: 1, Segment: 1, Counter: r.Counter + i}})
		}
	}
	return items
}
