package delivery

import "github.com/splashdam/splashdam/shared/mq"

// group is one group's state in this partition. See the package comment for its invariants.
type group struct {
	m *Machine
	GroupConfig
	generation uint64
	// fresh, early and left are by lane; see fresh.go.
	fresh [mq.Lanes]uint64
	early [mq.Lanes]early
	left  [mq.Lanes]uint64
	out   map[uint64]*message
	count [states]int // of out, by state
	// exported is how many of the dead ones were published to the dead letter topic.
	exported int
	inLane   [mq.Lanes][states]int
	// again has, by lane, the offsets of the ready messages in out, and some that are so no more.
	again [mq.Lanes]heap[uint64]
	// credit is what each lane is owed of the next hand-overs; see share.go. It dies with the leader.
	credit [mq.Lanes]int
	// keyed is nil but for a leader's groups that order by key.
	keyed *keyed
	// last is where leaseUntil adds to, if it fits.
	last   *grant
	lastID uint64
	tally  tally
	lowest uint64 // nothing below it is unsettled; moved by cursor
	// oldDead has the dead letters, the oldest first, and some that are so no more; empty without limits.
	oldDead   heap[deadLetter]
	deadBytes int64 // of the dead ones whose sizes are known, under a limit by bytes
	deadDue   int64 // of the deadline that is set for the oldest one
	trim      bool  // in Machine.trims
	// seen is the offset up to which the filter has looked: what is fresh below it is wanted. It dies with the leader.
	seen         uint64
	snapshots    []*snapshot // by their numbers
	lastSnapshot uint64

	touched, more, wasReady, queued bool
}

// tally counts what became of messages since the group began. What is done twice counts once.
type tally struct {
	acked     uint64
	dropped   uint64 // removed by retention before they were settled
	discarded uint64 // dead letters that were removed
	lapsed    uint64 // past their TTL
	filtered  uint64 // not wanted by the group's filter
}

func (m *Machine) newGroup(c GroupConfig) *group {
	g := &group{m: m, GroupConfig: c, generation: 1, lowest: c.Start, out: map[uint64]*message{}}
	less := func(a, b uint64) bool { return a < b }
	for l := range g.again {
		g.again[l].less = less
		g.fresh[l] = c.Start
	}
	g.oldDead.less = lessDead
	m.groups[c.ID] = g
	m.filters += c.Settings.Filter.Size()
	g.recount()
	return g
}

// change takes the message at off out of its state so that the caller can put it into another one. It is nil if
// the message is settled: a record about it is then of no effect.
func (g *group) change(off uint64) *message {
	l := g.m.lanes.of(off)
	if off < g.fresh[l] || len(g.early[l].spans) > 0 || len(g.m.lanes.holes) > 0 {
		if x := g.out[off]; x != nil {
			g.leave(x)
			return x
		}
		if !g.isFresh(l, off) {
			return nil
		}
	}
	x := g.m.newMessage()
	x.lane = l
	g.out[off] = x
	g.m.messages++
	g.takeFresh(l, off, 1)
	return x
}

// leave takes x out of the counts and out of its grant, and notes whose lease ended.
func (g *group) leave(x *message) {
	g.count[x.state]--
	if x.state == StateDead {
		g.deadBytes -= g.bytesOf(x)
	}
	if x.exported {
		x.exported = false
		g.exported--
	}
	g.inLane[x.lane][x.state]--
	g.keyLeft(x)
	x.until = 0
	if gr := x.grant; gr != nil {
		x.grant = nil
		if !x.extended {
			g.m.freedOf(gr, x.fence)
		}
		g.m.leaveGrant(gr)
	}
}

func (g *group) enter(x *message, s State) {
	x.state = s
	g.count[s]++
	g.inLane[x.lane][s]++
	g.m.touch(g)
}

func (g *group) stamp(x *message, attempt uint32, f fence) {
	x.attempt = attempt
	if x.fence.less(f) {
		x.fence = f
	}
}

// lease puts a message into gr, handed out at a time.
func (g *group) lease(off uint64, attempt uint32, f fence, gr *grant, at int64, key uint64, keyKnown bool) {
	x := g.change(off)
	if x == nil {
		return
	}
	if x.lastAt = at; attempt <= 1 || x.firstAt == 0 {
		x.firstAt = at
	}
	if keyKnown {
		x.key, x.keyKnown = key, true
	}
	g.stamp(x, attempt, f)
	x.grant = gr
	gr.left++
	g.enter(x, StateLeased)
	g.keyChanged(off, x)
}

// leaseUntil gives a message a deadline outside of its grant: with those that were given the same one just now.
func (g *group) leaseUntil(off uint64, attempt uint32, f fence, until int64) {
	var by *text
	if x := g.out[off]; x != nil && x.grant != nil {
		by = g.m.texts.take(x.grant.by.String())
	}
	g.leaseBy(off, attempt, f, until, by)
}

// leaseBy is leaseUntil for a known consumer; it takes over the reference to by.
func (g *group) leaseBy(off uint64, attempt uint32, f fence, until int64, by *text) {
	var stream, account uint64
	if x := g.out[off]; x != nil && x.grant != nil {
		stream, account, x.extended = x.grant.stream, x.grant.account, true
	}
	x := g.change(off)
	if x == nil {
		g.m.texts.drop(by)
		return
	}
	x.extended = false
	g.leaseChanged(off, x, attempt, f, until, by, stream, account)
}

