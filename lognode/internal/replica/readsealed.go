package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// readSealed answers a read from the sealed segments, whoever leads: they are decided for good, and any copy of an entry
// below their ends is the entry. What lies in the open segment only its leader can tell. It runs beside the partition.
func (p *Partition) readSealed(ctx context.Context, r frame.Read, reply Reply) {
	_, chain, err := p.env.Chain.Chain(ctx, p.id)
	if err != nil {
		reply.fail(err)
		return
	}
	none := mqerr.New(mqerr.NoLeader, "the partition has no leader that answers, and the sealed segments hold no more of what is asked for")
	if len(chain) == 0 || r.Backward || r.From.Where == frame.Latest {
		reply.fail(none)
		return
	}
	end := chain[len(chain)-1].End
	j := journal{sealed: segment.AsHeld(chain), open: mq.Segment{Partition: p.id, Base: end, End: end}}
	done, err := p.read(ctx, j, r)
	switch {
	case mqerr.Is(err, mqerr.OffsetOutOfRange):
		reply.fail(none) // it may be in the open segment
	case err != nil:
		reply.fail(err)
	case len(done.Chunks) == 0 && done.Next >= end.Offset:
		reply.fail(none)
	default:
		done.End = frame.EndUnknown
		reply(frame.TypeReadDone, &done)
	}
}
