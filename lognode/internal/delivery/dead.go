package delivery

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// DeadFilter chooses dead letters; its zero value takes all of them.
type DeadFilter struct {
	Reason string // part of why they died, in any case; "" for any
	// Since and Before bound when they died, Unix nanoseconds: Since included, Before not; 0 for no bound.
	Since, Before int64
	Offsets       []uint64 // only these, ascending; nil for any
	Unexported    bool     // only those that were not published to the dead letter topic
}

func (f *DeadFilter) match(x *message) bool {
	return !(f.Unexported && x.exported) && x.until >= f.Since && (f.Before == 0 || x.until < f.Before) &&
		(f.Reason == "" || strings.Contains(strings.ToLower(x.reason.String()), strings.ToLower(f.Reason)))
}

// Dead lists dead letters of a group that match, from an offset on, at most limit; none for an unknown group.
func (m *Machine) Dead(id mq.GroupID, f DeadFilter, from uint64, limit int) []HeldMessage {
	g := m.groups[id]
	if g == nil || limit <= 0 || g.count[StateDead] == 0 {
		return nil
	}
	want := func(off uint64, x *message) bool { return off >= from && x.state == StateDead && f.match(x) }
	var offsets []uint64
	if f.Offsets == nil {
		offsets = g.offsets(want)
	} else {
		for _, off := range f.Offsets {
			if x := g.out[off]; x != nil && want(off, x) {
				offsets = append(offsets, off)
			}
		}
	}
	offsets = offsets[:min(limit, len(offsets))]
	out := make([]HeldMessage, len(offsets))
	for i, off := range offsets {
		out[i] = g.held(off)
	}
	return out
}

// MaxRedrive bounds how far in the future Redrive makes a message ready, in nanoseconds.
const MaxRedrive = int64(30 * 24 * time.Hour)

// Redrive makes dead letters ready again for their group: the attempts begin anew, the reason stays for listings. The
// i-th of them is ready at now + delay + i*interval, which is how a rate spreads them without anything that runs beside;
// what would be later than MaxRedrive is then. Offsets ascend; those that are not dead are passed over. It says how
// many it moved.
func (m *Machine) Redrive(now int64, id mq.GroupID, offsets []uint64, delay, interval int64) (int, error) {
	g, err := m.decides(id)
	if err != nil {
		return 0, err
	}
	delay, interval = min(max(delay, 0), MaxRedrive), min(max(interval, 0), MaxRedrive/MaxReceive)
	moved := 0
	for spans := range g.deadSpans(offsets) {
		r := redriven{deadSet{g.ID, g.generation, now, spans}, min(delay+int64(moved)*interval, MaxRedrive), interval}
		m.scratch = r.append(m.scratch[:0])
		m.write(mq.KindRedriven, m.scratch, true)
		m.redriven(g, &r)
		moved += r.messages()
	}
	m.done()
	return moved, nil
}

// RemoveDead settles dead letters for good, because somebody asked for it. Offsets ascend; those that are not dead are
// passed over. It says how many it removed.
func (m *Machine) RemoveDead(now int64, id mq.GroupID, offsets []uint64) (int, error) {
	g, err := m.decides(id)
	if err != nil {
		return 0, err
	}
	n := m.discard(g, now, deadDeleted, offsets)
	m.done()
	return n, nil
}

// decides is the group if this machine leads.
func (m *Machine) decides(id mq.GroupID) (*group, error) {
	switch g := m.groups[id]; {
	case !m.leading:
		return nil, ErrNotLeading
	case g == nil:
		return nil, ErrGroupNotFound
	default:
		return g, nil
	}
}

// discard writes and does the removal of those of the offsets, which ascend, that are dead.
func (m *Machine) discard(g *group, now int64, cause deadCause, offsets []uint64) (n int) {
	for spans := range g.deadSpans(offsets) {
		r := deadRemoved{deadSet{g.ID, g.generation, now, spans}, cause}
		m.flush()
		m.scratch = r.append(m.scratch[:0])
		m.write(mq.KindDeadRemoved, m.scratch, true)
		m.deadRemoved(g, &r)
		n += r.messages()
	}
	return n
}

// deadSpans yields the dead ones of some ascending offsets as spans, as many as a record takes at a time. What is yielded
// may change state before the next.
func (g *group) deadSpans(offsets []uint64) func(func([]span) bool) {
	return func(yield func([]span) bool) {
		var spans []span
		n := 0
		for _, off := range offsets {
			if x := g.out[off]; x == nil || x.state != StateDead || n > 0 && off < spans[len(spans)-1].to {
				continue
			}
			if n == MaxReceive {
				if !yield(spans) {
					return
				}
				spans, n = nil, 0
			}
			if k := len(spans); k > 0 && spans[k-1].to == off {
				spans[k-1].to++
			} else {
				spans = append(spans, span{off, off + 1})
			}
			n++
		}
		if n > 0 {
			yield(spans)
		}
	}
}

