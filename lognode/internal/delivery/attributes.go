package delivery

import "github.com/splashdam/splashdam/shared/mq"

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

// BatchLanes is LanesOf for the body of a messages record. It costs next to nothing where no lanes are used.
func BatchLanes(body []byte) ([]mq.Lane, error) {
	if _, uses := mq.BatchShape(body); uses&mq.UsesLanes == 0 {
		return nil, nil
	}
	b, err := mq.ParseBatch(body)
	if err != nil {
		return nil, err
	}
	return LanesOf(&b)
}

// EntryLanes calls f with each batch in an entry that takes offsets: the one of its first message, and their lanes (nil:
// all normal).
func EntryLanes(e *mq.Entry, f func(first uint64, count uint32, lanes []mq.Lane)) error {
	at := e.At.Offset
	for rest := e.Records; len(rest) > 0; {
		rec, next, err := mq.NextRecord(rest)
		if err != nil {
			return err
		}
		rest = next
		b, _, _, ok, err := mq.MessagesOf(rec)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		lanes, err := LanesOf(&b)
		if err != nil {
			return err
		}
		f(at, uint32(b.Count), lanes)
		at += uint64(b.Count)
	}
	return nil
}

// Append tells a leader the lanes (nil: all normal) of count messages that got the offsets from first on, in the order
// in which they were given and before they are committed. The slice is not kept.
func (m *Machine) Append(first uint64, count uint32, lanes []mq.Lane) {
	m.lanes.add(first, uint64(count), lanes)
}

// UnknownLanes are the offsets from (inclusive) to (exclusive) whose lanes a machine that was loaded from a checkpoint
// has to be told, with LearnLanes and then LanesLearnt, before anything is applied. Most often there are none.
func (m *Machine) UnknownLanes() (from, to uint64) {
	if m.unknown == 0 {
		return 0, 0
	}
	return m.lanes.end, m.unknown
}

// LearnLanes tells the lanes of messages that lie below the checkpoint, by ascending offset: nil for normal ones, which
// may also be left out.
func (m *Machine) LearnLanes(first uint64, count uint32, lanes []mq.Lane) {
	if first < m.unknown {
		m.lanes.add(first, min(uint64(count), m.unknown-first), lanes)
	}
}

// LanesLearnt ends LearnLanes.
func (m *Machine) LanesLearnt() {
	m.lanes.add(m.next.Offset, 0, nil)
	m.unknown = 0
	for _, g := range m.groups {
		g.recount()
	}
}
