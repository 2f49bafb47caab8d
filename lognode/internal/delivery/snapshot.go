package delivery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// A snapshot is a named copy of what a group has settled in this partition: five pointers and what is out of order, so
// its size does not depend on the backlog or on what was settled. It protects nothing from retention.

// MaxSnapshots is how many snapshots a group has in a partition; CreateSnapshot refuses more.
const MaxSnapshots = 20

// What calls about snapshots are refused with.
var (
	ErrSnapshotNotFound = errors.New("delivery: the group has no such snapshot here")
	ErrSnapshotExists   = errors.New("delivery: the group has a snapshot of this name")
	ErrTooManySnapshots = fmt.Errorf("delivery: a group has at most %d snapshots", MaxSnapshots)
	ErrSnapshotTooLarge = errors.New("delivery: the partition's state has no room for this snapshot")
	// ErrSeekTooLarge refuses a seek, not a snapshot.
	ErrSeekTooLarge = errors.New("delivery: the partition's state has no room for what the snapshot brings back")
)

// snapshotRoom is what snapshots leave of MaxCheckpoint to messages that are out: beyond it none is made.
const snapshotRoom = MaxCheckpoint * 3 / 4

type snapshot struct {
	id       uint64 // rises with each that is made, so that a record that was applied already is known
	name     string
	made     int64
	position *position
}

func (s *snapshot) size() int { return 32 + len(s.name) + s.position.size() }

// Snapshot is one of a group's snapshots.
type Snapshot struct {
	Name  string
	Made  int64  // Unix nanoseconds
	Low   uint64 // the lowest offset that was not settled or dead
	Bytes int    // about, of the partition's state
}

