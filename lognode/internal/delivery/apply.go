package delivery

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// replayed is where records are read into, used again for each.
type replayed struct {
	delivered delivered
	settled   settled
	change    groupChange
	lanes     []mq.Lane
	redriven  redriven
	removed   deadRemoved
	exported  deadExported
	snapshot  snapshotChange
	carried   CarriedBatch
}

// Apply replays a committed entry. Everything in it is read before anything is applied: an unknown kind or version,
// a body that does not parse or an entry that was applied already is an error that changes nothing. A leader
// does not call it: its decisions are applied when they are made.
func (m *Machine) Apply(e *mq.Entry) error {
	if m.leading {
		return fmt.Errorf("delivery: entry at %s applied to a leader", e.At)
	}
	if e.At.Before(m.next) {
		return fmt.Errorf("delivery: entry at %s after all before %s", e.At, m.next)
	}
	if m.unknown > 0 {
		return fmt.Errorf("delivery: entry at %s applied before the lanes below %d are known", e.At, m.unknown)
	}
	count := uint64(0)
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return fmt.Errorf("delivery: entry at %s: %w", e.At, err)
		}
		n, err := m.read(rec, e.At.Offset)
		if err != nil {
			return fmt.Errorf("delivery: entry at %s: %w", e.At, err)
		}
		count += uint64(n)
	}
	if count != uint64(e.Count) {
		return fmt.Errorf("delivery: entry at %s takes %d offsets but has %d messages", e.At, e.Count, count)
	}
	if m.clock != 0 && m.stamp == 0 { // a checkpoint: it is followed by its own entry
		m.stamp, m.decider, m.ahead = e.Stamp, e.Segment, &ahead{}
	}
	m.advance(e.At.Offset) // a checkpoint is ahead of what its leader knew as committed
	first := e.At.Offset
	for rec := range mq.Records(e.Records) {
		first += m.apply(rec, e, first)
	}
	m.next = e.Next()
	m.advance(m.next.Offset)
	return nil
}

// Next is the position behind what was replayed.
func (m *Machine) Next() mq.Position { return m.next }

// read reads a record of an entry that begins at offset at into m.replayed and returns how many messages it brings.
// Records name only messages that were committed before.
func (m *Machine) read(rec mq.Record, at uint64) (int, error) {
	if rec.Version != 1 {
		return 0, fmt.Errorf("version %d of record kind %d is not known", rec.Version, rec.Kind)
	}
	x := &m.replayed
	switch rec.Kind {
	case mq.KindMessages, mq.KindReleased:
		b, _, _, _, err := mq.MessagesOf(rec)
		if err == nil {
			x.lanes, err = LanesOf(&b)
		}
		return b.Count, err
	case mq.KindScheduled, mq.KindCancelled:
		return 0, nil // lognode/internal/schedule reads them
	case mq.KindCarried:
		if ours, err := x.carried.Read(rec); err != nil || !ours {
			return 0, err // those that are not ours are schedules
		}
		if last := x.carried.last(); last > at {
			return 0, fmt.Errorf("carried record names offset %d", last-1)
		}
		return 0, nil
	case mq.KindDelivered:
		if err := x.delivered.read(rec.Body); err != nil {
			return 0, err
		}
		if n := len(x.delivered.runs); n > 0 {
			if last := x.delivered.runs[n-1]; last.First+uint64(last.Count) > at {
				return 0, fmt.Errorf("delivered record names offset %d", last.First)
			}
		}
		return 0, nil
	case mq.KindSettled:
		if err := x.settled.read(rec.Body); err != nil {
			return 0, err
		}
		for _, s := range x.settled.marks {
			if s.first+s.count > at {
				return 0, fmt.Errorf("settled record names offset %d", s.first)
			}
		}
		return 0, nil
	case mq.KindGroup:
		return 0, x.change.read(rec.Body)
	case mq.KindSnapshot:
		return 0, x.snapshot.read(rec.Body)
	case mq.KindRedriven:
		return 0, namesBefore(at, &x.redriven.deadSet, x.redriven.read(rec.Body))
	case mq.KindDeadRemoved:
		return 0, namesBefore(at, &x.removed.deadSet, x.removed.read(rec.Body))
	case mq.KindDeadExported:
		return 0, namesBefore(at, &x.exported.deadSet, x.exported.read(rec.Body))
	case mq.KindCheckpoint, mq.KindKeys:
		return 0, nil // of use to LoadCheckpoint, and to the table of idempotency keys
	}
	return 0, fmt.Errorf("record kind %d is not known", rec.Kind)
}

