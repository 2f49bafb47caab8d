package gateway

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// A lost answer is asked for again only where the leader would know each message again. The leader of this test knows
// none, so what was sent twice is stored twice, and shows.
func TestOnlyKeyedPublishesAreSentAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	losing := func() {
		left := 1
		e.leader.with(func() {
			e.leader.cut = func(f frame.Type, _ mq.PartitionID) bool { left--; return left >= 0 }
		})
	}
	const single, batch = "/v1/topics/t/messages", "/v1/topics/t/messages/batch"
	losing()
	if a := e.post(single, "x", headerIdempotency, "k"); a.status != 201 || a.at(t) != 1 {
		t.Errorf("with a key: %d %s", a.status, a.body)
	}
	losing()
	if a := e.post(single, "x"); a.status != 504 {
		t.Errorf("without one: %d %s", a.status, a.body)
	}
	losing()
	if a := e.post(batch, `{"messages":[{"value":"a","idempotency_key":"1"},{"value":"b"}]}`); a.status != 207 {
		t.Errorf("a batch with one that has none: %d %s", a.status, a.body)
	}
	losing()
	if a := e.post(batch, `{"messages":[{"value":"a","idempotency_key":"1"},{"value":"b","idempotency_key":"2"}]}`); a.status != 200 {
		t.Errorf("a batch with keys: %d %s", a.status, a.body)
	}
	if a := e.post(single, "x"); a.at(t) != 2+1+2+4 {
		t.Errorf("%s: another number of messages was sent", a.body)
	}
}

// at is the offset of a raw publish.
func (r reply) at(t *testing.T) uint64 {
	t.Helper()
	var out struct{ Offset uint64 }
	r.into(t, &out)
	return out.Offset
}

func TestContentSumIsOfTheMessage(t *testing.T) {
	base := mq.Message{Value: []byte("v"), Key: []byte("k"), HasKey: true, ContentType: "t", Lane: mq.LaneHigh, TTL: 5,
		Headers: []mq.Header{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}}
	seen := map[uint64]string{contentSum(&base): "the message"}
	for name, change := range map[string]func(m *mq.Message){
		"value":          func(m *mq.Message) { m.Value = []byte("w") },
		"no value":       func(m *mq.Message) { m.Value = nil },
		"key":            func(m *mq.Message) { m.Key = []byte("l") },
		"empty key":      func(m *mq.Message) { m.Key = nil },
		"no key":         func(m *mq.Message) { m.Key, m.HasKey = nil, false },
		"type":           func(m *mq.Message) { m.ContentType = "u" },
		"moved bytes":    func(m *mq.Message) { m.Key, m.ContentType = []byte("kt"), "" },
		"lane":           func(m *mq.Message) { m.Lane = mq.LaneLow },
		"ttl":            func(m *mq.Message) { m.TTL = 6 },
		"header":         func(m *mq.Message) { m.Headers = m.Headers[:1] },
		"swapped values": func(m *mq.Message) { m.Headers = []mq.Header{{Name: "a", Value: "2"}, {Name: "b", Value: "1"}} },
		"name for value": func(m *mq.Message) { m.Headers = []mq.Header{{Name: "1", Value: "a"}, {Name: "b", Value: "2"}} },
	} {
		m := base
		change(&m)
		if was, ok := seen[contentSum(&m)]; ok {
			t.Errorf("another %s has the sum of %s", name, was)
		}
		seen[contentSum(&m)] = name
	}
	turned := base
	turned.Headers = []mq.Header{base.Headers[1], base.Headers[0]}
	setIdempotency(&turned, "k")
	if contentSum(&turned) != contentSum(&base) {
		t.Error("the order of headers, or the idempotency key, counts")
	}
}

// Offsets of a batch with repeats, against counting them one by one.
func TestPlacesOfABatchWithRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &outgoing{topic: 7, way: way{partition: 3}}
		done := frame.Appended{First: 100, Stamp: 9}
		n := rapid.IntRange(1, 20).Draw(t, "messages")
		var want []string
		for i := range n {
			b.add(&mq.Message{Lane: mq.LaneNormal}, 0)
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				r := frame.Repeat{Ordinal: uint32(i), Number: uint64(rapid.IntRange(0, 99).Draw(t, "number")), Stamp: 5,
					Conflict: rapid.Bool().Draw(t, "conflict"), Scheduled: rapid.Bool().Draw(t, "scheduled")}
				done.Repeats = append(done.Repeats, r)
				want = append(want, fmt.Sprint(r.Number, r.Scheduled, true, 5, r.Conflict))
			default:
				want = append(want, fmt.Sprint(uint64(100+done.Count), false, false, 9, false))
				done.Count++
			}
		}
		if err := b.took(&done); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			p, err := b.at(int32(i))
			got := fmt.Sprint(p.id.Number, p.id.Scheduled, p.duplicate, p.stamp, err != nil)
			if got != want[i] {
				t.Fatalf("message %d of %+v: %s, want %s", i, done, got, want[i])
			}
		}
	})
}

func TestAnswersThatDoNotFitTheBatch(t *testing.T) {
	for _, done := range []frame.Appended{{Count: 1}, {Count: 3}, {Count: 1, Repeats: []frame.Repeat{{Ordinal: 2}}},
		{Repeats: []frame.Repeat{{Ordinal: 1}, {Ordinal: 1}}}, {Repeats: []frame.Repeat{{Ordinal: 1}, {Ordinal: 0}}}} {
		b := &outgoing{}
		b.add(&mq.Message{}, 0)
		b.add(&mq.Message{}, 0)
		if b.took(&done) == nil {
			t.Errorf("%+v is taken for the answer to two messages", done)
		}
	}
}
