package store

import (
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// segment is this node's replica of a segment. Guarded by Store.mu; the committer changes
// it (the damaged flag: readers too), so that it reads facts without the lock.
type segment struct {
	facts segmentFacts

	tail      mq.Position
	last      mq.Position // At of the last entry, if count > 0
	lastStamp int64
	count     uint64
	bytes     int64
	sum       uint64 // of the entries' CRCs, see entrySum
	parts     []*part
	// rest are what a start found intact of a damaged one behind its tail, in journal order, with something missing before each.
	// It is read by who asks for what lies in it, and kept as long as the rest of the copy.
	rest    []*part
	damaged bool
	intact  *mq.Position // of a damaged one, once it was read (Store.Intact)
	// claim is how far a damaged one reached, nil where a start could not tell (Store.Claim).
	claim *mq.Position
	// absent is set at once when the segment is removed, so that entries on their way are refused.
	absent bool
}

// part is the run of a segment's entries that is in one volume. Parts of a segment are in journal order:
// each begins where the one before ends.
type part struct {
	vol                   *volume
	first, last, next     mq.Position
	count                 uint64
	bytes                 int64
	sum                   uint64
	firstStamp, lastStamp int64
}

// SegmentInfo is what the store knows of a replica.
type SegmentInfo struct {
	// Segment is the creation record.
	Segment mq.Segment
	// Tail is the position that the next entry would get: everything before it is synced.
	Tail mq.Position
	// Count and Bytes are of the entries (encoded), and Sum is the sum of their CRCs as they were written: copies with the same
	// entries have the same.
	Count uint64
	Bytes int64
	Sum   uint64
	// SealFlag says that the segment takes no entries but copies up to End.
	SealFlag bool
	// End is the decided end, nil while it is not known.
	End *mq.Position
	// Damaged says that synced entries are missing or broken. The prefix up to Tail is intact as far as
	// known; the replica must not be taken for one that ends there.
	Damaged bool
	// Last is the At of the last entry and LastStamp its stamp; zero when Count is 0.
	Last      mq.Position
	LastStamp int64
}

func newSegment(f segmentFacts) *segment {
	return &segment{facts: f, tail: f.segment.Base, damaged: f.damaged}
}

func (g *segment) info() SegmentInfo {
	i := SegmentInfo{
		Segment: g.facts.segment, Tail: g.tail, Count: g.count, Bytes: g.bytes, Sum: g.sum,
		SealFlag: g.facts.seal, Damaged: g.damaged, Last: g.last, LastStamp: g.lastStamp,
	}
	if g.facts.end != nil {
		end := *g.facts.end
		i.End = &end
	}
	return i
}

// mark is the segment's line for the ledger.
func (g *segment) mark() mark {
	return mark{segment: g.facts.segment.ID, gen: g.facts.gen, tail: g.tail, count: g.count, sum: g.sum, seal: g.facts.seal}
}

// add puts an entry at the end of the part.
func (p *part) add(e *mq.Entry, size int, sum uint64) {
	if p.count == 0 {
		p.first, p.firstStamp = e.At, e.Stamp
	}
	p.last, p.next, p.lastStamp = e.At, e.Next(), e.Stamp
	p.count++
	p.bytes += int64(size)
	p.sum += sum
}

// whole are the parts and the rest, prefix the parts only.
func (g *segment) whole() []*part {
	if len(g.rest) == 0 {
		return g.parts
	}
	return slices.Concat(g.parts, g.rest)
}

func (g *segment) prefix() []*part { return g.parts }

// restAt is the part of the rest that holds a position, or nil.
func (g *segment) restAt(pos mq.Position) *part {
	for _, p := range g.rest {
		if !pos.Before(p.first) && pos.Before(p.next) {
			return p
		}
	}
	return nil
}

// recount makes the segment's totals those of its parts.
func (g *segment) recount() {
	g.tail, g.last, g.lastStamp = g.facts.segment.Base, mq.Position{}, 0
	g.count, g.bytes, g.sum = 0, 0, 0
	for _, p := range g.parts {
		g.tail, g.last, g.lastStamp = p.next, p.last, p.lastStamp
		g.count += p.count
		g.bytes += p.bytes
		g.sum += p.sum
	}
}

// check says what is wrong with the segment's own account, for tests and after recovery.
func (g *segment) check() error {
	tail, count := g.facts.segment.Base, uint64(0)
	for _, p := range g.parts {
		if p.first != tail || p.last.Before(p.first) || !p.last.Before(p.next) || p.count == 0 {
			return fmt.Errorf("store: %s: part %s..%s of volume %d does not follow %s", &g.facts.segment, p.first, p.next, p.vol.number, tail)
		}
		tail, count = p.next, count+p.count
	}
	if tail != g.tail || count != g.count {
		return fmt.Errorf("store: %s: tail %s count %d, but the parts end at %s with %d", &g.facts.segment, g.tail, g.count, tail, count)
	}
	return nil
}

// Segments lists all replicas, damaged and empty ones too, in no order.
func (s *Store) Segments() []SegmentInfo { return s.list(func(*segment) bool { return true }) }

// Ended lists the replicas here whose segment has ended, in no order.
func (s *Store) Ended() []SegmentInfo {
	return s.list(func(g *segment) bool { return g.facts.end != nil })
}

// list are the replicas for which wanted holds, in no order.
func (s *Store) list(wanted func(*segment) bool) []SegmentInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	count := 0
	for _, g := range s.segments {
		if wanted(g) {
			count++
		}
	}
	if count == 0 {
		return nil // as mostly, of ten thousand, for who looks at the damaged ones
	}
	list := make([]SegmentInfo, 0, count)
	for _, g := range s.segments {
		if wanted(g) {
			list = append(list, g.info())
		}
	}
	return list
}

// Damages is how many segments reads have found damaged since the start: another number says that some copy may need to
// be mended.
func (s *Store) Damages() uint64 { return s.damages.Load() }

// DamageFound receives after Damages has risen, so that whoever repairs can begin at once. It is for one receiver; what rises
// several times in between is told once.
func (s *Store) DamageFound() <-chan struct{} { return s.damaged }

// Segment looks one replica up; false means that the store does not know it, which is not the same as empty.
func (s *Store) Segment(id mq.SegmentID) (SegmentInfo, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g, ok := s.segments[id]
	if !ok {
		return SegmentInfo{}, false
	}
	return g.info(), true
}
