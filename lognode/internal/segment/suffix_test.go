package segment

import (
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// sealedOf is a sealed segment of replicas a, b and c from offset 10 to 20, q = 2.
func sealedOf(adding ...mq.Replica) *mq.Segment {
	return &mq.Segment{ID: 5, Number: 3, Base: mq.Position{Offset: 10}, End: mq.Position{Offset: 20}, Sealed: true, Quorum: 2,
		Replicas: []mq.Replica{{Store: "a"}, {Store: "b"}, {Store: "c"}}, Adding: adding}
}

func has(offset uint64) Found { return Found{Tail: mq.Position{Offset: offset}, Known: true} }

// broken is a damaged copy that is intact up to an offset.
func broken(offset uint64) Found { return Found{Tail: mq.Position{Offset: offset}, Damaged: true} }

func remade(offset uint64) Found {
	return Found{Tail: mq.Position{Offset: offset}, Known: true, Remade: true}
}

func TestSpread(t *testing.T) {
	away := Found{}
	d := mq.Replica{Store: "d"}
	at15 := mq.Position{Offset: 15}
	held := sealedOf()
	held.Held = &at15
	empty := sealedOf()
	empty.End = empty.Base
	for _, x := range []struct {
		name    string
		segment *mq.Segment
		found   []Found
		lacking int
		behind  []int
	}{
		{"a quorum has it", sealedOf(), []Found{has(20), away, has(20)}, 0, nil},
		{"one is behind", sealedOf(), []Found{has(20), has(12), away}, 1, []int{1}},
		{"everybody has it but one", sealedOf(), []Found{has(20), has(12), has(20)}, 0, []int{1}},
		{"nobody answers", sealedOf(), []Found{away, away, away}, 2, nil},
		{"only those that lack it answer", sealedOf(), []Found{away, has(10), has(19)}, 2, []int{1, 2}},
		{"one that becomes a replica counts when it is whole", sealedOf(d), []Found{has(20), away, away, has(20)}, 0, nil},
		{"what is recorded as lost is not needed", held, []Found{has(15), has(17), away}, 0, nil},
		{"a damaged copy that is intact up to the end counts", sealedOf(), []Found{has(20), broken(20), broken(19)}, 0, nil},
		{"there is nothing in it", empty, []Found{away, away, away}, 0, nil},
	} {
		lacking, behind := Spread(x.segment, x.found)
		if lacking != x.lacking || !slices.Equal(behind, x.behind) {
			t.Errorf("%s: %d lacking, %v behind; want %d, %v", x.name, lacking, behind, x.lacking, x.behind)
		}
	}
}

func TestLost(t *testing.T) {
	away := Found{}
	any, empty, c := &Force{}, &Force{Empty: true}, &Force{Store: "c"}
	d := mq.Replica{Store: "d"}
	for _, x := range []struct {
		name   string
		adding []mq.Replica
		found  []Found
		force  *Force
		held   uint64 // 0: nothing may be recorded
		forced bool
	}{
		{"one holder away, the others lack the end", nil, []Found{has(17), has(15), away}, nil, 17, false},
		{"nobody away", nil, []Found{has(10), has(10), has(10)}, nil, 10, false},
		{"it is there", nil, []Found{has(20), has(15), away}, nil, 0, false},
		{"two away may have acknowledged it", nil, []Found{has(17), away, away}, nil, 0, false},
		{"two away, and an operator says so", nil, []Found{has(17), away, away}, any, 17, true},
		{"two away, and he meant with c", nil, []Found{has(17), away, away}, c, 0, false},
		{"two away, and c is there", nil, []Found{away, away, has(12)}, c, 12, true},
		{"all away, and he did not mean that", nil, []Found{away, away, away}, any, 0, false},
		{"all away, and he meant that", nil, []Found{away, away, away}, empty, 10, true},
		{"what needs no force is not forced", nil, []Found{has(17), has(15), away}, any, 17, false},
		{"a damaged copy may have had it", nil, []Found{has(17), broken(15), away}, nil, 0, false},
		{"two are damaged, and an operator says so", nil, []Found{has(14), broken(15), broken(12)}, any, 15, true},
		{"all are damaged or away", nil, []Found{away, broken(15), broken(12)}, any, 15, true},
		{"he goes on with a damaged one", nil, []Found{away, away, broken(12)}, c, 12, true},
		{"one that copies counts among the holders", []mq.Replica{d}, []Found{has(17), away, away, has(11)}, nil, 0, false},
		{"one away, one had lost its copy and has a new one", nil, []Found{has(17), remade(10), away}, nil, 0, false},
		{"two have lost their copies", nil, []Found{has(17), remade(17), remade(10)}, nil, 0, false},
		{"two have lost theirs, and an operator says so", nil, []Found{has(15), remade(17), remade(10)}, any, 17, true},
		{"one has lost its copy", nil, []Found{has(15), remade(17), has(10)}, nil, 17, false},
		{"its copy may be all that is left", []mq.Replica{d}, []Found{has(17), has(11), away, has(20)}, nil, 0, false},
	} {
		s := sealedOf(x.adding...)
		held, below, forced, err := Lost(s, x.found, x.force)
		if below != (x.held != 0) || forced != x.forced || below && (held.Offset != x.held || err != nil) {
			t.Errorf("%s: %s %v %v %v", x.name, held, below, forced, err)
		}
	}
	if _, below, _, err := Lost(sealedOf(), []Found{has(20), away, away}, nil); below || err != nil {
		t.Errorf("the end is there: %v %v", below, err)
	}
}

func TestRolls(t *testing.T) {
	old := mq.Segment{ID: 5, Number: 3, Base: mq.Position{Offset: 10}, Quorum: 1, Replicas: []mq.Replica{{Store: "a"}},
		Leader: mq.Incarnation{Store: "a", Boot: 1}}
	l, err := NewLeader(old, old.Base, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := mq.Entry{Count: 4}
	if err := l.Place(&e, 0); err != nil {
		t.Fatal(err)
	}
	chained := func(end, base uint64) *mq.Head {
		last := old
		last.Sealed, last.End = true, mq.Position{Offset: end}
		return &mq.Head{Last: &last, Open: &mq.Segment{ID: 6, Number: 4, Base: mq.Position{Offset: base}}}
	}
	known := []mq.Hole{{From: mq.Position{Offset: 3}, To: mq.Position{Offset: 10}}}
	without := func(from, to uint64) *mq.Head {
		h := chained(14, 14)
		h.Holes = append(slices.Clone(known), mq.Hole{From: mq.Position{Offset: from}, To: mq.Position{Offset: to}})
		return h
	}
	for _, x := range []struct {
		name  string
		head  *mq.Head
		fresh bool
		want  bool
	}{
		{"all that was placed is in it", chained(14, 14), true, true},
		{"a range is lost that it does not know as such", without(1, 2), true, false},
		{"only that is lost which it knows as such", without(3, 10), true, true},
		{"the copy is sealed already", chained(14, 14), false, false},
		{"what was placed last is not in it", chained(12, 12), true, false},
		{"an operator forced it", chained(14, 14+mq.HoleJump), true, false},
		{"two segments on", &mq.Head{Open: &mq.Segment{ID: 7, Base: mq.Position{Offset: 14}}, Last: &mq.Segment{ID: 6, End: mq.Position{Offset: 14}}}, true, false},
	} {
		if got := l.Rolls(x.head, known, x.fresh); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

// What was copied is never acknowledged to the segment's leader, though it may still be there and count (R1, R6).
func TestCopiesAreNotAcknowledged(t *testing.T) {
	at := func(offset uint64) mq.Position { return mq.Position{Offset: offset} }
	seg := mq.Segment{ID: 5, Base: at(10), Leader: mq.Incarnation{Store: "a", Boot: 1}}
	entry := func(offset uint64) *mq.Entry {
		return &mq.Entry{Segment: 5, At: at(offset), Prev: at(offset - 1), Boot: 1, Count: 1}
	}
	r := NewReplica(seg, at(10), at(10), false, nil)
	for _, o := range []uint64{10, 11} {
		if v := r.Offer(entry(o), seg.Leader); v != Take {
			t.Fatalf("offset %d: %d", o, v)
		}
	}
	is := func(tail, acknowledged uint64) {
		t.Helper()
		if err := r.Durable(at(tail)); err != nil {
			t.Fatal(err)
		}
		if r.Acknowledged() != at(acknowledged) || r.Tail() != at(tail) {
			t.Fatalf("tail %s, acknowledged %s; want %d, %d", r.Tail(), r.Acknowledged(), tail, acknowledged)
		}
	}
	is(11, 11)
	if _, err := r.SetEnd(at(14)); err != nil {
		t.Fatal(err)
	}
	if v := r.Copied(entry(12)); v != Take {
		t.Fatalf("a copy: %d", v)
	}
	is(12, 12) // that one came on the stream
	is(13, 12)
	end := at(14)
	if r := NewReplica(seg, at(13), at(12), true, &end); r.Acknowledged() != at(10) {
		t.Fatalf("after a start %s is acknowledged: nobody knows how it came", r.Acknowledged())
	}
	if r := NewReplica(seg, at(13), at(12), true, nil); r.Acknowledged() != at(13) {
		t.Fatalf("sealed, not ended: %s", r.Acknowledged())
	}
}

// A hole before the first segment that there is lies behind none; of others, and of what retention removed, nothing is told here.
func TestGapBefore(t *testing.T) {
	at := func(offset uint64) mq.Position { return mq.Position{Offset: offset} }
	holes := []mq.Hole{{From: at(3), To: at(9), By: "ann"}, {From: at(20), To: at(29), By: "ann"}}
	for _, x := range []struct {
		chain []mq.Segment
		want  [2]uint64
	}{
		{chain: nil},
		{chain: []mq.Segment{{Base: at(0), End: at(3)}, {Base: at(9), End: at(20)}}},
		{chain: []mq.Segment{{Base: at(9), End: at(20)}}, want: [2]uint64{3, 9}},
		{chain: []mq.Segment{{Base: at(12), End: at(20)}}},
	} {
		var got [2]uint64
		GapBefore(x.chain, holes, func(from, to uint64) { got = [2]uint64{from, to} })
		if got != x.want {
			t.Errorf("before %v: %v, not %v", x.chain, got, x.want)
		}
	}
}
