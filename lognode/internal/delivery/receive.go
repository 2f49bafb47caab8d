package delivery

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// ReceiveRequest asks for messages of a group.
type ReceiveRequest struct {
	Group mq.GroupID
	// Max is the most messages; more than MaxReceive is MaxReceive.
	Max int
	// Lease in nanoseconds, 0 for the group's; at most mq.MaxLease.
	Lease int64
	// Consumer is who asks, for listings and traces; cut at mq.MaxConsumerBytes.
	Consumer string
	// Stream is the gateway stream on which the answer goes, Delivery the caller's id of this hand-over, unique
	// per stream: Return, Confirm and StreamGone name it by them.
	Stream, Delivery uint64
	// Account is whose credit the leases use up; see Freed. 0 for nobody's.
	Account uint64
	// Seen says that the group's filter has looked as far as it may for this request: hand out what there is.
	Seen bool
}

// Why says why a grant is empty.
type Why uint8

// The reasons of an empty grant.
const (
	WhyNothing  Why = iota // nothing is ready, or nothing was asked for
	WhyPaused              // the group is paused
	WhyInFlight            // max_in_flight is reached
	WhyFull                // the partition's state is at MaxCheckpoint
	WhyUnseen              // the group's filter has to look at more messages first: see Unseen
	WhyParked              // MaxParked messages wait behind others of their key
	WhyKeys                // keys are needed: see Grant.Need
)

// Grant is what a receive hands out.
type Grant struct {
	Group      mq.GroupID
	Generation uint64
	Segment    uint64 // with a run's counters, the fences
	LeaseUntil int64  // Unix nanoseconds
	// Runs are in the order in which they are to be handed out: by lane, within one by offset. None: see Why.
	Runs []Run
	// MustCommit says that the records must commit before the hand-over: some attempt is not the first, the group orders
	// by key, or the partition has an owner and so may change hands (see ByMembers).
	MustCommit bool
	Why        Why
	// Need, with WhyKeys: the offset from which on LearnKeys must be told keys before the group gets more. There may be
	// runs all the same.
	Need uint64
}

// Messages is how many messages are in it.
func (g *Grant) Messages() int {
	n := 0
	for i := range g.Runs {
		n += int(g.Runs[i].Count)
	}
	return n
}

// Receive hands out what is ready, by lanes and lowest offset first in each, and counts the attempts. A caller that can't use all of
// it gives the rest back with Return.
func (m *Machine) Receive(now int64, r ReceiveRequest) (Grant, error) {
	g := m.groups[r.Group]
	switch {
	case !m.leading:
		return Grant{}, ErrNotLeading
	case g == nil:
		return Grant{}, ErrGroupNotFound
	}
	out := Grant{Group: g.ID, Generation: g.generation, Segment: m.segment}
	n, why := m.limit(g, r.Max)
	if n == 0 {
		out.Why = why
		return out, nil
	}
	if !r.Seen && g.looks(n) {
		out.Why = WhyUnseen
		return out, nil
	}
	lease := min(r.Lease, int64(mq.MaxLease))
	if lease <= 0 {
		lease = int64(time.Duration(g.Settings.Lease))
	}
	d := delivered{group: g.ID, generation: g.generation, segment: m.segment, now: now, lease: lease,
		counter: m.counter + 1, consumer: m.kept(r.Consumer, mq.MaxConsumerBytes, otherConsumer)}
	if g.keyed != nil {
		var blocked bool
		if out.Why, out.Need, blocked = m.prepare(g, n); blocked {
			m.done()
			return out, nil
		}
	}
	out.Runs, out.MustCommit = m.pick(g, n)
	out.MustCommit = out.MustCommit || mq.ByMembers(g.Settings.Mode)
	if len(out.Runs) == 0 {
		if g.full() {
			out.Why = WhyFull
		} else if g.unseen() {
			out.Why = WhyUnseen
		}
		m.done()
		return out, nil
	}
	if out.Why != WhyKeys {
		out.Why = WhyNothing
	}
	d.runs = m.number(out.Runs)
	if g.keyed != nil {
		out.MustCommit, d.keys = true, m.takeKeys()
	}
	m.scratch = d.append(m.scratch[:0])
	m.write(mq.KindDelivered, m.scratch, out.MustCommit)
	gr := m.deliver(g, &d)
	m.handOut(g, gr, r.Stream, r.Delivery)
	gr.account = r.Account
	out.LeaseUntil = now + lease
	m.done()
	return out, nil
}

// limit is how many messages one receive may get now, and why none.
func (m *Machine) limit(g *group, most int) (int, Why) {
	if g.Paused {
		return 0, WhyPaused
	}
	room := g.Settings.MaxInFlight - g.count[StateLeased]
	if room <= 0 {
		return 0, WhyInFlight
	}
	return max(0, min(most, room, MaxReceive)), WhyNothing
}

