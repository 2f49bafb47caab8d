package segment

import (
	"errors"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// Copies are compared only where both are whole and say what they have.
func TestCheckCopies(t *testing.T) {
	s := testSegment(3, 2)
	s.Base, s.Sealed, s.End = mq.Position{}, true, mq.Position{Offset: 5}
	whole := func(entries, sum uint64) Found { return Found{Tail: s.End, Known: true, Entries: entries, Sum: sum} }
	short := Found{Tail: mq.Position{Offset: 4}, Known: true, Entries: 2, Sum: 9}
	for name, c := range map[string]struct {
		found []Found
		bad   bool
	}{
		"alike":              {[]Found{whole(3, 7), whole(3, 7), whole(3, 7)}, false},
		"one is short":       {[]Found{whole(3, 7), short, whole(3, 7)}, false},
		"one does not say":   {[]Found{whole(0, 0), whole(3, 7), whole(3, 7)}, false},
		"one is damaged":     {[]Found{{Tail: s.End, Damaged: true, Entries: 3, Sum: 1}, whole(3, 7), whole(3, 7)}, false},
		"one is unknown":     {[]Found{{}, whole(3, 7), {}}, false},
		"another sum":        {[]Found{whole(3, 7), whole(3, 8), {}}, true},
		"another number":     {[]Found{{}, whole(3, 7), whole(2, 7)}, true},
		"differs from first": {[]Found{whole(3, 7), whole(3, 7), whole(3, 8)}, true},
	} {
		if err := CheckCopies(&s, s.Holders(), c.found); (Invariant(err) == "I3") != c.bad || (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was committed is before the end, unless an operator gave up what is behind it.
func TestCheckHead(t *testing.T) {
	at := func(offset uint64) mq.Position { return mq.Position{Offset: offset} }
	before := testSegment(3, 2)
	before.Base = at(0)
	ended := before
	ended.Sealed, ended.End = true, at(5)
	head := func(base uint64, holes ...mq.Hole) *mq.Head {
		return &mq.Head{Open: &mq.Segment{ID: 99, Base: at(base)}, Last: &ended, Holes: holes}
	}
	for name, c := range map[string]struct {
		head      *mq.Head
		committed mq.Position
		want      string
	}{
		"all of it":                  {head(5), at(5), ""},
		"less":                       {head(5), at(3), ""},
		"more":                       {head(5), at(6), "I1"},
		"more, and a hole":           {head(5+mq.HoleJump, mq.Hole{From: at(5), To: at(5 + mq.HoleJump)}), at(6), ""},
		"a gap":                      {head(6), at(5), "I5"},
		"an overlap":                 {head(4), at(5), "I5"},
		"a hole elsewhere":           {head(6, mq.Hole{From: at(4), To: at(6)}), at(5), "I5"},
		"two holes, one by the next": {head(9, mq.Hole{From: at(7), To: at(9)}, mq.Hole{From: at(5), To: at(7)}), at(5), ""},
		"the same one is open":       {&mq.Head{Open: &before}, at(6), ""},
		"it was empty and replaced":  {&mq.Head{Open: &mq.Segment{ID: 99}}, at(0), ""},
		"replaced, and not empty":    {&mq.Head{Open: &mq.Segment{ID: 99}}, at(1), "I1"},
		"too new to say":             {&mq.Head{Open: &mq.Segment{ID: 99, Base: at(50)}}, at(6), ""},
	} {
		if err := CheckHead(c.head, &before, c.committed); Invariant(err) != c.want || (err != nil) != (c.want != "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A range that was recorded as lost within a segment is a hole like any other.
func TestCheckChainWithHeld(t *testing.T) {
	at := func(offset uint64) mq.Position { return mq.Position{Offset: offset} }
	held := at(3)
	chain := []mq.Segment{{ID: 1, Base: at(0), End: at(5), Held: &held}, {ID: 2, Base: at(5), End: at(8)}}
	h := mq.Head{Open: &mq.Segment{ID: 3, Base: at(8)}, Holes: []mq.Hole{{From: at(3), To: at(5)}}}
	if err := CheckChain(&h, chain); err != nil {
		t.Error(err)
	}
	h.Holes = nil
	if err := CheckChain(&h, chain); Invariant(err) != "I5" {
		t.Errorf("an unrecorded loss: %v", err)
	}
	chain[0].Held = nil
	chain[1].Base, chain[1].End = at(5), at(4)
	if err := CheckChain(&h, chain); Invariant(err) != "I5" {
		t.Errorf("a segment that ends before it begins: %v", err)
	}
	if Invariant(errors.New("anything else")) != "" || Invariant(nil) != "" {
		t.Error("no invariant is broken")
	}
}
