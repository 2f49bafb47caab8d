package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/archive"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// traceArchived is Trace for a message below what is kept. What its groups have of it is in its events only: the machine has
// forgotten it.
func (p *Partition) traceArchived(l *leadership, offset uint64, done func(*mqpb.TraceResponse, error)) {
	fail := func(err error) { done(nil, err) }
	j, open := l.journal(), p.openIndex(l, offset)
	p.withShelf(l, fail, func(ctx context.Context, objects []archive.Object) error {
		j.putBelow(objects, p.id)
		if from, to, lost := j.lost(offset); lost {
			return j.errGap(offset, from, to)
		}
		s := j.find(offset)
		if s == nil {
			return mqerr.New(mqerr.MessageNotFound, "offset %d is neither kept nor archived; the first one is %d", offset, j.first())
		}
		if o := j.object(s); o != nil {
			whole, err := p.env.Archive.Segment(ctx, o)
			if err != nil {
				return err
			}
			*s = whole
		}
		res := &mqpb.TraceResponse{}
		if err := p.trace(ctx, j, s, offset, open, res); err != nil {
			return readError(offset, err)
		}
		done(res, nil)
		return nil
	})
}

// walkPiece is walk for the part of a journal's segment, archived or not, that lies from one position to another.
func (p *Partition) walkPiece(ctx context.Context, j *journal, i int, from, to mq.Position, f func(*mq.Entry) error) error {
	piece := *j.at(i)
	if piece.End, piece.Held = piece.DataEnd(), nil; to.Before(piece.End) {
		piece.End = to
	}
	if from = maxPosition(from, piece.Base); i < len(j.archived) {
		return walked(p.env.Archive.Walk(ctx, &j.archived[i], from, piece.End, f))
	}
	return p.walk(ctx, &piece, from, f)
}
