package store

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/splashdam/splashdam/shared/mq"
)

// mark is a line of the ledger: up to tail, the segment's count entries were synced. sum is the sum of
// their CRCs (entrySum), the running CRC of the design in a form from which entries can be taken away.
type mark struct {
	segment mq.SegmentID
	gen     uint64
	tail    mq.Position
	count   uint64
	sum     uint64
	seal    bool // written at a seal
	removed bool // the segment is gone; only in the file
}

// ledger stands beside the volumes because Badger can lose synced entries without saying so: on opening,
// a segment that is shorter than its mark is damaged, and what is broken beyond it was torn.
type ledger struct {
	log *framelog

	// facts is how many frames of the facts are synced, durable how many records are; each tells of the other.
	facts   *atomic.Uint64
	durable atomic.Uint64

	mu    sync.Mutex // orders collecting marks and writing them; taken before Store.mu
	marks map[mq.SegmentID]mark
	stand stand
}

// stand is what a record says beside the marks. It is in the file as a mark of segment 0, which there is none of.
type stand struct {
	// All that was put in volumes before this one, and in the first tables of it, is told by marks.
	volume, tables uint32
	// facts is how many frames of the facts were synced, records how many records of the ledger there were.
	facts, records uint64
}

func (s stand) mark() mark {
	return mark{tail: mq.Position{Offset: uint64(s.volume), Seq: s.tables}, count: s.facts, sum: s.records}
}

// covers says whether all that was put in tables of a volume, of which last is the highest number, is told by marks. Tables are
// numbered from 1 on, and none goes.
func (s stand) covers(volume uint32, last uint64) bool {
	return volume < s.volume || volume == s.volume && last <= uint64(s.tables)
}

// ledgerRewriteBytes is how large the file may get beyond four times its content before it is written anew.
const ledgerRewriteBytes = 1 << 20

// openLedger reads the marks. Damage never stops a start (museum 9): a torn end is cut, a hole loses
// marks, and holes says that some were lost.
func openLedger(dir string) (l *ledger, holes int, err error) {
	l = &ledger{marks: map[mq.SegmentID]mark{}, facts: new(atomic.Uint64)}
	bad := 0
	l.log, holes, _, err = openFramelog(filepath.Join(dir, "ledger"), func(body []byte) error {
		marks, err := parseMarks(body)
		if err != nil {
			bad++
			return nil
		}
		for _, m := range marks {
			l.apply(m)
		}
		return nil
	})
	l.durable.Store(l.stand.records)
	return l, holes + bad, err
}

func (l *ledger) apply(m mark) {
	switch {
	case m.segment == 0:
		l.stand = stand{volume: uint32(m.tail.Offset), tables: m.tail.Seq, facts: m.count, records: m.sum}
	case m.removed:
		delete(l.marks, m.segment)
	default:
		l.marks[m.segment] = m
	}
}

// record writes the marks that collect returns, of segment 0 the stand up to which they are all that there are, and syncs them. Marks get into the file in the order in
// which they were collected, so a later one is never overtaken by an earlier one.
func (l *ledger) record(collect func() []mark) error {
	l.mu.Lock()
	now := l.stand
	now.facts = l.facts.Load()
	marks := slices.DeleteFunc(collect(), func(m mark) bool {
		if m.segment == 0 {
			now.volume, now.tables = uint32(m.tail.Offset), m.tail.Seq
		}
		return m.segment == 0
	})
	if len(marks) == 0 && now == l.stand {
		l.mu.Unlock()
		return nil
	}
	now.records++
	marks = append(marks, now.mark())
	end, err := l.log.write(appendMarkFrames(nil, marks))
	if err == nil {
		for _, m := range marks {
			l.apply(m)
		}
	}
	l.mu.Unlock()
	if err == nil {
		err = l.log.sync(end)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.durable.Store(max(l.durable.Load(), now.records))
	return nil
}

// lacks says whether the ledger lost its last records: it has fewer than the facts tell of. From then on it counts as if it had not.
func (l *ledger) lacks(records uint64) bool {
	lost := l.stand.records < records
	l.stand.records = max(l.stand.records, records)
	return lost
}

// of is the mark of a segment, zero if there is none.
func (l *ledger) of(id mq.SegmentID) mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marks[id]
}

// tidy writes the file anew when most of it is history.
func (l *ledger) tidy() error {
	if l.log.size() < ledgerRewriteBytes {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	frames := l.content()
	if l.log.size() < ledgerRewriteBytes+4*int64(len(frames)) {
		return nil
	}
	return l.log.rewrite(func() []byte { return frames })
}

func (l *ledger) content() []byte {
	marks := []mark{l.stand.mark()}
	for _, m := range l.marks {
		marks = append(marks, m)
	}
	return appendMarkFrames(nil, marks)
}

const (
	markVersion = 1
	flagSeal    = 1 << 0
	flagRemoved = 1 << 1
	// markLeast is the fewest bytes that a mark takes.
	markLeast = 1 + 1 + 1 + 2 + 1 + 8
)

// appendMarkFrames appends marks in frames of at most 4096, far below maxFrame.
func appendMarkFrames(b []byte, marks []mark) []byte {
	const perFrame = 4096
	for len(marks) > 0 {
		n := min(perFrame, len(marks))
		b = appendFrame(b, appendMarks(nil, marks[:n]))
		marks = marks[n:]
	}
	return b
}

func appendMarks(b []byte, marks []mark) []byte {
	b = append(b, markVersion)
	b = binary.AppendUvarint(b, uint64(len(marks)))
	for _, m := range marks {
		var flags byte
		if m.seal {
			flags |= flagSeal
		}
		if m.removed {
			flags |= flagRemoved
		}
		b = append(b, flags)
		b = binary.AppendUvarint(b, uint64(m.segment))
		b = binary.AppendUvarint(b, m.gen)
		b = mq.AppendPosition(b, m.tail)
		b = binary.AppendUvarint(b, m.count)
		b = binary.BigEndian.AppendUint64(b, m.sum)
	}
	return b
}

// parseMarks reads what appendMarks wrote.
func parseMarks(b []byte) ([]mark, error) {
	r := mq.NewReader(b)
	if v := r.Byte(); v != markVersion {
		return nil, fmt.Errorf("store: ledger version %d is not known", v)
	}
	n := r.Count(markLeast)
	marks := make([]mark, 0, n)
	for range n {
		flags := r.Byte()
		marks = append(marks, mark{
			segment: mq.SegmentID(r.Uvarint()),
			gen:     r.Uvarint(),
			tail:    r.Position(),
			count:   r.Uvarint(),
			sum:     r.Fixed64(),
			seal:    flags&flagSeal != 0,
			removed: flags&flagRemoved != 0,
		})
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if r.Len() != 0 {
		return nil, fmt.Errorf("store: %d bytes behind the marks", r.Len())
	}
	return marks, nil
}

// entrySum is an entry's share of a segment's sum: its CRC, which covers its position too.
func entrySum(data []byte) uint64 { return uint64(binary.BigEndian.Uint32(data[1:])) }
