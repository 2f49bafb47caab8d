package replica

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// keyed is a message with an idempotency key (0 for none) and a content.
type keyed struct{ key, content int }

func (o *one) appendKeyed(list ...keyed) frame.Appended {
	o.t.Helper()
	a := ask(o.t, func(r Reply) { o.p.Append(keyedBatch(list...), len(list), r) })
	if err := a.err(); err != nil {
		o.t.Fatal(err)
	}
	var f frame.Appended
	if err := f.Parse(a.body); err != nil {
		o.t.Fatal(err)
	}
	return f
}

func keyedBatch(list ...keyed) []byte {
	var b mq.BatchBuilder
	for _, k := range list {
		m := mq.Message{Value: fmt.Append(nil, k.key, " ", k.content), Lane: mq.LaneNormal, Content: uint64(k.content)}
		m.Idempotency[3] = byte(k.key)
		b.Add(&m)
	}
	return b.AppendTo(nil, "p", "g", mq.CodecNone, nil)
}

// repeat drops the time, which tests do not choose.
func repeats(f frame.Appended) (out []frame.Repeat) {
	for _, r := range f.Repeats {
		r.Stamp = 0
		out = append(out, r)
	}
	return out
}

func TestRepeatIsAnsweredWithTheFirst(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	first := o.appendKeyed(keyed{1, 7})
	if first.First != 0 || first.Count != 1 || first.Repeats != nil {
		t.Fatalf("%+v", first)
	}
	again := o.appendKeyed(keyed{1, 7})
	if again.Count != 0 || !slices.Equal(repeats(again), []frame.Repeat{{Number: 0}}) || again.Repeats[0].Stamp != first.Stamp {
		t.Fatalf("%+v, first %+v", again, first)
	}
	if other := o.appendKeyed(keyed{1, 8}); other.Count != 0 || !slices.Equal(repeats(other), []frame.Repeat{{Conflict: true}}) {
		t.Fatalf("%+v", other)
	}
	// In one batch: plain, new, repeat of offset 0, repeat of the second, plain, conflict, new.
	mixed := o.appendKeyed(keyed{0, 1}, keyed{2, 1}, keyed{1, 7}, keyed{2, 1}, keyed{0, 1}, keyed{2, 9}, keyed{3, 1})
	want := []frame.Repeat{{Ordinal: 2, Number: 0}, {Ordinal: 3, Number: 2}, {Ordinal: 5, Number: 2, Conflict: true}}
	if mixed.First != 1 || mixed.Count != 4 || !slices.Equal(repeats(mixed), want) {
		t.Fatalf("%+v", mixed)
	}
	if again := o.appendKeyed(keyed{3, 1}); !slices.Equal(repeats(again), []frame.Repeat{{Number: 4}}) {
		t.Fatalf("%+v", again)
	}
	if next := o.publish("plain"); next.First != 5 {
		t.Fatalf("the next message is at %d", next.First)
	}
}

// Two requests with the same key that come together: one is stored, and both are answered after its commit.
func TestRepeatWaitsForTheFirstsCommit(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	gate := make(chan struct{})
	o.p.post(func() { <-gate })
	answers := make(chan frame.Appended, 2)
	for range 2 {
		go func() { answers <- o.appendKeyed(keyed{1, 1}) }()
	}
	for o.env.Waiting.Load() != int64(2*len(keyedBatch(keyed{1, 1}))) { // both are on their way in
		o.p.signal()
	}
	close(gate)
	a, b := <-answers, <-answers
	if a.Count+b.Count != 1 || len(a.Repeats)+len(b.Repeats) != 1 {
		t.Fatalf("%+v and %+v", a, b)
	}
	if next := o.publish("next"); next.First != 1 {
		t.Fatalf("the next message is at %d", next.First)
	}
}

// drop removes the oldest segment as retention does, with what the leader does before.
func (o *one) drop() {
	o.t.Helper()
	done := make(chan struct{})
	id := o.world.sealed[0].ID
	o.p.post(func() {
		o.p.retaining = true
		o.p.carryKeys(o.p.lead, o.p.lead.chain[0], func(err error) {
			if err != nil {
				o.t.Error(err)
			}
			o.p.retaining = false
			close(done)
		})
	})
	<-done
	o.world.mu.Lock()
	o.world.sealed = o.world.sealed[1:]
	o.world.mu.Unlock()
	o.p.post(func() { o.p.lead.chain = o.p.lead.chain[1:] })
	o.p.Drop(id)
	if err := o.store.RemoveSegments([]mq.SegmentID{id}); err != nil {
		o.t.Fatal(err)
	}
}

// serve waits until the leader serves.
func (o *one) waitServing() {
	ch := make(chan struct{})
	o.p.serve(func(err error) { o.t.Error(err); close(ch) }, func(*leadership) { close(ch) })
	<-ch
}

// Random publishes with keys, against a map; between them rolls, restarts, lost footers, and removed segments.
func TestKeysSurviveEverythingWithinTheWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			o := newOne(t)
			known := map[int]keyedPlace{}
			next := uint64(0)
			for range 120 {
				switch x := random.IntN(20); {
				case x == 0:
					o.open()
				case x == 1:
					o.restart()
				case x == 2 && len(o.world.sealed) > 1:
					o.waitServing()
					o.drop()
				case x == 3 && len(o.world.sealed) > 0:
					_ = os.Remove(filepath.Join(o.dir, "footers", fmt.Sprint(o.world.sealed[len(o.world.sealed)-1].ID)))
				default:
					list := make([]keyed, 1+random.IntN(5))
					for i := range list {
						list[i] = keyed{random.IntN(60), random.IntN(2)}
					}
					checkKeyed(t, known, &next, list, o.appendKeyed(list...))
				}
			}
		})
	}
}

type keyedPlace struct {
	content int
	offset  uint64
}

// checkKeyed is the oracle: what an append must be answered with, one message after the other.
func checkKeyed(t *testing.T, known map[int]keyedPlace, next *uint64, list []keyed, got frame.Appended) {
	t.Helper()
	var want []frame.Repeat
	first, count := *next, uint32(0)
	for i, k := range list {
		if at, ok := known[k.key]; ok && k.key != 0 {
			want = append(want, frame.Repeat{Ordinal: uint32(i), Number: at.offset, Conflict: at.content != k.content})
			continue
		}
		known[k.key] = keyedPlace{k.content, *next}
		*next++
		count++
	}
	if got.Count != count || count > 0 && got.First != first || !slices.Equal(repeats(got), want) {
		t.Fatalf("%v: got %+v, want %d from %d and %+v", list, got, count, first, want)
	}
}
