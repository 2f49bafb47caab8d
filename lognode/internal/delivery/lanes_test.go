package delivery

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// dumbLanes is the catalog as a slice: what each offset is, from base on.
type dumbLanes struct {
	base  uint64
	lanes []mq.Lane
}

func (d *dumbLanes) of(off uint64) mq.Lane {
	if off < d.base || off >= uint64(len(d.lanes)) {
		return mq.LaneNormal
	}
	return d.lanes[off]
}

func TestCatalogAgainstSlice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// Around the border of two chunks, so that both are in use.
		start := rapid.SampledFrom([]uint64{0, chunkSize - 30, 5*chunkSize - 100, 1<<32 - 5000}).Draw(rt, "start")
		c, d := catalog{base: start, end: start}, &dumbLanes{}
		at := func(off uint64) uint64 { return start + off }
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				var lanes []mq.Lane
				n := rapid.IntRange(0, 20).Draw(t, "n")
				if rapid.Bool().Draw(t, "special") {
					l := rapid.Custom(func(t *rapid.T) mq.Lane { return mq.Lane(rapid.IntRange(0, 4).Draw(t, "lane")) })
					lanes = rapid.SliceOfN(l, n, n).Draw(t, "lanes")
				}
				c.add(at(uint64(len(d.lanes))), uint64(n), lanes)
				for i := range n {
					l := mq.LaneNormal
					if lanes != nil {
						l = lanes[i]
					}
					d.lanes = append(d.lanes, l)
				}
			},
			"trim": func(t *rapid.T) {
				d.base = max(d.base, uint64(rapid.IntRange(0, len(d.lanes)).Draw(t, "base")))
				c.trim(at(d.base))
			},
			"": func(t *rapid.T) {
				l := mq.Lane(rapid.IntRange(0, 4).Draw(t, "lane"))
				from := uint64(rapid.IntRange(0, len(d.lanes)+3).Draw(t, "from"))
				to := from + uint64(rapid.IntRange(0, 30).Draw(t, "length"))
				compareCatalog(t, &c, d, start, l, from, to)
			},
		})
	})
}

// A catalog learns what lies below a checkpoint from lists of offsets, in whatever order and pieces they come, some of them
// twice, some beyond what it asked for; also around a hole.
func TestCatalogLearns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]uint64{0, chunkSize - 30, 5*chunkSize - 100, 1<<32 - 5000}).Draw(t, "start")
		n := rapid.SampledFrom([]int{1, 40, 3 * chunkSize}).Draw(t, "messages")
		favourite := mq.Lane(rapid.IntRange(0, 4).Draw(t, "favourite"))
		random := rand.New(rand.NewPCG(uint64(n), start)) // many: rapid would shrink them for ever
		d := &dumbLanes{}
		for len(d.lanes) < n {
			l := favourite
			if random.IntN(3) == 0 {
				l = mq.Lane(random.IntN(mq.Lanes))
			}
			for range 1 + random.IntN(100)*random.IntN(2) {
				d.lanes = append(d.lanes, l)
			}
		}
		d.lanes = d.lanes[:n]
		var pieces [][]uint64
		var of []mq.Lane
		size := rapid.SampledFrom([]int{1, 7, 1024}).Draw(t, "piece")
		for l := range mq.Lane(mq.Lanes) {
			for i, x := range d.lanes {
				if x != l {
					continue
				}
				if k := len(of) - 1; k < 0 || of[k] != l || len(pieces[k]) == size {
					pieces, of = append(pieces, nil), append(of, l)
				}
				pieces[len(of)-1] = append(pieces[len(of)-1], start+uint64(i))
			}
		}
		from, to := rapid.IntRange(0, n).Draw(t, "from"), rapid.IntRange(0, n).Draw(t, "to")
		if from > to {
			from, to = to, from
		}
		m := New(part)
		m.lanes.base, m.lanes.end, m.unknown, m.next.Offset = start, start+uint64(from), start+uint64(to), start+uint64(n)
		hole := span{start + uint64(n/2), start + uint64(n/2+rapid.IntRange(0, n/2).Draw(t, "hole"))}
		if hole.from < hole.to {
			m.lanes.addHole(hole)
		}
		for _, k := range append(random.Perm(len(of)), random.IntN(len(of))) {
			m.LearnLane(of[k], pieces[k])
		}
		m.LanesLearnt()
		want := func(off int, l mq.Lane) bool {
			if at := start + uint64(off); hole.from <= at && at < hole.to {
				return false
			}
			return l == mq.LaneNormal && (off < from || off >= to) || from <= off && off < to && d.lanes[off] == l
		}
		for l := range mq.Lane(mq.Lanes) {
			seen := uint64(0)
			for off := range n {
				if want(off, l) {
					seen++
				}
				if next, ok := m.lanes.next(l, start+uint64(off)); want(off, l) != (ok && next == start+uint64(off)) {
					t.Fatalf("next of lane %s from %d is %d %v", l, off, next-start, ok)
				}
			}
			if got := m.lanes.count(l, start, start+uint64(n)); got != seen {
				t.Fatalf("%d in lane %s, want %d", got, l, seen)
			}
		}
	})
}