// redriven is what a redriven record does. The place of a message in the record says when it is due, whatever became
// of the others.
func (m *Machine) redriven(g *group, r *redriven) {
	i := int64(0)
	for _, s := range r.spans {
		for off := s.from; off < s.to; off++ {
			due := r.now + r.delay + i*r.interval
			i++
			x := g.out[off]
			if x == nil || x.state != StateDead {
				continue
			}
			g.leave(x)
			x.attempt, x.firstAt, x.lastAt = 0, 0, 0
			g.lowest = min(g.lowest, off) // the cursor has passed it
			g.wait(off, x, due, r.now)
		}
	}
	m.touch(g)
}

// deadRemoved is what a dead removed record does.
func (m *Machine) deadRemoved(g *group, r *deadRemoved) {
	for _, s := range r.spans {
		for off := s.from; off < s.to; off++ {
			if x := g.out[off]; x != nil && x.state == StateDead {
				g.leave(x)
				g.remove(off, x)
				g.tally.discarded++
			}
		}
	}
	m.touch(g)
}

// deadLetter orders dead letters by when they died.
type deadLetter struct {
	at  int64
	off uint64
}

func lessDead(a, b deadLetter) bool { return a.at < b.at || a.at == b.at && a.off < b.off }

// noDead is the offset in the deadline for a group's oldest dead letter.
const noDead = math.MaxUint64

func (g *group) limitsDead() bool {
	d := &g.Settings.Dead
	return g.m.leading && (d.MaxCount > 0 || d.MaxAge > 0 || d.MaxBytes > 0)
}

// died notes a dead letter for the limits.
func (g *group) died(off uint64, x *message) {
	if !g.limitsDead() {
		return
	}
	g.oldDead.push(deadLetter{x.until, off})
	g.weigh(off, x)
	if tooStale(len(g.oldDead.items), g.count[StateDead]) {
		g.oldDead.prune(g.isDead)
	}
	g.m.wantTrim(g, x.until)
}

func (g *group) isDead(d deadLetter) bool {
	x := g.out[d.off]
	return x != nil && x.state == StateDead && x.until == d.at
}

// countDead begins to hold the limits, or does so under new settings.
func (m *Machine) countDead(g *group, now int64) {
	g.oldDead, g.deadBytes = heap[deadLetter]{less: lessDead}, 0
	if !g.limitsDead() {
		return
	}
	for off, x := range g.out {
		if x.state == StateDead {
			g.oldDead.push(deadLetter{x.until, off})
			g.weigh(off, x)
		}
	}
	m.wantTrim(g, now)
}

// checkLimits tests that no dead letter is there beyond the limits, and that each can be found when it is its turn.
func (g *group) checkLimits() error {
	if !g.limitsDead() {
		return nil
	}
	known := map[deadLetter]bool{}
	for _, d := range g.oldDead.items {
		known[d] = true
	}
	for off, x := range g.out {
		if x.state == StateDead && !known[deadLetter{x.until, off}] {
			return fmt.Errorf("offset %d is dead and not known to the limits", off)
		}
	}
	if most := g.Settings.Dead.MaxCount; most > 0 && g.count[StateDead] > most {
		return fmt.Errorf("%d dead letters, at most %d are allowed", g.count[StateDead], most)
	}
	return g.checkDeadBytes()
}

func (m *Machine) wantTrim(g *group, now int64) {
	m.trimAt = max(m.trimAt, now)
	if !g.trim {
		g.trim = true
		m.trims = append(m.trims, g)
	}
}

// trimDead removes the oldest dead letters beyond the limits of the groups in m.trims.
func (m *Machine) trimDead() {
	for _, g := range m.trims {
		if g.trim = false; m.groups[g.ID] == g {
			m.trimGroup(g, m.trimAt)
		}
	}
	clear(m.trims)
	m.trims, m.trimAt = m.trims[:0], 0
}

func (m *Machine) trimGroup(g *group, now int64) {
	limit, age := g.Settings.Dead.MaxCount, int64(time.Duration(g.Settings.Dead.MaxAge))
	var gone [deadCauses][]uint64
	most := g.Settings.Dead.MaxBytes
	left, bytes := g.count[StateDead], g.deadBytes
	var last deadLetter // one that died twice in a nanosecond is there twice
	for len(g.oldDead.items) > 0 {
		top, cause := g.oldDead.items[0], deadCause(0)
		switch {
		case !g.isDead(top), left < g.count[StateDead] && top == last:
		case age > 0 && top.at+age <= now:
			cause = deadTooOld
		case limit > 0 && left > limit:
			cause = deadTooMany
		case most > 0 && bytes > most:
			cause = deadTooLarge
		default:
			if age > 0 && g.deadDue != top.at+age {
				g.deadDue = top.at + age
				m.deadline(deadline{due: g.deadDue, id: uint64(g.ID), off: noDead})
			}
			m.removeOldest(g, now, &gone)
			return
		}
		if cause != 0 {
			gone[cause] = append(gone[cause], top.off)
			left--
			bytes -= g.bytesOf(g.out[top.off])
		}
		last = g.oldDead.pop()
	}
	m.removeOldest(g, now, &gone)
}

func (m *Machine) removeOldest(g *group, now int64, gone *[deadCauses][]uint64) {
	for cause, offsets := range gone {
		slices.Sort(offsets)
		m.discard(g, now, deadCause(cause), offsets)
	}
}