// leaseChanged is leaseBy for a message that has left its state.
func (g *group) leaseChanged(off uint64, x *message, attempt uint32, f fence, until int64, by *text, stream, account uint64) {
	gr := g.last
	if gr == nil || gr.id != g.lastID || gr.until != until || gr.by != by || gr.size >= MaxReceive || gr.stream != stream || gr.account != account {
		gr = g.m.newGrant(g, until, by)
		gr.stream, gr.account = stream, account
		g.last, g.lastID = gr, gr.id
	} else {
		g.m.texts.drop(by)
	}
	g.stamp(x, attempt, f)
	gr.add(Run{First: off, Count: 1})
	x.grant = gr
	gr.left++
	g.enter(x, StateLeased)
	g.keyChanged(off, x)
}

// ack settles a message.
func (g *group) ack(off uint64) { g.settle(off, &g.tally.acked) }

// lapse settles a message that is past its time.
func (g *group) lapse(off uint64) { g.settle(off, &g.tally.lapsed) }

// settle settles a message for good and counts it, if it is not settled.
func (g *group) settle(off uint64, counter *uint64) {
	if x := g.out[off]; x != nil {
		g.leave(x)
		g.remove(off, x)
		*counter++
	} else if l := g.m.lanes.of(off); g.isFresh(l, off) {
		g.takeFresh(l, off, 1)
		g.freshGone(off)
		*counter++
	}
	g.m.touch(g)
}

// remove forgets a message that has left its state.
func (g *group) remove(off uint64, x *message) {
	g.keyGone(off, x)
	delete(g.out, off)
	g.m.messages--
	g.m.texts.drop(x.reason)
	g.m.texts.drop(x.by)
	*x = message{}
	g.m.free = append(g.m.free, x)
	if len(g.m.carried) > 0 {
		g.m.settledCarried(off)
	}
}

// fail ends an attempt; the message is ready again at due, or at once if that is not after at. It says so of a
// message without a lease too, since a receipt may come late.
func (g *group) fail(off uint64, attempt uint32, f fence, due, at int64, reason string) {
	if x := g.failed(off, attempt, f, reason); x != nil {
		g.wait(off, x, due, at)
	}
}

// wait takes a message that has left its state: it is ready again at due, or at once if that is not after at.
func (g *group) wait(off uint64, x *message, due, at int64) {
	if due <= at {
		g.makeReady(off, x)
		return
	}
	x.until = due
	g.enter(x, StateWaiting)
	g.keyChanged(off, x)
	g.m.deadline(deadline{due: due, id: uint64(g.ID), off: off})
}

// kill ends the last attempt.
func (g *group) kill(off uint64, attempt uint32, f fence, at int64, reason string) {
	if x := g.failed(off, attempt, f, reason); x != nil {
		x.until = at
		g.enter(x, StateDead)
		g.keyChanged(off, x)
		g.died(off, x)
	}
}

func (g *group) failed(off uint64, attempt uint32, f fence, reason string) *message {
	by := ""
	if x := g.out[off]; x != nil && x.grant != nil {
		by = x.grant.by.String()
	}
	x := g.change(off)
	if x == nil {
		return nil
	}
	g.stamp(x, attempt, f)
	old, oldBy := x.reason, x.by
	x.reason = g.m.texts.take(reason)
	if by != "" {
		x.by = g.m.texts.take(by)
		g.m.texts.drop(oldBy)
	}
	g.m.texts.drop(old)
	return x
}

// giveBack takes back a hand-over that does not count: it did not happen, or its consumer had not begun.
func (g *group) giveBack(off uint64, attempt uint32, f fence) {
	if x := g.change(off); x != nil {
		g.stamp(x, attempt, f)
		if attempt == 0 {
			x.firstAt, x.lastAt = 0, 0
		}
		g.makeReady(off, x)
	}
}

// makeReady takes a message that has left its state.
func (g *group) makeReady(off uint64, x *message) {
	g.enter(x, StateReady)
	if g.keyed != nil {
		g.keyChanged(off, x)
		return
	}
	g.more = true
	if x.inAgain {
		return
	}
	x.inAgain = true
	again := &g.again[x.lane]
	again.push(off)
	if tooStale(len(again.items), g.inLane[x.lane][StateReady]) {
		again.prune(func(off uint64) bool {
			x := g.out[off]
			if x == nil || x.state != StateReady {
				if x != nil {
					x.inAgain = false
				}
				return false
			}
			return true
		})
	}
}

// nextAgain is the lowest offset of a lane to hand out again.
func (g *group) nextAgain(l mq.Lane) (uint64, bool) {
	for len(g.again[l].items) > 0 {
		off := g.again[l].items[0]
		x := g.out[off]
		if x != nil && x.state == StateReady {
			return off, true
		}
		g.popAgain(l)
	}
	return 0, false
}

func (g *group) popAgain(l mq.Lane) {
	if x := g.out[g.again[l].pop()]; x != nil {
		x.inAgain = false
	}
}
