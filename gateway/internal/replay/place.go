package replay

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// ParsePlace reads a place as users write it: an offset, an RFC 3339 time, earliest or latest.
func ParsePlace(s string) (frame.Place, error) {
	switch s {
	case "earliest":
		return frame.Place{Where: frame.Earliest}, nil
	case "latest":
		return frame.Place{Where: frame.Latest}, nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return at(n), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return placeOf(t), nil
	}
	return frame.Place{}, fmt.Errorf("must be an offset (0 or more), an RFC 3339 time, earliest or latest; not %.40q", s)
}

// placeOf clamps a time to what nanoseconds since 1970 can say.
func placeOf(t time.Time) frame.Place {
	switch {
	case t.Before(time.Unix(0, 0)):
		return frame.Place{Where: frame.AtTime}
	case t.Year() > 2261:
		return frame.Place{Where: frame.AtTime, Value: math.MaxInt64}
	}
	return frame.Place{Where: frame.AtTime, Value: uint64(t.UnixNano())}
}

func at(offset uint64) frame.Place { return frame.Place{Where: frame.AtOffset, Value: offset} }

// State is what a cursor keeps of a reader: its query and where each partition stands.
//
// Form: version (1) | flags (1) | upper or lower bound | count | per partition: number | over (1) | next place |
// its bound.
const stateVersion = 1

const (
	flagBackward = 1 << iota
	flagAll
	flagArchived
)

// AppendState appends the reader's state, to go on later with Resume. What is in its buffers is read again.
func (r *Reader) AppendState(b []byte) []byte {
	flags := byte(0)
	if r.q.Backward {
		flags |= flagBackward
	}
	if r.q.All {
		flags |= flagAll
	}
	if r.q.Archived {
		flags |= flagArchived
	}
	b = appendPlace(append(b, stateVersion, flags), r.bound())
	b = binary.AppendUvarint(b, uint64(len(r.sides)))
	for _, s := range r.sides {
		b = binary.AppendUvarint(b, uint64(s.number))
		over := byte(0)
		if s.over && len(s.items) == 0 {
			over = 1
		}
		b = appendPlace(append(b, over), s.resumeAt(r.q.Backward))
		b = appendPlace(b, s.bound)
	}
	return b
}

// Resume makes the reader that AppendState described. numbers are the topic's partitions now: those that
// a reader of all partitions did not know are read from their beginning.
func Resume(state []byte, q Query, numbers []uint32, fetch Fetch) (*Reader, error) {
	r := mq.NewReader(state)
	if v := r.Byte(); v != stateVersion {
		return nil, fmt.Errorf("replay: state version %d is not known", v)
	}
	flags := r.Byte()
	q.Backward, q.All, q.Archived = flags&flagBackward != 0, flags&flagAll != 0, flags&flagArchived != 0
	bound := readPlace(r)
	q.From, q.To = bound, bound
	out := &Reader{q: q, fetch: fetch}
	seen := map[uint32]bool{}
	for range r.Count(6) {
		s := &side{number: r.Uint32(), over: r.Byte() == 1}
		s.next, s.bound = readPlace(r), readPlace(r)
		if s.next.Where == 0 {
			r.Fail("partition %d is nowhere", s.number)
		}
		if seen[s.number] {
			r.Fail("partition %d twice", s.number)
		}
		seen[s.number] = true
		out.sides = append(out.sides, s)
	}
	if flags > flagBackward|flagAll|flagArchived || r.Len() != 0 {
		r.Fail("flags %#x, %d bytes over", flags, r.Len())
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("replay: state: %w", err)
	}
	out.adopt(numbers, seen)
	return out, nil
}

// adopt adds the partitions that a reader of all has not seen yet. In a range up to "the latest" as it was
// when they did not exist, they have no part.
func (r *Reader) adopt(numbers []uint32, seen map[uint32]bool) {
	if !r.q.All || !r.q.Backward && r.q.To.Where == frame.Latest {
		return
	}
	start := frame.Place{Where: frame.Earliest}
	if r.q.Backward {
		start.Where = frame.Latest
	}
	for _, n := range numbers {
		if !seen[n] {
			r.sides = append(r.sides, &side{number: n, next: start, bound: r.bound()})
		}
	}
}

func appendPlace(b []byte, p frame.Place) []byte {
	return binary.AppendUvarint(append(b, byte(p.Where)), p.Value)
}

// readPlace reads a place; Where 0 is "no bound".
func readPlace(r *mq.Reader) frame.Place {
	p := frame.Place{Where: frame.Where(r.Byte()), Value: r.Uvarint()}
	if p.Where > frame.Latest {
		r.Fail("place %d", p.Where)
	}
	return p
}
