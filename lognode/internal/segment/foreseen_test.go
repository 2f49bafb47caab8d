package segment

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// What was read of a chain while the next segment was made is the chain under the head that names it, whatever of the head
// changes after that; and of no other head.
func TestForeseen(t *testing.T) {
	seg := func(id mq.SegmentID, from, to uint64) mq.Segment {
		return mq.Segment{ID: id, Number: uint64(id), Base: mq.Position{Offset: from}, End: mq.Position{Offset: to}, Sealed: true}
	}
	one, two, three := seg(1, 0, 10), seg(2, 10, 20), seg(3, 20, 30)
	next := mq.Segment{ID: 9, Number: 4, Base: mq.Position{Offset: 30}}
	read := mq.Head{Revision: 70, Open: &mq.Segment{ID: 3, Number: 3, Base: mq.Position{Offset: 20}}, Last: &two, Oldest: 1}
	f := Foresee(&next, 70, &read, []mq.Segment{one, two})
	ids := func(list []mq.Segment) (out []mq.SegmentID) {
		for _, s := range list {
			out = append(out, s.ID)
		}
		return out
	}
	empty := mq.Segment{ID: 9, Number: 4, Base: mq.Position{Offset: 20}}
	more := three
	more.Adding = []mq.Replica{{Store: "x"}}
	held := mq.Position{Offset: 25}
	less := three
	less.Held = &held
	other := next
	other.ID = 8
	for name, c := range map[string]struct {
		head mq.Head
		want int // how many, up to the last; 0 for not to be used
		from mq.SegmentID
	}{
		"the third one is sealed":           {mq.Head{Open: &next, Last: &three, Oldest: 1}, 3, 1},
		"the third one was empty":           {mq.Head{Open: &empty, Last: &two, Oldest: 1}, 2, 1},
		"the first one was dropped since":   {mq.Head{Open: &next, Last: &three, Oldest: 2}, 2, 2},
		"the last one is copied elsewhere":  {mq.Head{Open: &next, Last: &more, Oldest: 1}, 3, 1},
		"a part of the last one is lost":    {mq.Head{Open: &next, Last: &less, Oldest: 1, Holes: []mq.Hole{{From: held, To: three.End}}}, 3, 1},
		"another attempt was named":         {mq.Head{Open: &other, Last: &three, Oldest: 1}, 0, 0},
		"nothing is open":                   {mq.Head{Last: &three, Oldest: 1}, 0, 0},
		"it does not begin where they end":  {mq.Head{Open: &empty, Last: &three, Oldest: 1}, 0, 0},
		"one between was never read of":     {mq.Head{Open: &mq.Segment{ID: 9, Base: mq.Position{Offset: 50}}, Last: ptr(seg(5, 40, 50)), Oldest: 1}, 0, 0},
		"nothing is before it, as was read": {mq.Head{Open: &next}, 0, 0},
	} {
		got, ok := f.Under(&c.head)
		if ok != (c.want > 0) || ok && (len(got) != c.want || got[0].ID != c.from || got[len(got)-1].ID != c.head.Last.ID) {
			t.Errorf("%s: %v, %v", name, ids(got), ok)
		}
		if ok && len(got[len(got)-1].Adding) != len(c.head.Last.Adding) {
			t.Errorf("%s: the last one is as it was read, not as the head says", name)
		}
	}
	if f := Foresee(&next, 71, &read, nil); f != nil {
		t.Errorf("of a head that changed before: %+v", f)
	}
	named := mq.Head{Revision: 71, Open: &next, Last: &three, Oldest: 1}
	late := Foresee(&next, 70, &named, []mq.Segment{one, two, three})
	if got, ok := late.Under(&named); !ok || len(got) != 3 || got[2].ID != 3 {
		t.Errorf("read when it was named: %v, %v", ids(got), ok)
	}
	first := mq.Segment{ID: 1, Number: 1}
	empties := Foresee(&first, 5, &mq.Head{Revision: 5}, nil)
	if got, ok := empties.Under(&mq.Head{Open: &first}); !ok || len(got) != 0 {
		t.Errorf("a partition's first segment: %v, %v", got, ok)
	}
	if _, ok := (*Foreseen)(nil).Under(&read); ok {
		t.Error("nothing was read, and there is a chain")
	}
}

func ptr(s mq.Segment) *mq.Segment { return &s }
