package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/hedge"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// checkpointPart is the size of one checkpoint record.
	checkpointPart = 256 << 10
	// fetchBytes is how much is read from another node at a time.
	fetchBytes = 4 << 20
	// pieceWait is how long a piece of a segment may take to come or go.
	pieceWait = 3 * time.Second
)

// errStop ends a walk early.
var errStop = errors.New("stop")

// errNowhere is that no other replica of a segment gives what is asked of it.
var errNowhere = errors.New("no other replica that answers has it")

// load replays the journal into a machine: the newest complete checkpoint and what follows it.
func (p *Partition) load(ctx context.Context, o *loaded) error {
	parts, asOf, err := p.findCheckpoint(ctx, o.chain)
	if err != nil {
		return err
	}
	o.machine, o.book = delivery.New(p.id), schedule.New()
	if parts != nil {
		if o.machine, asOf, err = delivery.LoadCheckpoint(p.id, parts); err != nil {
			return err
		}
	}
	segment.Gaps(o.chain, o.base, o.machine.Hole)
	o.took.checkpoint = o.took.lap()
	if err := p.recollect(ctx, o); err != nil {
		return err
	}
	o.took.footers = o.took.lap()
	if parts != nil {
		if err := p.loadSchedules(ctx, o, asOf); err != nil {
			return err
		}
	}
	o.took.schedules = o.took.lap()
	defer func() { o.took.replay = o.took.lap() }()
	for i := range o.chain {
		s := &o.chain[i]
		if !asOf.Before(s.End) && i < len(o.chain)-1 {
			continue
		}
		err := p.walk(ctx, s, maxPosition(asOf, s.Base), func(e *mq.Entry) error {
			o.prev, o.stamp = e.At, e.Stamp
			if err := o.machine.Apply(e); err != nil {
				return err
			}
			return o.book.Apply(e)
		})
		if err != nil {
			return fmt.Errorf("replaying segment %d: %w", s.ID, err)
		}
	}
	if err := segment.CheckReplay(o.base, o.machine.Next(), o.machine.Committed()); err != nil {
		return err
	}
	if lost := o.machine.LoseCarried(o.holds); lost > 0 {
		p.log.Error("dead letters that were carried forward are lost", "messages", lost)
	}
	if lost := o.book.Restored(); lost > 0 {
		p.log.Error("the records of pending schedules are lost", "schedules", lost)
	}
	if n := len(o.chain); n > 0 && o.stamp == 0 { // nothing after the checkpoint: the last entry still gives prev and stamp
		return p.walkBack(ctx, o.chain, func(e *mq.Entry) error {
			o.prev, o.stamp = e.At, e.Stamp
			return errStop
		})
	}
	return nil
}

// holds says whether a position is in a segment of the chain.
func (o *loaded) holds(at mq.Position) bool {
	for i := range o.chain {
		if s := &o.chain[i]; !at.Before(s.Base) && at.Before(s.DataEnd()) {
			return true
		}
	}
	return false
}

// loadSchedules makes the book of a checkpoint whole: it reads where the messages of pending schedules are.
func (p *Partition) loadSchedules(ctx context.Context, o *loaded, asOf mq.Position) error {
	book, from, err := schedule.Load(o.machine.TakeBeside(delivery.SectionSchedules))
	if err != nil {
		return err
	}
	o.book = book
	for i := range o.chain {
		s := &o.chain[i]
		if book.Restoring() == 0 || !from.Before(s.End) {
			continue
		}
		err := p.walkScheduled(ctx, s, from, func(e *mq.Entry) error {
			if book.Restoring() == 0 || !e.At.Before(asOf) {
				return errStop
			}
			return book.Restore(e)
		})
		if err != nil {
			return fmt.Errorf("reading the schedules of segment %d: %w", s.ID, err)
		}
	}
	return nil
}