func namesBefore(at uint64, d *deadSet, err error) error {
	if err == nil && d.last() > at {
		err = fmt.Errorf("record about dead letters names offset %d", d.last()-1)
	}
	return err
}

// apply applies a record of an entry. Its messages, if it has any, are those from first on; it
// returns how many.
func (m *Machine) apply(rec mq.Record, e *mq.Entry, first uint64) uint64 {
	n, err := m.read(rec, e.At.Offset)
	if err != nil {
		return 0 // Apply has read it before
	}
	x := &m.replayed
	switch rec.Kind {
	case mq.KindMessages, mq.KindReleased:
		m.lanes.add(first, uint64(n), x.lanes)
	case mq.KindDelivered:
		m.decided(x.delivered.now, e)
		if g := m.groups[x.delivered.group]; g != nil && g.generation == x.delivered.generation {
			m.deliver(g, &x.delivered)
		}
	case mq.KindSettled:
		m.decided(x.settled.now, e)
		if g := m.groups[x.settled.group]; g != nil && g.generation == x.settled.generation {
			m.settled(g, &x.settled)
		}
	case mq.KindRedriven:
		if g := m.groups[x.redriven.group]; g != nil && g.generation == x.redriven.generation {
			m.redriven(g, &x.redriven)
		}
	case mq.KindDeadRemoved:
		if g := m.groups[x.removed.group]; g != nil && g.generation == x.removed.generation {
			m.deadRemoved(g, &x.removed)
		}
	case mq.KindDeadExported:
		if g := m.groups[x.exported.group]; g != nil && g.generation == x.exported.generation {
			m.deadExported(g, &x.exported)
		}
	case mq.KindCarried:
		if len(rec.Body) > 0 && rec.Body[0] == carriedMessages {
			m.Carry(e.At, &x.carried)
		}
	case mq.KindSnapshot:
		if g := m.groups[x.snapshot.group]; g != nil {
			m.snapshotted(g, &x.snapshot)
		}
	case mq.KindGroup:
		switch x.change.op {
		case groupSet:
			m.setGroup(x.change.config)
		case groupDelete:
			m.removeGroup(x.change.config.ID)
		case groupSeek:
			if g := m.groups[x.change.config.ID]; g != nil {
				m.seek(g, &x.change.seek)
			}
		}
	}
	return uint64(n)
}

// settled is what a settled record does.
func (m *Machine) settled(g *group, s *settled) {
	for i := range s.marks {
		x := &s.marks[i]
		switch s.outcome {
		case outDropped:
			g.drop(x.first, x.count)
			continue
		case outFiltered:
			g.skip(x.first, x.count)
			continue
		}
		for i := range x.count {
			off, f := x.first+i, x.fence.plus(uint32(i))
			switch s.outcome {
			case outAcked:
				g.ack(off)
			case outLapsed:
				g.lapse(off)
			case outNacked, outExpired, outPostponed:
				g.fail(off, x.attempt, f, x.due, s.now, s.reason)
			case outDead:
				g.kill(off, x.attempt, f, s.now, s.reason)
			case outExtended:
				g.leaseUntil(off, x.attempt, f, s.until)
			case outReturned:
				g.giveBack(off, x.attempt, f)
			}
		}
	}
}
