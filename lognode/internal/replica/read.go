package replica

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/splashdam/splashdam/lognode/internal/archive"
	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// journal is what a read needs to know: the sealed segments in order, the open one with how far it is committed.
// It is a snapshot; readers run beside the partition.
type journal struct {
	sealed []mq.Segment
	open   mq.Segment // End is the commit position
	// carried are the messages whose segments are gone; some may be settled by now.
	carried []delivery.Carried
	// archived are the objects of the first of sealed, which are in the archive only.
	archived []archive.Object
	commits  *commitTimes // no snapshot: it goes on
}

func (l *leadership) journal() journal {
	open := *l.seg.Segment()
	open.End = l.seg.Commit()
	return journal{sealed: l.chain, open: open, carried: l.machine.AllCarried(), commits: l.commits}
}

// first is the first offset that is kept.
func (j *journal) first() uint64 {
	if len(j.sealed) > 0 {
		return j.sealed[0].Base.Offset
	}
	return j.open.Base.Offset
}

func (j *journal) len() int { return len(j.sealed) + 1 }

func (j *journal) at(i int) *mq.Segment {
	if i < len(j.sealed) {
		return &j.sealed[i]
	}
	return &j.open
}

// carries says whether an offset is below all segments and its message was carried.
func (j *journal) carries(offset uint64) bool {
	_, ok := j.carriedAt(offset)
	return ok && offset < j.first()
}

// find is the segment that holds a message offset, or nil.
func (j *journal) find(offset uint64) *mq.Segment {
	i := sort.Search(j.len(), func(i int) bool { return offset < j.at(i).DataEnd().Offset })
	if i == j.len() || offset < j.at(i).Base.Offset {
		return nil
	}
	return j.at(i)
}

// lost says whether an offset lies in a hole: between what is left of a segment and where the next one begins. I5: there
// are no such gaps but recorded holes.
func (j *journal) lost(offset uint64) (from, to uint64, ok bool) {
	for i := range j.len() - 1 {
		from, to = j.at(i).DataEnd().Offset, j.at(i+1).Base.Offset
		if from <= offset && offset < to {
			return from, to, true
		}
	}
	return 0, 0, false
}

// lostCount is how many offsets lie in holes.
func (j *journal) lostCount() (n uint64) {
	for i := range j.len() - 1 {
		n += j.at(i+1).Base.Offset - j.at(i).DataEnd().Offset
	}
	return n
}

// readable is the range of offsets within from to to that can be read in one piece, forward from from or backward from
// to. Where that begins in a hole it goes on behind it; next is where a later read goes on.
func (j *journal) readable(from, to uint64, backward bool) (uint64, uint64) {
	for i := range j.len() - 1 {
		first, last := j.at(i).DataEnd().Offset, j.at(i+1).Base.Offset
		switch {
		case first == last || last <= from || to <= first:
		case backward && to <= last:
			to = max(first, from)
		case backward:
			from = last
		case from >= first:
			from = min(last, to)
		default:
			return from, first
		}
	}
	return from, to
}

// errLost is the answer about an offset in a hole.
func errLost(offset, from, to uint64) error {
	return mqerr.New(mqerr.Lost, "offset %d is among those from %d to %d, which were lost; the next one is %d", offset, from, to-1, to)
}

// errGap is errLost, or the answer about an offset that should be in the archive.
func (j *journal) errGap(offset, from, to uint64) error {
	if n := len(j.archived); n > 0 && to <= j.at(n).Base.Offset {
		return mqerr.New(mqerr.Lost, "offset %d is among those from %d to %d, which are neither kept nor archived; the next one is %d", offset, from, to-1, to)
	}
	return errLost(offset, from, to)
}

// entry reads the entry that holds an offset, through the node's cache; of a carried message one that is like it.
func (p *Partition) entry(ctx context.Context, j *journal, offset uint64) (*mq.Entry, error) {
	s := j.find(offset)
	if s == nil {
		return p.carriedEntry(ctx, j, offset)
	}
	if e := p.env.Cache.Get(s.ID, offset); e != nil {
		return e, nil
	}
	var data []byte
	var err error
	if o := j.object(s); o != nil {
		if data, err = p.env.Archive.EntryAt(ctx, o, offset); err != nil {
			return nil, err
		}
	} else if data, err = p.env.Store.EntryAt(s.ID, offset); err != nil {
		if data, err = p.remoteEntry(ctx, s, &mqpb.ReadSegmentRequest{Holding: true, Offset: offset}, err); err != nil {
			return nil, err
		}
	}
	e, err := mq.ParseEntry(data)
	if err != nil {
		return nil, err
	}
	if offset < e.At.Offset || offset >= e.Next().Offset {
		return nil, fmt.Errorf("%w: the entry at %s does not hold offset %d", mq.ErrCorrupt, e.At, offset)
	}
	p.env.Cache.Put(&e, len(data))
	return &e, nil
}

// remoteEntry asks the other replicas for an entry that this store lacks or can't read, which cause says.
// PartitionDamaged if none of them has it.
func (p *Partition) remoteEntry(ctx context.Context, s *mq.Segment, req *mqpb.ReadSegmentRequest, cause error) ([]byte, error) {
	if !errors.Is(cause, store.ErrNotFound) && !errors.Is(cause, store.ErrDamaged) && !errors.Is(cause, store.ErrUnknownSegment) {
		return nil, cause
	}
	req.Segment, req.MaxBytes = uint64(s.ID), 1
	entries, err := p.askEach(ctx, p.others(s), req)
	switch {
	case err == nil:
		return entries[0], nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case req.Holding:
		return nil, p.unreadable(s, fmt.Sprintf("offset %d", req.Offset), cause)
	}
	return nil, p.unreadable(s, "position "+req.From.MQ().String(), cause)
}

