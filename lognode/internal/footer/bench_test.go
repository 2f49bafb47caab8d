package footer

import (
	"encoding/binary"
	"testing"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
)

// BenchmarkTenMillion derives the footer of 10 million messages that are in random lanes, each with an idempotency key,
// delivered to a group and acked: the most that there is to derive. It reports bytes a message, by section.
func BenchmarkTenMillion(b *testing.B) {
	const messages, batch = 10_000_000, 1000
	for b.Loop() {
		m := delivery.New(mq.PartitionID{Topic: 1})
		m.Lead(1, 1)
		if err := m.EnsureGroup(1, delivery.GroupConfig{ID: 1, Name: "g", Version: 1, Settings: mq.DefaultGroupSettings()}); err != nil {
			b.Fatal(err)
		}
		x := NewBuilder(1, mq.Position{})
		f := New(1, mq.Position{}, nil)
		var build mq.BatchBuilder
		at, journal, most := mq.Position{}, 0, 0
		random := uint64(1)
		for now := int64(2); at.Offset < messages; now++ {
			build.Reset()
			for i := range batch {
				random = random*6364136223846793005 + 1442695040888963407
				msg := mq.Message{Lane: mq.Lane(random >> 33 % mq.Lanes), Content: random}
				binary.LittleEndian.PutUint64(msg.Idempotency[:], (at.Offset+uint64(i)+1)*0x9E3779B97F4A7C15)
				build.Add(&msg)
			}
			body := build.AppendTo(nil, "p", "g", mq.CodecNone, nil)
			e := mq.Entry{Segment: 1, At: at, Stamp: now, Count: batch, Records: mq.AppendRecord(m.TakeRecords(nil), mq.KindMessages, body)}
			if order, err := delivery.AttributesOf(body, false); err == nil {
				m.Append(at.Offset, batch, order)
			}
			if err := x.Add(&e, len(e.Records)); err != nil {
				b.Fatal(err)
			}
			at = e.Next()
			journal += len(e.Records) + 100*batch // as if each value had 100 bytes
			m.Commit(at.Offset)
			use(b, m, now, batch)
			most = max(most, x.memory())
			if x.Full() {
				f.TakeBytes(x.Next())
			}
		}
		f.TakeBytes(x.Next())
		report(b, f, messages, journal, most)
	}
}

// use hands n messages out and acks them.
func use(b *testing.B, m *delivery.Machine, now int64, n int) {
	g, err := m.Receive(now, delivery.ReceiveRequest{Group: 1, Max: n, Consumer: "c"})
	if err != nil {
		b.Fatal(err)
	}
	var items []delivery.SettleItem
	for _, r := range g.Runs {
		for i := range uint64(r.Count) {
			items = append(items, delivery.SettleItem{Outcome: delivery.Ack, Receipt: mq.Receipt{Offset: r.First + i, Group: 1,
				Generation: g.Generation, Segment: 1, Counter: r.Counter + i}})
		}
	}
	m.Settle(now, items, nil)
}

func report(b *testing.B, f *Footer, messages, journal, most int) {
	sizes := map[SectionID]int{}
	total := 0
	for _, p := range f.Parts {
		total += int(p.Size())
		for _, s := range p.sections {
			sizes[s.id] += int(s.length)
		}
	}
	for id, name := range map[SectionID]string{sectionLanes: "lanes", sectionKeys: "keys", sectionBlocks: "blocks", sectionNamed: "named"} {
		b.ReportMetric(float64(sizes[id])/float64(messages), name+"-B/msg")
	}
	b.ReportMetric(float64(total)/float64(messages), "B/msg")
	b.ReportMetric(100*float64(total)/float64(journal), "%of-journal")
	b.ReportMetric(float64(len(f.Parts)), "parts")
	b.ReportMetric(float64(most)/(1<<20), "MiB-building")
}

// BenchmarkLearnLanes is what a new leader does about a million messages in random lanes that lie below its checkpoint. It
// reports the time of a message.
func BenchmarkLearnLanes(b *testing.B) {
	const messages, batch = 1_000_000, 1000
	m, x := delivery.New(mq.PartitionID{Topic: 1}), NewBuilder(1, mq.Position{})
	m.Lead(1, 1)
	if err := m.EnsureGroup(1, delivery.GroupConfig{ID: 1, Name: "g", Version: 1, Settings: mq.DefaultGroupSettings()}); err != nil {
		b.Fatal(err)
	}
	var build mq.BatchBuilder
	at, random := mq.Position{}, uint64(1)
	for at.Offset < messages {
		build.Reset()
		for range batch {
			random = random*6364136223846793005 + 1442695040888963407
			build.Add(&mq.Message{Lane: mq.Lane(random >> 33 % mq.Lanes)})
		}
		body := build.AppendTo(nil, "p", "g", mq.CodecNone, nil)
		e := mq.Entry{Segment: 1, At: at, Stamp: 1, Count: batch, Records: mq.AppendRecord(nil, mq.KindMessages, body)}
		order, err := delivery.AttributesOf(body, false)
		if err != nil {
			b.Fatal(err)
		}
		m.Append(at.Offset, batch, order)
		if err := x.Add(&e, 1); err != nil {
			b.Fatal(err)
		}
		at = e.Next()
	}
	m.Commit(at.Offset)
	parts, f := m.Checkpoint(at, delivery.PartBytes), New(1, mq.Position{}, nil)
	f.TakeBytes(x.Next())
	for b.Loop() {
		again, _, err := delivery.LoadCheckpoint(mq.PartitionID{Topic: 1}, parts)
		if err == nil {
			err = f.EachLane(again.LearnLane)
		}
		if err != nil {
			b.Fatal(err)
		}
		again.LanesLearnt()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*messages), "ns/msg")
}
