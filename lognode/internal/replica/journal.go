package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
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
	segment.GapBefore(o.chain, o.head.Holes, o.machine.Hole)
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
	if segment.GivenUp(o.head.Holes, asOf) {
		o.book.Skip()
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
