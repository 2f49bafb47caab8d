package delivery

import (
	"cmp"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// GroupFigures are the numbers of one group in this partition.
type GroupFigures struct {
	Generation uint64
	// Cursor is the lowest offset that is not settled (dead counts as settled): what retention keeps. Without any
	// it is Committed, or the group's start if that is higher.
	Cursor    uint64
	Next      uint64 // the lowest offset that was never handed out
	Committed uint64
	Ready     int    // could be handed out now, as Ready says
	Fresh     uint64 // committed and never handed out
	Again     int    // waiting for nothing but a receive, after an attempt
	Leased    int
	Waiting   int
	Dead      int
	Exported  int    // of Dead: published to the dead letter topic
	Acked     uint64 // since the group was made, as are the next ones
	Dropped   uint64 // removed by retention before they were settled
	Discarded uint64 // dead letters that were deleted or went beyond the limits
	Lapsed    uint64 // past their TTL
	Filtered  uint64 // not wanted by the group's filter
	Lag       uint64 // not settled: Fresh, Again, Leased and Waiting
	Parked    int    // of Fresh and Again, those that are known to wait behind another one of their key
	Lanes     [mq.Lanes]LaneFigures
}

// LaneFigures are the numbers of one lane in a group; they sum up to those of the group.
type LaneFigures struct {
	Fresh                        uint64
	Again, Leased, Waiting, Dead int
}

// Figures are the numbers of a group; false for an unknown one.
func (m *Machine) Figures(id mq.GroupID) (GroupFigures, bool) {
	g := m.groups[id]
	if g == nil {
		return GroupFigures{}, false
	}
	f := GroupFigures{Generation: g.generation, Cursor: g.cursor(), Next: g.lowFresh(), Committed: m.committed,
		Ready: m.canGive(g), Fresh: g.freshCount(), Again: g.count[StateReady], Leased: g.count[StateLeased],
		Waiting: g.count[StateWaiting], Dead: g.count[StateDead], Exported: g.exported, Acked: g.tally.acked, Dropped: g.tally.dropped,
		Discarded: g.tally.discarded, Lapsed: g.tally.lapsed, Filtered: g.tally.filtered}
	f.Lag = f.Fresh + uint64(f.Again+f.Leased+f.Waiting)
	if g.keyed != nil {
		f.Parked = g.keyed.parked() + g.keyed.parkedAgain()
	}
	for l := range f.Lanes {
		of := &g.inLane[l]
		f.Lanes[l] = LaneFigures{Fresh: g.left[l], Again: of[StateReady], Leased: of[StateLeased], Waiting: of[StateWaiting],
			Dead: of[StateDead]}
	}
	return f, true
}

// cursor is the lowest offset that is not settled. It is found when asked for, at a cost that is bounded by what is out:
// a group that acks fifty million messages behind one that is leased must not pay for them when that one is acked.
func (g *group) cursor() uint64 {
	open := func(off uint64) bool {
		x := g.out[off]
		return x != nil && x.state != StateDead
	}
	fresh := g.lowFresh()
	if fresh-g.lowest <= uint64(2*len(g.out)) {
		for g.lowest < fresh && !open(g.lowest) {
			g.lowest++
		}
		return g.lowest
	}
	if !open(g.lowest) {
		low := fresh
		for off, x := range g.out {
			if off < low && x.state != StateDead {
				low = off
			}
		}
		g.lowest = low
	}
	return g.lowest
}

// HeldMessage is a message in a listing of a group.
type HeldMessage struct {
	Offset  uint64
	State   State
	Attempt uint32 // 0: never handed out
	Until   int64  // leased: the deadline; waiting: when it is ready; dead: when it died; else 0
	// First and Last are when it was handed out first and last, as Attempt counts; 0 for never.
	First, Last int64
	Consumer    string // leased: whose lease; else whose attempt failed last
	Reason      string // why the last attempt failed
	Lane        mq.Lane
	// Behind is the offset of the message that a parked one waits for.
	Behind uint64
}

// Held lists the messages of a group in a state (not acked ones) from an offset on, at most limit.
func (m *Machine) Held(id mq.GroupID, state State, from uint64, limit int) []HeldMessage {
	g := m.groups[id]
	if g == nil || limit <= 0 {
		return nil
	}
	parked := g.parkedFrom(from)
	if state == StateParked {
		return parked[:min(limit, len(parked))]
	}
	waits := make(map[uint64]bool, len(parked))
	for i := range parked {
		waits[parked[i].Offset] = true
	}
	offsets := g.offsets(func(off uint64, x *message) bool { return off >= from && x.state == state && !waits[off] })
	out := make([]HeldMessage, 0, min(limit, len(offsets)))
	for _, off := range offsets[:min(limit, len(offsets))] {
		out = append(out, g.held(off))
	}
	if state != StateReady {
		return out
	}
	// Fresh ones have no message; those among early ones may lie between the others.
	n := 0
	g.eachFresh(from, m.committed, func(s span) bool {
		for ; s.from < s.to && n < limit; s.from++ {
			if !waits[s.from] {
				out = append(out, HeldMessage{Offset: s.from, State: StateReady, Lane: m.lanes.of(s.from)})
				n++
			}
		}
		return n < limit
	})
	slices.SortFunc(out, func(a, b HeldMessage) int { return cmp.Compare(a.Offset, b.Offset) })
	return out[:min(limit, len(out))]
}

// Behind is the offset of the message that another one of a group waits for in the order of its key; false if it waits
// for none, or nobody has looked at it yet.
func (m *Machine) Behind(id mq.GroupID, off uint64) (uint64, bool) {
	g := m.groups[id]
	if g == nil || g.keyed == nil {
		return 0, false
	}
	all := g.parkedFrom(off)
	if len(all) == 0 || all[0].Offset != off {
		return 0, false
	}
	return all[0].Behind, true
}

// Unlooked says that a message of a group that orders by key was not looked at yet, because MaxParked messages before
// it wait behind others.
func (m *Machine) Unlooked(id mq.GroupID, off uint64) bool {
	g := m.groups[id]
	return g != nil && g.keyed != nil && g.keyed.parked() >= MaxParked && off >= g.keyed.scan
}

func (g *group) held(off uint64) HeldMessage {
	state, x := g.state(off)
	h := HeldMessage{Offset: off, State: state, Lane: g.m.lanes.of(off)}
	if x == nil {
		return h
	}
	h.Lane = x.lane
	h.First, h.Last = x.firstAt, x.lastAt
	h.Attempt, h.Until, h.Consumer, h.Reason = x.attempt, x.until, x.by.String(), x.reason.String()
	if x.grant != nil {
		h.Until, h.Consumer = x.grant.until, x.grant.by.String()
	}
	return h
}

// GroupMessageState is where a message is in one group.
type GroupMessageState struct {
	Group mq.GroupID
	HeldMessage
}

// MessageState is where a committed message is in each group that began at or before it, by group id. One that is settled
// in whatever way is StateAcked: ExplainEvents tells how.
func (m *Machine) MessageState(offset uint64) []GroupMessageState {
	if offset >= m.committed {
		return nil
	}
	var out []GroupMessageState
	for _, g := range m.sorted() {
		if offset >= g.Start {
			h := g.held(offset)
			if behind, ok := m.Behind(g.ID, offset); ok && h.State == StateReady {
				h.State, h.Behind = StateParked, behind
			}
			out = append(out, GroupMessageState{Group: g.ID, HeldMessage: h})
		}
	}
	return out
}