// What says that a message is in two lanes is wrong, and is no reason to count it twice.
func TestCatalogLearnsNothingTwice(t *testing.T) {
	m := New(part)
	m.unknown, m.next.Offset = 10, 10
	m.LearnLane(mq.LaneHigh, []uint64{1, 2, 3})
	m.LearnLane(mq.LaneLow, []uint64{3, 4})
	m.LanesLearnt()
	sum := uint64(0)
	for _, n := range m.lanes.counts(0, 10) {
		sum += n
	}
	if sum != 10 {
		t.Fatalf("%d messages in all lanes, want 10", sum)
	}
}

func compareCatalog(t *rapid.T, c *catalog, d *dumbLanes, start uint64, l mq.Lane, from, to uint64) {
	n := uint64(0)
	for off := from; off < to; off++ {
		if got := c.of(start + off); got != d.of(off) {
			t.Fatalf("offset %d is in %s, want %s", off, got, d.of(off))
		}
		if d.of(off) == l {
			n++
		}
	}
	if got := c.count(l, start+from, start+to); got != n {
		t.Fatalf("%d of lane %s from %d to %d, want %d", got, l, from, to, n)
	}
	if got := c.counts(start+from, start+to)[l]; got != n {
		t.Fatalf("counts say %d of lane %s, want %d", got, l, n)
	}
	next, ok := c.next(l, start+from)
	off := from
	for d.of(off) != l && off < uint64(len(d.lanes)) {
		off++
	}
	if want := d.of(off) == l; ok != want || ok && next != start+off {
		t.Fatalf("next of lane %s from %d is %d %v, want %d %v", l, from, next-start, ok, off, want)
	}
	if ok {
		run := c.run(l, next, 7)
		if run == 0 || run > 7 || c.count(l, next, next+run) != run {
			t.Fatalf("a run of %d in lane %s from %d", run, l, next-start)
		}
	}
	if prev, ok := c.prev(l, start+from); ok && prev >= start {
		if off := prev - start; d.of(off) != l || c.count(l, prev, start+from) != 1 {
			t.Fatalf("prev of lane %s from %d is %d", l, from, off)
		}
	} else if c.count(l, start+d.base, start+max(from, d.base)) > 0 {
		t.Fatalf("no prev of lane %s from %d", l, from)
	}
}

// What each lane gets of the hand-outs against the simplest account: in any stretch in which it always had something, at
// least its weight's part of what all lanes with something could claim.
func TestShareOfEachLane(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := newJournal(t)
		j.group(1, func(c *GroupConfig) { c.Settings.MaxInFlight = mq.MaxInFlightCap })
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		weights := [mq.Lanes]int{16, 8, 4, 2, 1}
		var waiting, got [mq.Lanes]int
		lowest := mq.LaneBackground
		handed, since := 0, 0 // since the lowest lane has had something
		for range 300 {
			lanes := make([]mq.Lane, r.IntN(120))
			for i := range lanes {
				lanes[i] = mq.Lane(r.IntN(mq.Lanes))
				waiting[lanes[i]]++
			}
			j.publish(lanes...)
			had := waiting[lowest] > 0
			all := 0
			for l, n := range waiting {
				if n > 0 {
					all += weights[l]
				}
			}
			before := got
			g := j.receive(1, 1+r.IntN(60), uint64(handed))
			for _, x := range receipts(g) {
				l := j.m.lanes.of(x.Offset)
				got[l]++
				waiting[l]--
				handed++
				since++
			}
			j.settle(Ack, receipts(g)...)
			// In one call: as many as its weight's part of it, short of what a round may still owe it.
			for l := range got {
				if n := got[l] - before[l]; waiting[l] > 0 && n < g.Messages()*weights[l]/all-31 {
					rt.Fatalf("lane %d got %d of %d", l, n, g.Messages())
				}
			}
			if !had || waiting[lowest] == 0 {
				since, got[lowest] = 0, 0
			}
			if got[lowest] < since*3/100-1 {
				rt.Fatalf("the lowest lane got %d of %d while it had something", got[lowest], since)
			}
		}
	})
}

// Strict: nothing goes out while something more urgent waits.
func TestStrictLanes(t *testing.T) {
	j := newJournal(t)
	j.group(1, func(c *GroupConfig) { c.Settings.Lanes.Mode = mq.LanesStrict })
	j.publish(mq.LaneLow, mq.LaneNormal, mq.LaneCritical, mq.LaneLow, mq.LaneCritical, mq.LaneHigh)
	j.offsets([]uint64{2, 4, 5}, j.receive(1, 3, 1))
	j.publish(mq.LaneHigh)
	j.offsets([]uint64{6, 1, 0}, j.receive(1, 3, 2))
	j.offsets([]uint64{3}, j.receive(1, 3, 3))
}

