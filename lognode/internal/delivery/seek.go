package delivery

import (
	"encoding/binary"
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// SeekTarget says where a group goes: to an offset, or to one of its snapshots if that is named.
type SeekTarget struct {
	Offset   uint64
	Snapshot string
	// Floor is the first offset that is kept; what lies below is gone.
	Floor uint64
}

// SeekGroup puts a group to another place: what lies before it is settled, everything from there on is to be delivered; a
// snapshot brings back exactly what was settled then. The generation rises, so receipts from before are stale and leases
// are over. Dead letters before the place stay; those behind it are delivered again. ErrSeekTooLarge if a snapshot brings back more
// than the state has room for.
func (m *Machine) SeekGroup(now int64, id mq.GroupID, to SeekTarget) (SeekCounts, error) {
	g, err := m.decides(id)
	if err != nil {
		return SeekCounts{}, err
	}
	change, p, err := g.seekTo(now, to)
	if err != nil {
		return SeekCounts{}, err
	}
	if !g.hasRoomFor(p, change.floor) {
		return SeekCounts{}, ErrSeekTooLarge
	}
	counts := g.counts(p, change.floor)
	m.scratch = change.append(m.scratch[:0])
	m.write(mq.KindGroup, m.scratch, true)
	m.seek(g, &change)
	m.done()
	return counts, nil
}

// PlanSeek says what SeekGroup would change, and changes nothing.
func (m *Machine) PlanSeek(id mq.GroupID, to SeekTarget) (SeekCounts, error) {
	g, err := m.decides(id)
	if err != nil {
		return SeekCounts{}, err
	}
	change, p, err := g.seekTo(0, to)
	if err != nil {
		return SeekCounts{}, err
	}
	if !g.hasRoomFor(p, change.floor) {
		return SeekCounts{}, ErrSeekTooLarge
	}
	return g.counts(p, change.floor), nil
}

// hasRoomFor says whether the state stays below MaxCheckpoint, by estimate, when the group goes to a position: what is open
// there is held one by one, and a snapshot keeps it as a few spans. Where it gets smaller it may always go.
func (g *group) hasRoomFor(p *position, floor uint64) bool {
	more := -sizeMessage * (len(g.out) - g.count[StateDead])
	for _, spans := range [][]span{p.open, p.dead} {
		for _, s := range spans {
			if from := max(s.from, floor); from < s.to {
				more += sizeMessage * int(s.to-from)
			}
		}
	}
	for l := range g.early {
		more += sizeSpan * (len(p.early[l]) - len(g.early[l].spans))
	}
	return more <= 0 || g.m.Size()+more <= MaxCheckpoint
}

func (g *group) seekTo(now int64, to SeekTarget) (seekChange, *position, error) {
	floor := min(max(to.Floor, g.m.lanes.base), g.m.committed)
	c := seekChange{group: g.ID, now: now, generation: g.generation + 1, floor: floor}
	if to.Snapshot != "" {
		s := g.snapshot(to.Snapshot)
		if s == nil {
			return c, nil, fmt.Errorf("%w: %s", ErrSnapshotNotFound, to.Snapshot)
		}
		c.snapshot = s.id
		return c, s.position, nil
	}
	c.to = min(max(to.Offset, floor), g.m.committed)
	return c, at(c.to), nil
}

// seek is what a seek record does. One of a generation that the group has reached is of no effect.
func (m *Machine) seek(g *group, c *seekChange) {
	if c.generation <= g.generation {
		return
	}
	p := at(c.to)
	if c.snapshot != 0 {
		s := g.snapshotByID(c.snapshot)
		if s == nil { // only in a journal that nobody wrote
			return
		}
		p = s.position
	}
	g.generation = c.generation
	ordered := g.keyed != nil
	g.keyed = nil // nothing of it is true any more
	g.restore(p, c.floor)
	if ordered {
		g.rekey()
	}
}

// seekChange is the group record of a seek.
//
// Form: operation (1) | group | now (signed) | generation | floor | snapshot (0: none) | to.
type seekChange struct {
	group      mq.GroupID
	now        int64
	generation uint64
	floor      uint64
	snapshot   uint64
	to         uint64
}

func (c *seekChange) append(b []byte) []byte {
	b = append(b, groupSeek)
	b = binary.AppendUvarint(b, uint64(c.group))
	b = binary.AppendVarint(b, c.now)
	b = binary.AppendUvarint(b, c.generation)
	b = binary.AppendUvarint(b, c.floor)
	b = binary.AppendUvarint(b, c.snapshot)
	return binary.AppendUvarint(b, c.to)
}

// readRest reads what follows operation, group and time.
func (c *seekChange) readRest(r *mq.Reader) {
	c.generation, c.floor, c.snapshot, c.to = r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()
	if c.floor > maxSpan || c.to > maxSpan || c.generation > maxSpan {
		r.Fail("seek to %d, floor %d, generation %d", c.to, c.floor, c.generation)
	}
}

// event is the seek in the trace of a message.
func (c *seekChange) event() Event {
	ev := Event{Type: EventSeek, At: c.now, Group: c.group, Reason: fmt.Sprintf("the group went to offset %d", c.to)}
	if c.snapshot != 0 {
		ev.Reason = "the group went to a snapshot"
	}
	return ev
}