func (g *group) snapshot(name string) *snapshot {
	for _, s := range g.snapshots {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (g *group) snapshotByID(id uint64) *snapshot {
	for _, s := range g.snapshots {
		if s.id == id {
			return s
		}
	}
	return nil
}

// Snapshots are those of a group, in the order in which they were made; none for an unknown group.
func (m *Machine) Snapshots(id mq.GroupID) []Snapshot {
	g := m.groups[id]
	if g == nil {
		return nil
	}
	out := make([]Snapshot, len(g.snapshots))
	for i, s := range g.snapshots {
		out[i] = Snapshot{Name: s.name, Made: s.made, Low: m.lowest(s.position), Bytes: s.size()}
	}
	return out
}

// lowest is the lowest offset that a position has as not settled, or dead; the end if there is none. The pointer of a lane
// without messages stays where the group began, so it is asked for the first message behind it.
func (m *Machine) lowest(p *position) uint64 {
	low := m.committed
	for l := range mq.Lane(mq.Lanes) {
		off, ok := m.lanes.next(l, p.fresh[l])
		for _, s := range p.early[l] {
			if ok && off >= s.from && off < s.to {
				off, ok = m.lanes.next(l, s.to)
			}
		}
		if ok {
			low = min(low, off)
		}
	}
	for _, spans := range [][]span{p.open, p.dead} {
		if len(spans) > 0 {
			low = min(low, spans[0].from)
		}
	}
	return low
}

// CreateSnapshot keeps where a group is under a name. made is when it is made, for whoever asks, over all partitions: one
// that is asked for again with the same time is there already.
func (m *Machine) CreateSnapshot(made int64, id mq.GroupID, name string) error {
	g, err := m.decides(id)
	if err != nil {
		return err
	}
	if err := mq.CheckName(name); err != nil {
		return err
	}
	s := snapshot{name: name, position: g.position()}
	switch have := g.snapshot(name); {
	case have != nil && have.made == made:
		return nil
	case have != nil:
		return ErrSnapshotExists
	case len(g.snapshots) >= MaxSnapshots:
		return ErrTooManySnapshots
	case m.Size()+s.size() > snapshotRoom:
		return ErrSnapshotTooLarge
	}
	m.changeSnapshots(g, snapshotChange{op: snapshotCreate, group: g.ID, now: made, id: g.lastSnapshot + 1, name: name})
	return nil
}

// DeleteSnapshot forgets a snapshot.
func (m *Machine) DeleteSnapshot(now int64, id mq.GroupID, name string) error {
	g, err := m.decides(id)
	if err != nil {
		return err
	}
	s := g.snapshot(name)
	if s == nil {
		return ErrSnapshotNotFound
	}
	m.changeSnapshots(g, snapshotChange{op: snapshotDelete, group: g.ID, now: now, id: s.id})
	return nil
}

func (m *Machine) changeSnapshots(g *group, c snapshotChange) {
	m.scratch = c.append(m.scratch[:0])
	m.write(mq.KindSnapshot, m.scratch, true)
	m.snapshotted(g, &c)
	m.done()
}

// snapshotted is what a snapshot record does. What is kept is the state at this place of the journal; a record that a
// checkpoint was ahead of is known by its number.
func (m *Machine) snapshotted(g *group, c *snapshotChange) {
	switch c.op {
	case snapshotCreate:
		if c.id <= g.lastSnapshot {
			return
		}
		g.lastSnapshot = c.id
		g.addSnapshot(&snapshot{id: c.id, name: c.name, made: c.now, position: g.position()})
	case snapshotDelete:
		g.snapshots = slices.DeleteFunc(g.snapshots, func(s *snapshot) bool {
			if s.id == c.id {
				m.snapshotBytes -= s.size()
			}
			return s.id == c.id
		})
	}
}

func (g *group) addSnapshot(s *snapshot) {
	g.snapshots = append(g.snapshots, s)
	g.m.snapshotBytes += s.size()
}

// dropSnapshots forgets all of them, with the group.
func (g *group) dropSnapshots() {
	for _, s := range g.snapshots {
		g.m.snapshotBytes -= s.size()
	}
	g.snapshots = nil
}

// Operations of a snapshot record. Numbers are stored.
const (
	snapshotCreate = 1
	snapshotDelete = 2
)

// snapshotChange is the snapshot record. It holds no position: that is the group's where the record stands.
//
// Form: operation (1) | group | now (signed) | number | name (empty for delete).
type snapshotChange struct {
	op    byte
	group mq.GroupID
	now   int64
	id    uint64
	name  string
}

func (c *snapshotChange) append(b []byte) []byte {
	b = append(b, c.op)
	b = binary.AppendUvarint(b, uint64(c.group))
	b = binary.AppendVarint(b, c.now)
	b = binary.AppendUvarint(b, c.id)
	return mq.AppendBytes(b, c.name)
}

func (c *snapshotChange) read(body []byte) error {
	r := mq.NewReader(body)
	c.op, c.group, c.now, c.id, c.name = r.Byte(), mq.GroupID(r.Uvarint()), readTime(r), r.Uvarint(), r.String()
	if r.Err() == nil && (c.op != snapshotCreate && c.op != snapshotDelete || c.id > math.MaxInt64) {
		r.Fail("snapshot operation %d, number %d", c.op, c.id)
	}
	return end(r, "snapshot")
}

// appendSnapshots is the part of a checkpoint: last number | count | each: number | name | made (signed) | position.
func (g *group) appendSnapshots(b []byte) []byte {
	b = binary.AppendUvarint(b, g.lastSnapshot)
	b = binary.AppendUvarint(b, uint64(len(g.snapshots)))
	for _, s := range g.snapshots {
		b = binary.AppendUvarint(b, s.id)
		b = mq.AppendBytes(b, s.name)
		b = binary.AppendVarint(b, s.made)
		b = s.position.append(b)
	}
	return b
}

func (g *group) readSnapshots(r *mq.Reader) {
	g.lastSnapshot = r.Uvarint()
	for range r.Count(20) {
		s := &snapshot{id: r.Uvarint(), name: r.String(), made: readTime(r)}
		s.position = readPosition(r)
		if r.Err() == nil && (s.id > g.lastSnapshot || s.id > math.MaxInt64) {
			r.Fail("snapshot %d of %d", s.id, g.lastSnapshot)
		}
		if r.Err() != nil {
			return
		}
		g.addSnapshot(s)
	}
}
