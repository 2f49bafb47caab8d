package rebuild

import (
	"fmt"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

var part = mq.PartitionID{Topic: 3, Number: 1}

func pos(o uint64) mq.Position { return mq.Position{Offset: o} }

func replicas(names string) (out []mq.Replica) {
	for _, n := range names {
		out = append(out, mq.Replica{Store: mq.StoreID(n), Node: "node-" + string(n)})
	}
	return out
}

// held is what a node says of segment n, which was created with a base.
func held(node string, n, base, tail uint64, end ...uint64) Holding {
	h := Holding{Holder: replicas(node)[0], Tail: pos(tail), Segment: mq.Segment{ID: mq.SegmentID(n), Partition: part, Number: n,
		Base: pos(base), Replicas: replicas("abc"), Quorum: 2, Leader: mq.Incarnation{Store: "a", Boot: 1}}}
	if len(end) > 0 {
		e := pos(end[0])
		h.End = &e
	}
	return h
}

// text is a chain in short: segments with their ranges, the open one last, and what was left out.
func text(c Chain) string {
	out := ""
	all := c.Sealed
	if c.Head.Last != nil {
		all = append(all, *c.Head.Last)
	}
	for _, s := range all {
		out += fmt.Sprintf("%d:%d-%d ", s.ID, s.Base.Offset, s.End.Offset)
		if s.Held != nil {
			out += fmt.Sprintf("(to %d) ", s.Held.Offset)
		}
	}
	if c.Head.Open != nil {
		out += fmt.Sprintf("open %d:%d ", c.Head.Open.ID, c.Head.Open.Base.Offset)
	}
	for _, h := range c.Head.Holes {
		out += fmt.Sprintf("hole %d-%d ", h.From.Offset, h.To.Offset)
	}
	for _, s := range c.LeftOut {
		out += fmt.Sprintf("without %d ", s.ID)
	}
	return fmt.Sprintf("%slost %d", out, len(c.Lost))
}

func TestChains(t *testing.T) {
	const jump = uint64(mq.HoleJump)
	for name, x := range map[string]struct {
		holdings []Holding
		known    mq.Head
		want     string
	}{
		"one open segment":                    {[]Holding{held("a", 1, 0, 5), held("b", 1, 0, 4)}, mq.Head{}, "open 1:0 lost 0"},
		"a chain; the ends were told":         {[]Holding{held("a", 1, 0, 5, 5), held("a", 2, 5, 9, 9), held("a", 3, 9, 11)}, mq.Head{}, "1:0-5 2:5-9 open 3:9 lost 0"},
		"a chain; nobody heard of the ends":   {[]Holding{held("a", 1, 0, 5), held("a", 2, 5, 9), held("a", 3, 9, 11)}, mq.Head{}, "1:0-5 2:5-9 open 3:9 lost 0"},
		"a copy that is longer than the end":  {[]Holding{held("a", 1, 0, 7), held("b", 2, 5, 9)}, mq.Head{}, "1:0-5 open 2:5 lost 0"},
		"all are sealed":                      {[]Holding{held("a", 1, 0, 5, 5), held("a", 2, 5, 9, 9)}, mq.Head{}, "1:0-5 2:5-9 lost 0"},
		"empty ones and attempts":             {[]Holding{held("a", 1, 0, 5, 5), held("b", 2, 5, 5), held("c", 3, 5, 5), held("a", 4, 5, 6)}, mq.Head{}, "1:0-5 open 4:5 lost 0"},
		"nothing but empty ones":              {[]Holding{held("a", 1, 0, 0)}, mq.Head{}, "lost 0"},
		"what retention removed is on a node": {[]Holding{held("c", 1, 0, 5, 5), held("a", 4, 20, 25, 25), held("a", 5, 25, 26)}, mq.Head{}, "4:20-25 open 5:25 without 1 lost 0"},
		"a forced partition":                  {[]Holding{held("a", 1, 0, 5, 5), held("a", 2, 5+jump, 9+jump)}, mq.Head{}, fmt.Sprintf("1:0-5 open 2:%d hole 5-%d lost 0", 5+jump, 5+jump)},
		"a forced one; nobody heard":          {[]Holding{held("a", 1, 0, 5), held("a", 2, 5+jump, 9+jump)}, mq.Head{}, fmt.Sprintf("1:0-5 open 2:%d hole 5-%d lost 0", 5+jump, 5+jump)},
		"a range that was lost": {[]Holding{held("a", 1, 0, 3, 5), held("a", 2, 5, 9)},
			mq.Head{Holes: []mq.Hole{{From: pos(3), To: pos(5), Segment: 1}}}, "1:0-5 (to 3) open 2:5 hole 3-5 lost 0"},
		"a suffix that nobody has": {[]Holding{held("a", 1, 0, 3, 5), held("a", 2, 5, 9)}, mq.Head{}, "1:0-5 open 2:5 lost 1"},
	} {
		got := Chains(x.holdings, nil, map[mq.PartitionID]mq.Head{part: x.known})
		if len(got) != 1 || text(got[0]) != x.want {
			t.Errorf("%s: %s, want %s", name, text(got[0]), x.want)
		}
	}
}

func TestNextNumberIsAboveAllThatWasSeen(t *testing.T) {
	list := []Holding{held("a", 4, 0, 5), held("b", 6, 5, 5)}
	if got := Chains(list, nil, nil)[0].Head.Next; got != 7 {
		t.Errorf("next is %d", got)
	}
	if got := Chains(list, map[mq.PartitionID]uint64{part: 9}, nil)[0].Head.Next; got != 10 {
		t.Errorf("next is %d, a node saw 9", got)
	}
}

// A sealed segment's holders are those that have it, too; acknowledgements to the open one are counted over its own replicas.
func TestHolders(t *testing.T) {
	got := Chains([]Holding{held("a", 1, 0, 5, 5), held("d", 1, 0, 5, 5), held("d", 2, 5, 6)}, nil, nil)[0]
	if n := len(got.Head.Last.Replicas); n != 4 {
		t.Errorf("%v hold the sealed one", got.Head.Last.Replicas)
	}
	if n := len(got.Head.Open.Replicas); n != 3 {
		t.Errorf("%v are the open one's", got.Head.Open.Replicas)
	}
}