// Museum 22: an index that is filled apart from the offsets skips what comes between. Here messages of urgent lanes are
// handed out far ahead, before, between and after commits, and what they passed is neither lost nor handed out twice.
func TestMuseum22LanesSkipNothing(t *testing.T) {
	j := newJournal(t)
	j.group(1, func(c *GroupConfig) {
		c.Settings.Lanes.Mode = mq.LanesStrict
		c.Settings.MaxInFlight = mq.MaxInFlightCap
	})
	r := rand.New(rand.NewPCG(22, 22))
	seen := map[uint64]int{}
	n := uint64(0)
	take := func(most int) {
		g := j.receive(1, most, n)
		for _, x := range receipts(g) {
			seen[x.Offset]++
		}
		j.settle(Ack, receipts(g)...)
	}
	for range 500 {
		lanes := make([]mq.Lane, r.IntN(5))
		for i := range lanes {
			lanes[i] = mq.Lane(r.IntN(mq.Lanes))
		}
		// Placed but not committed: its lanes are known, and it must not be handed out.
		j.m.Append(j.tail.Offset, uint32(len(lanes)), Attributes{Lanes: lanes})
		take(r.IntN(4))
		for off := range seen {
			if off >= j.tail.Offset {
				t.Fatalf("offset %d was handed out before its commit", off)
			}
		}
		j.publish(lanes...)
		n += uint64(len(lanes))
		take(r.IntN(4))
		if r.IntN(40) == 0 {
			j.cut(0)
			j.failover()
		}
	}
	take(mq.MaxBatchMessages)
	for off := range n {
		if seen[off] != 1 {
			t.Fatalf("offset %d was handed out %d times", off, seen[off])
		}
	}
	if f, _ := j.m.Figures(1); f.Lag != 0 || f.Cursor != n || f.Acked != n {
		t.Fatalf("%+v", f)
	}
}

// A priority message hides nothing: ten thousand urgent ones in front of an old one of the lowest lane leave five pointers
// and no spans, and the old one comes within its share.
func TestUrgentMessagesHideNothing(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	small := j.m.Size()
	j.publish(mq.LaneBackground)
	for range 100 {
		lanes := make([]mq.Lane, 100)
		for k := range lanes {
			lanes[k] = mq.LaneCritical
			if k%10 == 0 {
				lanes[k] = mq.LaneLow
			}
		}
		j.publish(lanes...)
	}
	// Seventeen of critical and low to one of background, at the most.
	g := j.receive(1, 19, 1)
	low := false
	for _, off := range offsets(g) {
		low = low || off == 0
	}
	if !low {
		t.Fatalf("got %v without the first", offsets(g))
	}
	j.settle(Ack, receipts(g)...)
	for i := range uint64(80) {
		j.settle(Ack, receipts(j.receive(1, 100, 2+i))...)
	}
	if got := j.m.Size(); got != small {
		t.Fatalf("the state takes %d bytes, not %d", got, small)
	}
}

// While lanes compete none holds more of max_in_flight than its share; alone it may have all.
func TestMaxInFlightIsShared(t *testing.T) {
	j := newJournal(t)
	j.group(1, func(c *GroupConfig) { c.Settings.MaxInFlight = 100 })
	lanes := make([]mq.Lane, 300)
	for i := range lanes {
		lanes[i] = mq.LaneCritical
	}
	j.publish(lanes...)
	g := j.receive(1, 90, 1)
	if g.Messages() != 90 {
		t.Fatalf("alone it got %d", g.Messages())
	}
	j.publish(mq.LaneNormal, mq.LaneNormal, mq.LaneNormal)
	j.offsets([]uint64{300, 301, 302}, j.receive(1, 10, 2)) // critical is over its 80
	if g = j.receive(1, 50, 3); g.Messages() != 7 {
		t.Fatalf("alone again it got %d", g.Messages())
	}
}

// What is returned is made up for, so that answers which are cut short do not starve the lane that comes last.
func TestReturnsGiveCreditBack(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	lanes := make([]mq.Lane, 4000)
	for i := range lanes {
		lanes[i] = mq.LaneCritical
		if i%2 == 0 {
			lanes[i] = mq.LaneBackground
		}
	}
	j.publish(lanes...)
	got := [mq.Lanes]int{}
	for i := range uint64(200) {
		g := j.receive(1, 20, i)
		var back []uint64
		for k, off := range offsets(g) {
			if k >= 10 { // no more than ten fit
				back = append(back, off)
			}
		}
		j.m.Return(j.now, 1, i, back...)
		for _, x := range receipts(g)[:10] {
			got[j.m.lanes.of(x.Offset)]++
			j.want(Ack, SettleOK, StateAcked, x)
		}
	}
	if n := got[mq.LaneBackground]; n < 2000*3/100 || n > 2000*10/100 {
		t.Fatalf("the background lane got %d of 2000", n)
	}
}