// Read answers committed messages without a group.
func (p *Partition) Read(r frame.Read, reply Reply) {
	if r.Sealed {
		p.beside(func(ctx context.Context) { p.readSealed(ctx, r, reply) })
		return
	}
	p.serveRead(reply.fail, func(l *leadership) {
		j := l.journal()
		if needsArchive(&r, j.first()) {
			p.readArchived(l, r, reply)
			return
		}
		if _, ok := l.machine.CarriedAt(r.From.Value); !ok {
			j.carried = nil // it may be settled
		}
		p.beside(func(ctx context.Context) {
			done, err := p.read(ctx, j, r)
			if err != nil {
				reply.fail(err)
				return
			}
			reply(frame.TypeReadDone, &done)
		})
	})
}

func (p *Partition) read(ctx context.Context, j journal, r frame.Read) (frame.ReadDone, error) {
	done := frame.ReadDone{First: j.first(), End: j.open.End.Offset}
	from, err := p.placeOf(ctx, &j, r.From)
	if err != nil {
		return done, err
	}
	to, err := p.placeOf(ctx, &j, r.To)
	if err != nil {
		return done, err
	}
	if r.To.Where == frame.AtOffset && to == from+1 && j.carries(from) {
		done.First = from // this one is kept
	}
	if from < done.First {
		return done, mqerr.New(mqerr.OffsetExpired, "offset %d is no longer kept; the first one is %d", from, done.First)
	}
	if from > done.End {
		return done, mqerr.New(mqerr.OffsetOutOfRange, "offset %d is beyond the end; the next one is %d", from, done.End)
	}
	if a, b, lost := j.lost(from); lost && r.From.Where == frame.AtOffset && !r.Backward {
		return done, j.errGap(from, a, b)
	}
	asked := min(to, done.End)
	from, to = j.readable(from, asked, r.Backward)
	done.Next = from
	if r.Backward {
		done.Next = to
	}
	if from >= to || r.Limit == 0 {
		return done, nil
	}
	n := uint32(min(uint64(r.Limit), to-from))
	if r.Backward {
		from = to - uint64(n)
	}
	chunks, got, _, err := p.chunks(ctx, j, []stretch{{from, n}}, int(r.MaxBytes), 1)
	if err != nil && (got == 0 || r.Backward || ctx.Err() != nil) { // what comes before an error is answered first
		if !r.Backward || n == 1 || ctx.Err() != nil {
			return done, readError(from+uint64(got), err)
		}
		got = 0
	}
	done.Chunks, done.Next = chunks, from+uint64(got)
	if _, b, lost := j.lost(done.Next); lost && !r.Backward {
		done.Next = b // so that the next page does not ask for what is lost
	}
	if r.Backward { // the newest ones are wanted: what did not fit is at the wrong end, so ask for fewer
		for got < n && n > 1 {
			n /= 2
			from = to - uint64(n)
			if chunks, got, _, err = p.chunks(ctx, j, []stretch{{from, n}}, int(r.MaxBytes), 1); err != nil {
				if n == 1 || ctx.Err() != nil {
					return done, readError(from+uint64(got), err)
				}
				got = 0
			}
		}
		done.Chunks, done.Next = chunks, from
	}
	return done, nil
}

// placeOf turns a place into an offset.
func (p *Partition) placeOf(ctx context.Context, j *journal, at frame.Place) (uint64, error) {
	switch at.Where {
	case frame.Earliest:
		return j.first(), nil
	case frame.Latest:
		return j.open.End.Offset, nil
	case frame.AtTime:
		return p.offsetAt(ctx, j, int64(at.Value))
	}
	return at.Value, nil
}

// offsetAt is the first offset whose stamp is not before t, or the end.
func (p *Partition) offsetAt(ctx context.Context, j *journal, t int64) (uint64, error) {
	if len(j.archived) > 0 {
		if at, ok, err := p.env.Archive.FirstAt(ctx, j.archived, t); ok || err != nil {
			return at, err
		}
	}
	for i := len(j.archived); i < j.len(); i++ {
		s := j.at(i)
		if s.Base == s.DataEnd() {
			continue
		}
		at, ok, err := p.stampSearch(ctx, s, t)
		if err != nil {
			return 0, err
		}
		if ok && at.Before(s.DataEnd()) {
			return at.Offset, nil
		}
	}
	return j.open.End.Offset, nil
}

// stampSearch finds the first entry of a segment whose stamp is not before t. Where this store's copy ends early (it is being
// made) or is damaged, the rest is looked through on other replicas.
func (p *Partition) stampSearch(ctx context.Context, s *mq.Segment, t int64) (at mq.Position, found bool, err error) {
	from := s.Base
	if info, ok := p.env.Store.Segment(s.ID); ok && !info.Damaged {
		at, found, err = p.env.Store.FirstStampAtLeast(s.ID, t)
		if found || err != nil && !errors.Is(err, store.ErrDamaged) {
			return at, found, err
		}
		if err == nil {
			from = info.Tail
		}
	}
	err = p.walk(ctx, s, from, func(e *mq.Entry) error {
		if e.Stamp < t {
			return nil
		}
		at, found = e.At, true
		return errStop
	})
	if errors.Is(err, errNowhere) {
		err = p.unreadable(s, "some of what a search by time looks at", err)
	}
	return at, found, err
}
