package meta

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

func segment(p mq.PartitionID, number uint64) mq.Segment {
	return mq.Segment{ID: mq.SegmentID(100 + number), Partition: p, Number: number, Base: mq.Position{Offset: 10 * number},
		End: mq.Position{Offset: 10 * (number + 1)}, Quorum: 1, Replicas: []mq.Replica{{Store: "s", Node: "n"}}}
}

func TestChain(t *testing.T) {
	s, ctx := testStore(t)
	p := mq.PartitionID{Topic: 7, Number: 3}
	_, err := s.Head(ctx, p)
	wantCode(t, "no head", err, mqerr.PartitionNotFound)
	if err := s.CreatePartitions(ctx, 7, 0, 200, 3, 2); err != nil {
		t.Fatal(err)
	}
	if err := s.CreatePartitions(ctx, 7, 190, 210, 1, 1); err != nil {
		t.Fatal(err)
	}
	h, err := s.Head(ctx, mq.PartitionID{Topic: 7, Number: 195})
	if err != nil || h.Replicas != 3 || h.Quorum != 2 || h.Next != 1 || h.Open != nil {
		t.Errorf("a partition that was there: %+v, %v", h, err)
	}
	if h, err := s.Head(ctx, mq.PartitionID{Topic: 7, Number: 209}); err != nil || h.Replicas != 1 {
		t.Errorf("a new partition: %+v, %v", h, err)
	}
	if h, err = s.Head(ctx, p); err != nil {
		t.Fatal(err)
	}
	stale := h
	// Twelve openings, so that numbers of two digits sort behind those of one.
	for n := uint64(1); n <= 12; n++ {
		o := Opening{Head: h, Displaced: h.Last}
		o.Head.Last = h.Open
		next := segment(p, n)
		o.Head.Open, o.Head.Next = &next, n+1
		ok, at, err := s.OpenSegments(ctx, []Opening{o})
		if err != nil || !ok {
			t.Fatalf("opening %d: %v, %v", n, ok, err)
		}
		h = o.Head
		h.Revision = at
	}
	if ok, _, err := s.OpenSegments(ctx, []Opening{{Head: stale}}); ok || err != nil {
		t.Errorf("an opening from a stale head: %v, %v", ok, err)
	}
	_, chain, err := s.Chain(ctx, p)
	if err != nil || len(chain) != 11 {
		t.Fatalf("%d sealed segments, %v", len(chain), err)
	}
	for i, seg := range chain {
		if seg.Number != uint64(i+1) {
			t.Errorf("segment %d has number %d", i, seg.Number)
		}
	}
	h, err = s.DropSegments(ctx, h, 10)
	if err != nil || h.Oldest != 10 {
		t.Fatalf("dropped: %+v, %v", h, err)
	}
	if rest, err := s.Segments(ctx, p); err != nil || len(rest) != 2 || rest[0].Number != 10 {
		t.Errorf("what is left: %+v, %v", rest, err)
	}
	_, err = s.DropSegments(ctx, stale, 11)
	if err == nil {
		t.Error("segments dropped from a stale head")
	}
	if _, err := s.DropSegments(ctx, h, 12); err == nil {
		t.Error("the last sealed segment dropped")
	}
	if ok, _, err := s.OpenSegments(ctx, make([]Opening, MaxOpenings+1)); ok || err == nil {
		t.Error("too many openings taken")
	}
}

// TestOpeningsAreAllOrNone: one stale head of forty stops all.
func TestOpeningsAreAllOrNone(t *testing.T) {
	s, ctx := testStore(t)
	if err := s.CreatePartitions(ctx, 1, 0, MaxOpenings, 1, 1); err != nil {
		t.Fatal(err)
	}
	var all []Opening
	for n := range uint32(MaxOpenings) {
		p := mq.PartitionID{Topic: 1, Number: n}
		h, err := s.Head(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		seg, old := segment(p, 1), segment(p, 0)
		h.Open, h.Next = &seg, 2
		all = append(all, Opening{h, &old}) // with the most operations there can be
	}
	all[17].Head.Revision--
	if ok, _, err := s.OpenSegments(ctx, all); ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	if h, _ := s.Head(ctx, mq.PartitionID{Topic: 1}); h.Open != nil {
		t.Error("one of them was carried out")
	}
	all[17].Head.Revision++
	if ok, _, err := s.OpenSegments(ctx, all); !ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
}
