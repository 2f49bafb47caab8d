package delivery

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// A message that is dead in some group outlives its segment: before the segment is removed the message is written again,
// in a carried record (CarriedBatch) at the end of the journal. It keeps its offset, and for a group nothing changes. Where
// it is now is state like any other: known from the records, held in checkpoints, forgotten once no group has the
// message out any more. One that is redriven stays carried until it is settled.

// Carried is where a message is that was written again.
type Carried struct {
	Offset uint64
	// At is the position of the entry that has it, Was the one before: At may not be committed yet.
	At, Was mq.Position
}

type carriedMessage struct {
	at, was mq.Position
	size    uint32
}

// MustCarry are the offsets of the messages that a leader has to write again before the journal before end may go,
// ascending: those that are dead in some group, and those that were carried into it and are out in some state.
func (m *Machine) MustCarry(end mq.Position) []uint64 {
	var out []uint64
	for off, c := range m.carried {
		if c.at.Before(end) {
			out = append(out, off)
		}
	}
	for _, g := range m.groups {
		if g.count[StateDead] == 0 {
			continue
		}
		for off, x := range g.out {
			if _, done := m.carried[off]; x.state == StateDead && off < end.Offset && !done {
				out = append(out, off)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// WantsCarry says whether a message of MustCarry still is one.
func (m *Machine) WantsCarry(off uint64, end mq.Position) bool {
	if c, ok := m.carried[off]; ok {
		return c.at.Before(end)
	}
	if off < end.Offset {
		for _, g := range m.groups {
			if x := g.out[off]; x != nil && x.state == StateDead {
				return true
			}
		}
	}
	return false
}

// Carry says that the entry that is about to be placed at a position has these messages too. The caller writes the
// record. Those that no group has out are passed over.
func (m *Machine) Carry(at mq.Position, b *CarriedBatch) {
	for i, off := range b.Offsets {
		if !m.isOut(off) {
			continue
		}
		old := m.carried[off]
		m.carried[off] = carriedMessage{at, old.at, b.Sizes[i]}
		m.carriedBytes += int64(b.Sizes[i]) - int64(old.size)
	}
	m.places = nil
}

func (m *Machine) isOut(off uint64) bool {
	for _, g := range m.groups {
		if g.out[off] != nil {
			return true
		}
	}
	return false
}

// settledCarried is called when a group has settled a message.
func (m *Machine) settledCarried(off uint64) {
	c, ok := m.carried[off]
	if !ok || m.isOut(off) {
		return
	}
	m.carriedBytes -= int64(c.size)
	delete(m.carried, off)
	if m.stale++; m.stale > len(m.carried) {
		m.places = nil
	}
}

// CarriedAt says where a message is that was carried and is not settled.
func (m *Machine) CarriedAt(off uint64) (Carried, bool) {
	c, ok := m.carried[off]
	return Carried{off, c.at, c.was}, ok
}

// AllCarried is where the carried messages are, by offset. Some may be settled by now. It is never changed, so that
// others than the owner of the machine may go on reading it.
func (m *Machine) AllCarried() []Carried {
	if m.places == nil && len(m.carried) > 0 {
		m.places, m.stale = make([]Carried, 0, len(m.carried)), 0
		for off, c := range m.carried {
			m.places = append(m.places, Carried{off, c.at, c.was})
		}
		slices.SortFunc(m.places, func(a, b Carried) int {
			if a.Offset < b.Offset {
				return -1
			}
			return 1
		})
	}
	return m.places
}

// CarriedBytes is how much the carried messages take in the journal: retention by size does not count it.
func (m *Machine) CarriedBytes() int64 { return m.carriedBytes }

// LoseCarried forgets what was carried to where nothing is any more: that range of the journal was lost, and is recorded
// as such in the chain (as with Hole, whoever loads the journal says so). It says how many messages that were.
func (m *Machine) LoseCarried(there func(mq.Position) bool) (lost int) {
	for off, c := range m.carried {
		if there(c.at) {
			continue
		}
		lost++
		for _, g := range m.groups {
			if x := g.out[off]; x != nil {
				g.leave(x)
				g.remove(off, x)
			}
		}
	}
	return lost
}

// Keeps says whether a group has something unsettled before an offset that goes with its segment: not what is dead or
// was carried.
func (m *Machine) Keeps(id mq.GroupID, before uint64) bool {
	g := m.groups[id]
	if g == nil {
		return false
	}
	if g.lowFresh() < before {
		return true
	}
	if g.cursor() >= before {
		return false
	}
	for off, x := range g.out {
		if _, carried := m.carried[off]; off < before && x.state != StateDead && !carried {
			return true
		}
	}
	return false
}

// goesOn says whether a carried message that is neither settled nor dead is so after a seek, too: below what is kept only
// those that a snapshot would bring back are.
func (g *group) goesOn(off uint64, x *message, p *position, floor uint64) bool {
	_, carried := g.m.carried[off]
	return carried && off < floor && x.state != StateDead && (p.unsettled(x.lane, off) || within(p.dead, off))
}

func (m *Machine) appendCarried(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(m.carried)))
	off, place := uint64(0), mq.Position{}
	for _, at := range slices.Sorted(maps.Keys(m.carried)) {
		c := m.carried[at]
		b = binary.AppendUvarint(b, at-off)
		b = binary.AppendVarint(b, int64(c.at.Offset-place.Offset))
		b = binary.AppendVarint(b, int64(c.at.Seq)-int64(place.Seq))
		b = binary.AppendUvarint(b, uint64(c.size))
		off, place = at+1, c.at
	}
	return b
}

func (m *Machine) readCarried(r *mq.Reader) {
	off, place := uint64(0), mq.Position{}
	for range r.Count(4) {
		gap, d, seq, size := r.Uvarint(), r.Varint(), int64(place.Seq)+r.Varint(), r.Uint32()
		off += gap
		place.Offset, place.Seq = place.Offset+uint64(d), uint32(seq)
		if r.Err() == nil && (gap > maxSpan || int64(place.Seq) != seq || place.Offset > maxSpan || !m.isOut(off)) {
			r.Fail("offset %d carried to %s", off, place)
		}
		if r.Err() != nil {
			return
		}
		m.carried[off] = carriedMessage{at: place, size: size}
		m.carriedBytes += int64(size)
		off++
	}
}

// checkCarried tests that each carried message is out somewhere, and what is counted of them.
func (m *Machine) checkCarried() error {
	bytes := int64(0)
	for off, c := range m.carried {
		if bytes += int64(c.size); !m.isOut(off) {
			return fmt.Errorf("offset %d is carried and settled everywhere", off)
		}
	}
	if bytes != m.carriedBytes {
		return fmt.Errorf("carried messages have %d bytes, counted as %d", bytes, m.carriedBytes)
	}
	listed := map[uint64]Carried{}
	for _, c := range m.AllCarried() {
		listed[c.Offset] = c
	}
	for off, c := range m.carried {
		if listed[off] != (Carried{off, c.at, c.was}) {
			return fmt.Errorf("offset %d is carried to %s and listed as %+v", off, c.at, listed[off])
		}
	}
	for _, g := range m.groups {
		for off := range g.out {
			if _, ok := m.carried[off]; m.leading && off < m.lanes.base && !ok {
				return fmt.Errorf("offset %d of group %d is out below %d and not carried", off, g.ID, m.lanes.base)
			}
		}
	}
	return nil
}
