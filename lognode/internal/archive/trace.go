package archive

import (
	"bytes"
	"context"
	"sort"

	derived "github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/shared/mq"
)

// Segment is what an object was while it was kept.
func (a *Archive) Segment(ctx context.Context, o *Object) (mq.Segment, error) {
	f, err := a.footer(ctx, o)
	if err != nil {
		return mq.Segment{}, err
	}
	return mq.Segment{ID: f.Segment, Partition: f.Partition, Number: f.Number, Base: f.Base, End: f.End, Sealed: true,
		Leader: f.Leader, Replicas: f.Replicas, Quorum: f.Quorum}, nil
}

// Naming lists the stretches of an object whose records may name a message, in order.
func (a *Archive) Naming(ctx context.Context, o *Object, offset uint64) ([]derived.Span, error) {
	f, err := a.footer(ctx, o)
	if err != nil {
		return nil, err
	}
	index := derived.New(o.Segment, o.Base, &o.End)
	index.Read(bytes.NewReader(f.Index), int64(len(f.Index)))
	if index.To == o.End {
		if spans, err := index.Naming(offset); err == nil {
			return spans, nil
		}
	}
	return []derived.Span{{From: o.Base, To: o.End}}, nil
}

// Walk calls f with the entries from a position on that lie before another one. An error of f ends it.
func (a *Archive) Walk(ctx context.Context, o *Object, from, to mq.Position, f func(*mq.Entry) error) error {
	footer, err := a.footer(ctx, o)
	if err != nil {
		return err
	}
	blocks := footer.Blocks
	i := sort.Search(len(blocks), func(i int) bool { return from.Before(mq.Position{Offset: blocks[i].Offset, Seq: blocks[i].Seq}) })
	for i = max(0, i-1); i < len(blocks) && err == nil; i++ {
		var stop error
		over := false
		err = a.walk(ctx, o, &blocks[i], func(e *mq.Entry, _ []byte) bool {
			if over = !e.At.Before(to); !over && !e.At.Before(from) {
				stop = f(e)
			}
			return !over && stop == nil
		})
		if stop != nil || over {
			return stop
		}
	}
	return err
}
