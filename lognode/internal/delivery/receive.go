package delivery

import (
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
}

// Why says why a grant is empty.
type Why uint8

// The reasons of an empty grant.
const (
	WhyNothing  Why = iota // nothing is ready, or nothing was asked for
	WhyPaused              // the group is paused
	WhyInFlight            // max_in_flight is reached
	WhyFull                // the partition's state is at MaxCheckpoint
)

// Grant is what a receive hands out.
type Grant struct {
	Group      mq.GroupID
	Generation uint64
	Segment    uint64 // with a run's counters, the fences
	LeaseUntil int64  // Unix nanoseconds
	Runs       []Run  // by offset; none: see Why
	// MustCommit says that some attempt is not the first: the records must commit before the hand-over.
	MustCommit bool
	Why        Why
}

// Messages is how many messages are in it.
func (g *Grant) Messages() int {
	n := 0
	for i := range g.Runs {
		n += int(g.Runs[i].Count)
	}
	return n
}

// Receive hands out what is ready, lowest offset first, and counts the attempts. A caller that can't use all of
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
	lease := min(r.Lease, int64(mq.MaxLease))
	if lease <= 0 {
		lease = int64(time.Duration(g.Settings.Lease))
	}
	d := delivered{group: g.ID, generation: g.generation, segment: m.segment, now: now, lease: lease,
		counter: m.counter + 1, consumer: cut(r.Consumer, mq.MaxConsumerBytes)}
	d.runs, out.MustCommit = m.pick(g, n)
	if len(d.runs) == 0 {
		if m.full {
			out.Why = WhyFull
		}
		return out, nil
	}
	counter := d.counter
	for i := range d.runs {
		d.runs[i].Counter = counter
		counter += uint64(d.runs[i].Count)
	}
	m.counter = counter - 1
	m.scratch = d.append(m.scratch[:0])
	m.write(mq.KindDelivered, m.scratch, out.MustCommit)
	gr := m.deliver(g, &d)
	m.handOut(g, gr, r.Stream, r.Delivery)
	gr.account = r.Account
	out.Runs, out.LeaseUntil = d.runs, now+lease
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

// pick chooses up to n messages: those to be handed out again and the fresh ones, merged by offset. It takes the
// former out of their heap; deliver does the rest.
func (m *Machine) pick(g *group, n int) (runs []Run, again bool) {
	fresh, left := g.fresh, m.freshRoom(g)
	for n > 0 {
		off, ok := g.nextAgain()
		if count := g.untouched(fresh, left); count > 0 && (!ok || fresh < off) {
			// A run of fresh messages ends where an early one begins, and what is handed out again is below or
			// early, so no lower offset is passed over.
			count = min(count, uint64(n))
			runs = appendRun(runs, fresh, uint32(count), 1)
			n -= int(count)
			left -= count
			fresh = g.skipEarly(fresh + count)
			continue
		}
		if !ok {
			break
		}
		g.popAgain()
		attempt := g.out[off].attempt + 1
		again = again || attempt > 1
		runs = appendRun(runs, off, 1, attempt)
		n--
	}
	return runs, again
}

// untouched is how many fresh messages begin at off, at most n.
func (g *group) untouched(off, n uint64) uint64 {
	for _, s := range g.early.spans {
		if s.from >= off {
			return min(n, s.from-off)
		}
	}
	return n
}

// skipEarly is off, or the end of the span that begins there.
func (g *group) skipEarly(off uint64) uint64 {
	if len(g.early.spans) == 0 {
		return off
	}
	if i := g.early.at(off); i < len(g.early.spans) && g.early.spans[i].from <= off {
		return g.early.spans[i].to
	}
	return off
}

func appendRun(runs []Run, first uint64, count, attempt uint32) []Run {
	if len(runs) > 0 {
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
	gr := m.newGrant(g, d.now+d.lease, m.texts.take(d.consumer))
	for _, r := range d.runs {
		gr.add(r)
		for i := range r.Count {
			g.lease(r.First+uint64(i), r.Attempt, fence{d.segment, r.Counter + uint64(i)}, gr)
		}
	}
	if gr.left == 0 { // all of it is settled already: a checkpoint was ahead of the record
		m.endGrant(gr)
		return nil
	}
	return gr
}

// freshCount is how many committed messages of g are untouched.
func (m *Machine) freshCount(g *group) uint64 {
	if m.committed <= g.fresh {
		return 0
	}
	return m.committed - g.fresh - g.early.count
}

// freshRoom is how many of them may be given out before the state is at its bound.
func (m *Machine) freshRoom(g *group) uint64 {
	room := MaxCheckpoint - m.Size()
	if room <= 0 {
		return 0
	}
	return min(m.freshCount(g), uint64(room/sizeMessage+1))
}

// canGive is how many messages a receive without a limit would find.
func (m *Machine) canGive(g *group) int {
	n, _ := m.limit(g, MaxReceive)
	have := uint64(g.count[StateReady]) + m.freshRoom(g)
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
