package replica

import (
	"context"
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/dedup"
	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/shared/mq"
)

// recollection is what a new leader reads of the footers of its chain, in one pass from the newest segment on: the lanes of the
// messages below its checkpoint, if any but the normal one are in use there, and the idempotency keys in the window.
type recollection struct {
	o        *loaded
	from, to uint64 // the offsets whose lanes are wanted

	since int64 // no key that is older counts; known with the first footer
	begun bool
	forms []dedup.Form // the newest part's first
	own   int          // keys that were not carried forward from a segment before: those may be older than what comes further back
	older bool         // what lies further back is out of the window
}

// recollect fills in o.keys and the lanes of o.machine.
func (p *Partition) recollect(ctx context.Context, o *loaded) error {
	x := recollection{o: o}
	x.from, x.to = o.machine.UnknownLanes()
	ids := make([]mq.SegmentID, len(o.chain))
	for i := range o.chain {
		ids[i] = o.chain[i].ID
	}
	memory := p.partsInMemory(ctx, ids...)
	for i := len(o.chain) - 1; i >= 0; i-- {
		s := &o.chain[i]
		if !x.wantsKeys() && !x.wantsLanes(s) {
			continue
		}
		if err := p.withKept(ctx, s, memory[s.ID], func(f *footer.Footer) error { return x.read(s, f) }); err != nil {
			return fmt.Errorf("reading the lanes and idempotency keys of segment %d: %w", s.ID, err)
		}
	}
	if x.from < x.to {
		o.machine.LanesLearnt()
	}
	o.keys = dedup.Build(x.forms)
	return nil
}

func (x *recollection) wantsKeys() bool { return !x.older && x.own < dedup.MaxKeys }

func (x *recollection) wantsLanes(s *mq.Segment) bool {
	return x.from < x.to && s.End.Offset > x.from && s.Base.Offset < x.to
}

// read takes what is wanted of a segment. It leaves no trace of keys behind if the footer is damaged; lanes are what they are,
// however often they are told.
func (x *recollection) read(s *mq.Segment, f *footer.Footer) error {
	before := *x
	err := x.readKeys(f)
	if err == nil && x.wantsLanes(s) {
		err = f.EachLane(x.o.machine.LearnLane)
	}
	if err != nil {
		*x = before
	}
	return err
}

func (x *recollection) readKeys(f *footer.Footer) error {
	if len(f.Parts) == 0 || !x.wantsKeys() {
		return nil
	}
	if !x.begun { // the last entry before the open segment is the youngest that there is
		x.begun, x.since = true, f.Parts[len(f.Parts)-1].Last-int64(dedup.Window)
	}
	x.older = f.Parts[0].First < x.since
	return f.Keys(x.since, func(keys dedup.Form, own int) bool {
		x.forms = append(x.forms, keys)
		x.own += own
		return x.own < dedup.MaxKeys
	})
}
