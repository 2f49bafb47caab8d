package delivery

import (
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// LanesOf are the lanes of a batch's messages; nil if all are normal. It reads the index only, and says what is
// wrong with it.
func LanesOf(b *mq.Batch) ([]mq.Lane, error) {
	if b.Uses&mq.UsesLanes == 0 {
		return nil, nil
	}
	lanes := make([]mq.Lane, 0, b.Count)
	err := b.EachOrder(func(_ int, lane mq.Lane, _ []byte, _ bool) { lanes = append(lanes, lane) })
	return lanes, err
}

// EntryLanes calls f with each batch in an entry that takes offsets: the one of its first message, and their lanes (nil:
// all normal).
func EntryLanes(e *mq.Entry, f func(first uint64, lanes []mq.Lane)) error {
	for b, err := range e.Batches() {
		if err != nil {
			return err
		}
		lanes, err := LanesOf(&b.Batch)
		if err != nil {
			return err
		}
		f(b.First, lanes)
	}
	return nil
}

// Attributes are what orders the messages of a batch.
type Attributes struct {
	Lanes []mq.Lane // nil: all normal
	Keys  []uint64  // KeyHash of each, 0 for one without a key; nil: not looked at
}

// AttributesOf are those of the body of a messages record; of the keys only if they are wanted (Machine.WantsKeys). It
// costs next to nothing where they are not and no lanes are used.
func AttributesOf(body []byte, keys bool) (Attributes, error) {
	count, uses := mq.BatchShape(body)
	if uses&mq.UsesLanes == 0 && !keys {
		return Attributes{}, nil
	}
	if uses&(mq.UsesLanes|mq.UsesKeys) == 0 {
		return Attributes{Keys: make([]uint64, count)}, nil
	}
	b, err := mq.ParseBatch(body)
	if err != nil {
		return Attributes{}, err
	}
	return attributesOf(&b, keys)
}

func attributesOf(b *mq.Batch, keys bool) (Attributes, error) {
	var out Attributes
	err := b.EachOrder(func(_ int, lane mq.Lane, key []byte, hasKey bool) {
		if b.Uses&mq.UsesLanes != 0 {
			out.Lanes = append(out.Lanes, lane)
		}
		if keys {
			hash := uint64(0)
			if hasKey {
				hash = KeyHash(key)
			}
			out.Keys = append(out.Keys, hash)
		}
	})
	return out, err
}

// EntryKeys appends the key hashes of an entry's messages from offset on.
func EntryKeys(e *mq.Entry, offset uint64, keys []uint64) ([]uint64, error) {
	for b, err := range e.Batches() {
		if err != nil {
			return keys, err
		}
		if b.End() <= offset {
			continue
		}
		a, err := attributesOf(&b.Batch, true)
		if err != nil {
			return keys, err
		}
		keys = append(keys, a.Keys[max(offset, b.First)-b.First:]...)
	}
	return keys, nil
}

// Append tells a leader the attributes of count messages that got the offsets from first on, in the order in which they
// were given and before they are committed. The slices are not kept.
func (m *Machine) Append(first uint64, count uint32, a Attributes) {
	m.lanes.add(first, uint64(count), a.Lanes)
	if m.ordered == 0 {
		return
	}
	if a.Keys == nil {
		m.tail = hashes{from: first + uint64(count), of: m.tail.of[:0]}
		return
	}
	m.tail.append(first, a.Keys, maxTail)
}

// UnknownLanes are the offsets from (inclusive) to (exclusive) whose lanes a machine that was loaded from a checkpoint
// has to be told, with LearnLane or LearnLanes and then LanesLearnt, before anything is applied. Most often there are none.
func (m *Machine) UnknownLanes() (from, to uint64) {
	if m.unknown == 0 {
		return 0, 0
	}
	return m.lanes.end, m.unknown
}

// LearnLane tells that the messages with the given offsets, which ascend and may lie anywhere, are in a lane. Calls may come in
// any order, and twice. Messages of the normal lane need not be told. The slice is not kept.
func (m *Machine) LearnLane(l mq.Lane, offsets []uint64) {
	if m.unknown == 0 || l == mq.LaneNormal || l >= mq.Lanes {
		return
	}
	from, _ := slices.BinarySearch(offsets, m.lanes.end)
	to, _ := slices.BinarySearch(offsets, m.unknown)
	m.lanes.lanes[l].addAll(offsets[from:max(from, to)])
}

// LearnLanes is LearnLane for a batch, as EntryLanes gives it.
func (m *Machine) LearnLanes(first uint64, lanes []mq.Lane) {
	for i := 0; i < len(lanes); {
		n := i + 1
		for n < len(lanes) && lanes[n] == lanes[i] {
			n++
		}
		from, to := max(first+uint64(i), m.lanes.end), min(first+uint64(n), m.unknown)
		if lanes[i] != mq.LaneNormal && from < to {
			m.lanes.lanes[lanes[i]].add(from, to)
		}
		i = n
	}
}

// LanesLearnt ends LearnLane and LearnLanes.
func (m *Machine) LanesLearnt() {
	m.lanes.learnt(m.next.Offset)
	m.unknown = 0
	for _, g := range m.groups {
		if len(m.lanes.holes) > 0 {
			g.rejoin()
		}
		g.recount()
	}
}
