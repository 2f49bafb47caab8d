package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/hedge"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// walk calls f with every entry of a sealed segment from a position to its end: from this store what is intact here, and what
// is not, or is not here, from whichever other replica has it. So a segment is read whole of which every copy is
// damaged, if not all at the same entry.
func (p *Partition) walk(ctx context.Context, s *mq.Segment, from mq.Position, f func(*mq.Entry) error) error {
	return walked(p.through(ctx, segment.NewCourse(s, from, f)))
}

// through is walk on a course.
func (p *Partition) through(ctx context.Context, c *segment.Course) error {
	for !c.Over() {
		err := p.walkHere(ctx, c)
		if err == nil && !c.Over() {
			err = p.walkThere(ctx, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func walked(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// walkHere goes on with the entries of this store, until the end or one that is not here or not intact.
func (p *Partition) walkHere(ctx context.Context, c *segment.Course) error {
	info, ok := p.env.Store.Segment(c.Segment().ID)
	if !ok || !info.Damaged && !c.At().Before(info.Tail) { // behind the tail of a damaged one something may be intact
		return ctx.Err()
	}
	var stop error
	err := p.env.Store.Scan(c.Segment().ID, c.At(), func(at mq.Position, data []byte) bool {
		if !at.Before(c.Segment().DataEnd()) {
			return false
		}
		stop = c.Take(data, true)
		// Not a step beyond the end: there a copy may be damaged.
		return stop == nil && ctx.Err() == nil && !c.Over()
	})
	switch {
	case stop != nil:
		return stop
	case errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrUnknownSegment):
		return ctx.Err()
	}
	return errors.Join(err, ctx.Err())
}

// walkThere goes on with a piece from another replica.
func (p *Partition) walkThere(ctx context.Context, c *segment.Course) error {
	raw, err := p.fetch(ctx, c.Segment(), c.At())
	if err != nil {
		return err
	}
	for _, b := range raw {
		if c.Over() {
			return nil
		}
		if err := c.Take(b, false); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long a node may take for a piece of a segment: not long if nothing else is heard of it.
func (p *Partition) patience(id mq.StoreID) time.Duration {
	if time.Since(p.env.Peers.Heard(id)) > quorumSilence {
		return probeWait
	}
	return pieceWait
}

// fetchHedge is how long a replica may be silent before the next one is asked too: a node that hangs keeps its
// connections, and a partition that opens waits for this.
const fetchHedge = 250 * time.Millisecond

// others are the replicas of a segment, and those that copy it to become one, but for this store.
func (p *Partition) others(s *mq.Segment) []mq.Replica {
	return slices.DeleteFunc(slices.Clone(s.Holders()), func(r mq.Replica) bool { return r.Store == p.env.Store.Identity().Store })
}

// fetch reads some entries from any other replica that holds them.
func (p *Partition) fetch(ctx context.Context, s *mq.Segment, from mq.Position) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pieceWait)
	defer cancel()
	others := p.others(s)
	if len(others) == 0 {
		return nil, fmt.Errorf("segment %d has one replica: %w", s.ID, errNowhere)
	}
	raw, err := p.askEach(ctx, others, &mqpb.ReadSegmentRequest{Segment: uint64(s.ID), From: mqpb.FromPosition(from), MaxBytes: fetchBytes})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errNowhere, err)
	}
	return raw, err
}

// askEach gives the entries of the first of some replicas that has any of what is asked for. Who is silent is not waited
// for long before the next one is asked too.
func (p *Partition) askEach(ctx context.Context, others []mq.Replica, req *mqpb.ReadSegmentRequest) ([][]byte, error) {
	return hedge.First(ctx, fetchHedge, len(others), func(ctx context.Context, i int) ([][]byte, error) {
		c, err := p.env.Peers.Client(others[i].Store)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, p.patience(others[i].Store))
		defer cancel()
		res, err := c.ReadSegment(ctx, req)
		if err == nil && (!res.Known || len(res.Entries) == 0) {
			err = fmt.Errorf("node %s lacks what was asked for of segment %d", others[i].Node, req.Segment)
		}
		if err != nil {
			return nil, err
		}
		return res.Entries, nil
	})
}

// walkBack calls f with every entry of the chain, newest first, until it returns errStop.
func (p *Partition) walkBack(ctx context.Context, chain []mq.Segment, f func(*mq.Entry) error) error {
	for i := len(chain) - 1; i >= 0; i-- {
		s := &chain[i]
		var stop error
		if Resident(p.env.Store, s) {
			err := p.env.Store.ScanBack(s.ID, s.DataEnd(), func(_ mq.Position, data []byte) bool {
				e, err := mq.ParseEntry(data)
				if err == nil {
					err = f(&e)
				}
				stop = err
				return err == nil && ctx.Err() == nil
			})
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
		} else if stop = p.remoteBack(ctx, s, f); stop == nil {
			continue
		}
		if stop != nil {
			return walked(stop)
		}
	}
	return nil
}

// remoteBack reads a segment that is not whole here forward, entry headers only kept, and calls f backwards.
func (p *Partition) remoteBack(ctx context.Context, s *mq.Segment, f func(*mq.Entry) error) error {
	var kept [][]byte // only what f may want backwards: checkpoints, and the last entry
	var last []byte
	err := p.walk(ctx, s, s.Base, func(e *mq.Entry) error {
		last = e.AppendTo(last[:0])
		if rec, _, err := mq.NextRecord(e.Records); err == nil && rec.Kind == mq.KindCheckpoint {
			kept = append(kept, append([]byte(nil), last...))
			last = nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	if last != nil {
		kept = append(kept, last)
	}
	for i := len(kept) - 1; i >= 0; i-- {
		e, err := mq.ParseEntry(kept[i])
		if err != nil {
			return err
		}
		if err := f(&e); err != nil {
			return err
		}
	}
	return nil
}

// Resident says whether a store holds a segment whole up to its end (of the open one: to the commit position). Of a
// damaged copy it may have to read all entries once.
func Resident(st *store.Store, s *mq.Segment) bool {
	info, ok := st.Segment(s.ID)
	if !ok || info.Tail.Before(s.DataEnd()) {
		return false
	}
	if !info.Damaged {
		return true
	}
	intact, err := st.Intact(s.ID)
	return err == nil && !intact.Before(s.DataEnd())
}

// wholeElsewhere says whether another holder of a sealed segment has all of it.
func (p *Partition) wholeElsewhere(ctx context.Context, s *mq.Segment) bool {
	x := suffix{p: p, self: p.env.Store.Identity().Store}
	q := p.inquire(ctx, s.Holders(), func(ctx context.Context, r mq.Replica) segment.Found {
		if r.Store == x.self {
			return segment.Found{}
		}
		return x.tailOf(ctx, s, r)
	})
	defer q.end()
	whole := func(found []segment.Found) bool {
		return slices.ContainsFunc(found, func(f segment.Found) bool { return f.Whole(s.DataEnd()) })
	}
	return whole(q.until(whole))
}

// readable says whether all of a sealed segment can be read that is damaged here: another holder has it whole, or what is broken
// here is intact on others. It may have to read the segment.
func (p *Partition) readable(ctx context.Context, s *mq.Segment) bool {
	if Resident(p.env.Store, s) || p.wholeElsewhere(ctx, s) {
		return true
	}
	intact, err := p.env.Store.Intact(s.ID)
	return err == nil && p.walk(ctx, s, maxPosition(intact, s.Base), func(*mq.Entry) error { return nil }) == nil
}