// pick chooses up to n messages, by the shares of the lanes. It takes those to be handed out again out of their heap;
// deliver does the rest.
func (m *Machine) pick(g *group, n int) (runs []Run, again bool) {
	room := m.freshRoom(g)
	share := m.share(g, n)
	for l, n := range share {
		switch {
		case n == 0:
		case g.keyed != nil:
			runs, again = g.pickKeyed(mq.Lane(l), n, &room, runs, again)
		default:
			runs, again = g.pick(mq.Lane(l), n, &room, runs, again)
		}
	}
	return runs, again
}

// pick chooses up to n messages of a lane: those to be handed out again and at most room fresh ones, merged by offset.
func (g *group) pick(l mq.Lane, n int, room *uint64, runs []Run, again bool) ([]Run, bool) {
	first := len(runs)
	fresh, hasFresh := g.nextFresh(l, 0)
	limit := g.limit()
	for n > 0 {
		off, ok := g.nextAgain(l)
		if hasFresh && fresh < limit && *room > 0 && (!ok || fresh < off) {
			// A run of fresh messages ends where an early one begins, and what is handed out again is below or
			// early, so no lower offset is passed over.
			count := g.freshRun(l, fresh, min(uint64(n), *room, limit-fresh))
			runs = appendRun(runs, first, fresh, uint32(count), 1)
			n -= int(count)
			*room -= count
			fresh, hasFresh = g.nextFresh(l, fresh+count)
			continue
		}
		if !ok {
			break
		}
		g.popAgain(l)
		attempt := g.out[off].attempt + 1
		again = again || attempt > 1
		runs = appendRun(runs, first, off, 1, attempt)
		n--
	}
	return runs, again
}

// number gives lease counters to runs, by ascending offset whatever their order, and returns them in that order, as they
// are written: so the fences of a key's messages grow with their offsets across lanes.
func (m *Machine) number(runs []Run) []Run {
	less := func(a, b Run) int { return cmp.Compare(a.First, b.First) }
	sorted := slices.IsSortedFunc(runs, less)
	order := runs
	if !sorted {
		order = slices.Clone(runs)
		slices.SortFunc(order, less)
	}
	for i := range order {
		order[i].Counter = m.counter + 1
		m.counter += uint64(order[i].Count)
	}
	if sorted {
		return runs
	}
	for i := range runs {
		at, _ := slices.BinarySearchFunc(order, runs[i], less)
		runs[i].Counter = order[at].Counter
	}
	return order
}

// appendRun adds to the runs of a lane, which begin at first.
func appendRun(runs []Run, lane int, first uint64, count, attempt uint32) []Run {
	if len(runs) > lane {
		last := &runs[len(runs)-1]
		if last.First+uint64(last.Count) == first && last.Attempt == attempt {
			last.Count += count
			return runs
		}
	}
	return append(runs, Run{First: first, Count: count, Attempt: attempt})
}

// deliver is what a delivered record does.
func (m *Machine) deliver(g *group, d *delivered) *grant {
	m.clock = d.now
	gr := m.newGrant(g, d.now+d.lease, m.texts.take(d.consumer))
	n := 0
	for _, r := range d.runs {
		gr.add(r)
		for i := range r.Count {
			key, known := d.key(n)
			g.lease(r.First+uint64(i), r.Attempt, fence{d.segment, r.Counter + uint64(i)}, gr, d.now, key, known)
			n++
		}
	}
	if gr.left == 0 { // all of it is settled already: a checkpoint was ahead of the record
		m.endGrant(gr)
		return nil
	}
	return gr
}

// freshRoom is how many of them may be given out before the state is at its bound.
func (m *Machine) freshRoom(g *group) uint64 {
	if g.full() {
		return 0
	}
	return min(g.seenCount(), uint64(g.room()/sizeMessage+1))
}

// full says whether the group is given nothing fresh.
func (g *group) full() bool { return g.room() <= 0 }

// room is how many bytes more the messages may take that a group has out: what is left of MaxCheckpoint, and at least what its
// share has left. Else one group that settles nothing, or has a heap of dead letters, would stop all the others.
func (g *group) room() int {
	left := MaxCheckpoint - g.m.Size()
	if groups := len(g.m.groups); groups > 1 {
		own := sizeMessage * len(g.out)
		for l := range g.early {
			own += sizeSpan * len(g.early[l].spans)
		}
		left = max(left, MaxCheckpoint/2/groups-own)
	}
	return left
}

// canGive is how many messages a receive without a limit would find.
func (m *Machine) canGive(g *group) int {
	n, _ := m.limit(g, MaxReceive)
	if g.keyed != nil {
		return m.canGiveKeyed(g, n)
	}
	have := uint64(g.count[StateReady]) + m.freshRoom(g)
	if g.unseen() {
		have++ // to be looked at
	}
	if n > 0 && m.lanes.used {
		have = min(have, uint64(m.shareable(g)))
	}
	return int(min(uint64(n), have))
}

// Ready is how many messages of the group could be handed out now, at most MaxReceive.
func (m *Machine) Ready(id mq.GroupID) int {
	if g := m.groups[id]; g != nil {
		return m.canGive(g)
	}
	return 0
}

// cut shortens what a user wrote to n bytes of valid UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