// walkScheduled is walk for those stretches of a segment that may hold scheduled messages, as its footer says.
func (p *Partition) walkScheduled(ctx context.Context, s *mq.Segment, from mq.Position, f func(*mq.Entry) error) error {
	var spans []footer.Span
	err := p.withFooter(ctx, s, func(f *footer.Footer) (err error) {
		spans, err = f.Scheduled()
		return err
	})
	for _, span := range spans {
		if err != nil || !from.Before(span.To) {
			continue
		}
		piece := *s
		piece.Held, piece.End = nil, span.To
		err = p.walk(ctx, &piece, maxPosition(from, span.From), f)
	}
	return err
}

func maxPosition(a, b mq.Position) mq.Position {
	if a.Before(b) {
		return b
	}
	return a
}

// findCheckpoint scans back for the newest checkpoint of which all parts are there; nil if there is none.
func (p *Partition) findCheckpoint(ctx context.Context, chain []mq.Segment) (parts [][]byte, asOf mq.Position, err error) {
	found := map[uint64][][]byte{}
	err = p.walkBack(ctx, chain, func(e *mq.Entry) error {
		for rec, err := range mq.Records(e.Records) {
			if err != nil {
				return err
			}
			if rec.Kind != mq.KindCheckpoint {
				continue
			}
			h, err := delivery.ParseCheckpointHeader(rec.Body)
			if err != nil {
				return err
			}
			if found[h.ID] == nil {
				found[h.ID] = make([][]byte, h.Parts)
			}
			found[h.ID][h.Part] = append([]byte(nil), rec.Body...)
			if complete(found[h.ID]) {
				parts, asOf = found[h.ID], h.AsOf
				return errStop
			}
		}
		return nil
	})
	return parts, asOf, err
}

func complete(parts [][]byte) bool {
	for _, b := range parts {
		if b == nil {
			return false
		}
	}
	return true
}

// walk calls f with every entry of a sealed segment from a position to its end, from this store or, if this
// has no whole copy or turns out to be damaged on the way, from another replica.
func (p *Partition) walk(ctx context.Context, s *mq.Segment, from mq.Position, f func(*mq.Entry) error) error {
	if !from.Before(s.DataEnd()) {
		return nil
	}
	if Resident(p.env.Store, s) {
		var stop error
		err := p.env.Store.Scan(s.ID, from, func(at mq.Position, data []byte) bool {
			if !at.Before(s.DataEnd()) {
				return false
			}
			e, err := mq.ParseEntry(data)
			if err == nil {
				err = f(&e)
			}
			stop, from = err, e.Next()
			// Not a step beyond the end: there a copy may be damaged.
			return err == nil && ctx.Err() == nil && e.Next().Before(s.DataEnd())
		})
		if err = errors.Join(err, stop, ctx.Err()); stop != nil || !errors.Is(err, store.ErrDamaged) {
			return walked(err)
		}
	}
	return walked(p.walkRemote(ctx, s, from, f))
}

func walked(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (p *Partition) walkRemote(ctx context.Context, s *mq.Segment, from mq.Position, f func(*mq.Entry) error) error {
	for from.Before(s.DataEnd()) {
		raw, err := p.fetch(ctx, s, from)
		if err != nil {
			return err
		}
		for _, b := range raw {
			e, err := mq.ParseEntry(b)
			if err != nil {
				return err
			}
			if e.At != from {
				return fmt.Errorf("asked for %s of segment %d, got %s", from, s.ID, e.At)
			}
			if !e.At.Before(s.DataEnd()) {
				return nil
			}
			if err := f(&e); err != nil {
				return err
			}
			from = e.Next()
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

// remoteBack reads a segment forward from another node, entry headers only kept, and calls f backwards.
func (p *Partition) remoteBack(ctx context.Context, s *mq.Segment, f func(*mq.Entry) error) error {
	var kept [][]byte // only what f may want backwards: checkpoints, and the last entry
	var last []byte
	err := p.walkRemote(ctx, s, s.Base, func(e *mq.Entry) error {
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
