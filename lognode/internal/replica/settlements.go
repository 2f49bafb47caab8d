package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// What a search for settlements reads at most: what is older is not recent.
const (
	mostSettlements  = 1000
	settlementsBytes = 16 << 20
)

// Settlements tells the newest settlements of a group that have a reason, newest first: for a webhook, its log
// of attempts. It reads the journal backwards, as far as it is on this node and within bounds, so nothing is kept
// for it anywhere.
func (p *Partition) Settlements(id mq.GroupID, limit int, done func(*mqpb.SettlementsResponse, error)) {
	fail := func(err error) { done(nil, err) }
	p.serveRead(fail, func(l *leadership) {
		if _, ok := l.machine.Figures(id); !ok {
			fail(deliveryError(delivery.ErrGroupNotFound))
			return
		}
		j, schedules := l.journal(), l.book.Next() > 0
		p.beside(func(ctx context.Context) {
			res, err := p.settlements(ctx, &j, id, min(limit, mostSettlements))
			if err == nil && schedules {
				p.nameReleased(ctx, &j, res)
			}
			if err != nil {
				fail(mqerr.New(mqerr.Internal, "reading settlements: %w", err))
				return
			}
			done(res, nil)
		})
	})
}

func (p *Partition) settlements(ctx context.Context, j *journal, id mq.GroupID, limit int) (*mqpb.SettlementsResponse, error) {
	res := &mqpb.SettlementsResponse{}
	budget := settlementsBytes
	for i := j.len() - 1; i >= 0 && budget > 0 && len(res.Settlements) < limit; i-- {
		s := j.at(i)
		if !Resident(p.env.Store, s) {
			break
		}
		var bad error
		err := p.env.Store.ScanBack(s.ID, s.End, func(_ mq.Position, data []byte) bool {
			budget -= len(data)
			var e mq.Entry
			if e, bad = mq.ParseEntry(data); bad != nil {
				return false
			}
			bad = addSettlements(res, &e, id)
			return bad == nil && budget > 0 && len(res.Settlements) < limit && ctx.Err() == nil
		})
		if err == nil {
			err = bad
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
	res.Settlements = res.Settlements[:min(limit, len(res.Settlements))]
	return res, nil
}

// nameReleased adds the schedule numbers of the messages that have one. A message that can't be read keeps its offset only.
func (p *Partition) nameReleased(ctx context.Context, j *journal, res *mqpb.SettlementsResponse) {
	read := map[uint64]bool{} // by the first offset of an entry
	numbers := map[uint64]uint64{}
	for _, s := range res.Settlements {
		if _, ok := numbers[s.Offset]; !ok && ctx.Err() == nil {
			if e, err := p.entry(ctx, j, s.Offset); err == nil && !read[e.At.Offset] {
				read[e.At.Offset] = true
				_ = released(e, func(off, number uint64) { numbers[off] = number }) // what could be read counts
			}
		}
		s.Number, s.Scheduled = numbers[s.Offset]
	}
}

// addSettlements adds those of one entry, the newest first.
func addSettlements(res *mqpb.SettlementsResponse, e *mq.Entry, id mq.GroupID) error {
	from := len(res.Settlements)
	err := delivery.Settlements(e, id, func(s delivery.Settlement) {
		res.Settlements = append(res.Settlements, &mqpb.Settlement{Offset: s.Offset, At: s.At, Type: s.Type, Reason: s.Reason, RetryAt: s.RetryAt})
	})
	added := res.Settlements[from:]
	for i := range len(added) / 2 {
		added[i], added[len(added)-1-i] = added[len(added)-1-i], added[i]
	}
	return err
}
