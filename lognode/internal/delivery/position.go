package delivery

import (
	"encoding/binary"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// position is what a group has settled in a partition, as a seek sets it and a snapshot keeps it. In each lane all
// below fresh is settled, but for the open and dead messages, and so is what is early. A position is never changed
// once it is made.
type position struct {
	fresh [mq.Lanes]uint64
	early [mq.Lanes][]span
	open  []span // out and neither settled nor dead: leased, waiting, or to be handed out again
	dead  []span
}

// at is the position from which on nothing is settled, and everything before.
func at(off uint64) *position {
	p := &position{}
	for l := range p.fresh {
		p.fresh[l] = off
	}
	return p
}

// position is where the group is.
func (g *group) position() *position {
	p := &position{fresh: g.fresh}
	for l := range g.early {
		p.early[l] = slices.Clone(g.early[l].spans)
	}
	p.open = asSpans(g.offsets(func(_ uint64, x *message) bool { return x.state != StateDead }))
	p.dead = asSpans(g.offsets(func(_ uint64, x *message) bool { return x.state == StateDead }))
	return p
}

func asSpans(offsets []uint64) (out []span) {
	for _, off := range offsets {
		if n := len(out); n > 0 && out[n-1].to == off {
			out[n-1].to++
		} else {
			out = append(out, span{off, off + 1})
		}
	}
	return out
}

// unsettled says whether a message of lane l is to be delivered from this position on.
func (p *position) unsettled(l mq.Lane, off uint64) bool {
	return off >= p.fresh[l] && !within(p.early[l], off) || within(p.open, off)
}

func within(spans []span, off uint64) bool {
	e := early{spans}
	return e.has(off)
}

// low is a bound of what may be unsettled or dead: lanes without messages count with where the group began.
// Machine.lowest says it exactly.
func (p *position) low() uint64 {
	low := slices.Min(p.fresh[:])
	for _, spans := range [][]span{p.open, p.dead} {
		if len(spans) > 0 {
			low = min(low, spans[0].from)
		}
	}
	return low
}

// size is about how many bytes it takes.
func (p *position) size() int {
	n := len(p.open) + len(p.dead)
	for l := range p.early {
		n += len(p.early[l])
	}
	return sizeSpan * (n + mq.Lanes)
}

// restore puts the group to a position; what lies below floor is not kept any more. Whatever is out is forgotten, but
// for dead letters of which the position says nothing else. It counts nothing: what was acked was acked.
func (g *group) restore(p *position, floor uint64) {
	var on []uint64
	for off, x := range g.out {
		l := g.m.lanes.of(off)
		if x.state == StateDead && (off < floor || !p.unsettled(l, off) || within(p.dead, off)) {
			x.inAgain = false
			continue
		}
		if g.goesOn(off, x, p, floor) {
			x.inAgain = false
			on = append(on, off)
			continue
		}
		g.leave(x)
		g.remove(off, x)
	}
	for l := range mq.Lane(mq.Lanes) {
		g.again[l].items = nil
		g.m.spans -= len(g.early[l].spans)
		g.early[l].spans = nil
		g.fresh[l] = min(max(p.fresh[l], floor), g.m.committed)
	}
	g.seen = 0
	g.recount()
	for l := range mq.Lane(mq.Lanes) {
		for _, s := range p.early[l] { // what lies between two may be lost by now, so they are taken one by one
			for off, ok := g.nextFresh(l, s.from); ok && off < s.to; off, ok = g.nextFresh(l, off) {
				g.takeFresh(l, off, g.freshRun(l, off, s.to-off))
			}
		}
	}
	for _, spans := range [][]span{p.open, p.dead} {
		for _, s := range spans {
			for off := max(s.from, floor); off < s.to; off++ {
				g.reopen(off)
			}
		}
	}
	for _, off := range on {
		x := g.out[off]
		g.leave(x)
		x.attempt, x.firstAt, x.lastAt = 0, 0, 0
		g.makeReady(off, x)
	}
	g.Start = min(g.Start, max(p.low(), floor))
	g.lowest = g.Start
	g.more = true
	g.m.touch(g)
}

// reopen makes a settled message ready again, from its first attempt on.
func (g *group) reopen(off uint64) {
	l := g.m.lanes.of(off)
	if g.out[off] != nil || off >= g.m.committed || g.m.lanes.lost(off) || g.isFresh(l, off) {
		return
	}
	x := g.m.newMessage()
	x.lane = l
	g.out[off] = x
	g.m.messages++
	g.makeReady(off, x)
}

// SeekCounts says what a seek changes for a group in this partition.
type SeekCounts struct {
	From, To  uint64 // the lowest offset that is not settled, before and after
	Lag       uint64 // what is not settled after it
	Again     uint64 // of that, what was settled or dead before
	Skipped   uint64 // what was not settled before and is after
	InFlight  int    // leases that end; their receipts are stale
	DeadAgain int    // dead letters that are ready again
}

// counts compares a position with where the group is.
func (g *group) counts(p *position, floor uint64) SeekCounts {
	before := g.freshCount() + uint64(len(g.out)-g.count[StateDead])
	c := SeekCounts{From: g.cursor(), To: g.m.committed, InFlight: g.count[StateLeased]}
	common := uint64(0)
	for l := range mq.Lane(mq.Lanes) {
		from := min(max(p.fresh[l], floor), g.m.committed)
		after := early{p.early[l]}
		c.Lag += g.m.lanes.count(l, from, g.m.committed) - g.countIn(l, p.early[l], from)
		common += g.freshFrom(l, from, after)
		for off, ok := g.m.lanes.next(l, from); ok && off < g.m.committed; off, ok = g.m.lanes.next(l, off) {
			if to := after.over(off); to != off {
				off = to
				continue
			}
			c.To = min(c.To, off)
			break
		}
	}
	common += g.countOpen(p, floor, &c)
	for off, x := range g.out {
		again := p.unsettled(g.m.lanes.of(off), off) && off >= floor
		switch {
		case x.state == StateDead && again && !within(p.dead, off):
			c.DeadAgain++
		case x.state != StateDead && again:
			common++
		case g.goesOn(off, x, p, floor):
			common++
			c.Lag++
			c.To = min(c.To, off)
		}
	}
	c.Again, c.Skipped = c.Lag-min(common, c.Lag), before-min(common, before)
	return c
}

// countOpen adds what a position opens again, and says how much of it is not settled now. What was dead then stays dead
// if it still is.
func (g *group) countOpen(p *position, floor uint64, c *SeekCounts) (common uint64) {
	add := func(off uint64) {
		c.Lag++
		c.To = min(c.To, off)
		if g.isFresh(g.m.lanes.of(off), off) {
			common++
		}
	}
	for _, s := range p.open {
		for off := max(s.from, floor); off < s.to; off++ {
			if !g.m.lanes.lost(off) {
				add(off)
			}
		}
	}
	for _, s := range p.dead {
		for off := max(s.from, floor); off < s.to; off++ {
			x := g.out[off]
			if g.m.lanes.lost(off) || x != nil && x.state == StateDead {
				continue
			}
			if add(off); x != nil {
				common++
			}
		}
	}
	return common
}

// countIn is how many offsets of a lane at or above from lie in spans.
func (g *group) countIn(l mq.Lane, spans []span, from uint64) (n uint64) {
	for _, s := range spans {
		n += g.m.lanes.count(l, max(s.from, from), max(s.to, from))
	}
	return n
}

// freshFrom is how many messages of a lane are fresh in the group and at or above from, and not among others.
func (g *group) freshFrom(l mq.Lane, from uint64, others early) (n uint64) {
	n = g.left[l] - g.freshBelow(l, from)
	for _, s := range others.spans {
		n -= g.freshBelow(l, max(s.to, from)) - g.freshBelow(l, max(s.from, from))
	}
	return n
}

func (p *position) append(b []byte) []byte {
	for l := range p.fresh {
		b = binary.AppendUvarint(b, p.fresh[l])
		b = appendSpans(b, p.early[l])
	}
	return appendSpans(appendSpans(b, p.open), p.dead)
}

// maxOpen bounds the open and the dead messages of a snapshot that is read: far above what fits into a partition's state.
const maxOpen = 1 << 20

func readPosition(r *mq.Reader) *position {
	p := &position{}
	for l := range p.fresh {
		p.fresh[l] = r.Uvarint()
		if p.fresh[l] > maxSpan {
			r.Fail("position %d", p.fresh[l])
		}
		p.early[l] = readSpans(r, nil, maxSpan)
	}
	p.open, p.dead = readSpans(r, nil, maxOpen), readSpans(r, nil, maxOpen)
	return p
}
