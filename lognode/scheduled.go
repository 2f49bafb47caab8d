package lognode

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// ChangeScheduled cancels a pending schedule or gives it another due time.
func (s *server) ChangeScheduled(ctx context.Context, req *mqpb.ChangeScheduledRequest) (*mqpb.ChangeScheduledResponse, error) {
	return one(ctx, s, req.Partition, func(p *replica.Partition, done func(*mqpb.ChangeScheduledResponse, error)) {
		if req.Cancel {
			p.CancelScheduled(req.Number, func(err error) { done(&mqpb.ChangeScheduledResponse{}, err) })
			return
		}
		p.RetimeScheduled(req.Number, req.Time, func(due int64, err error) { done(&mqpb.ChangeScheduledResponse{Due: due}, err) })
	})
}

// ListScheduled lists pending schedules by due time.
func (s *server) ListScheduled(ctx context.Context, req *mqpb.ListScheduledRequest) (*mqpb.ListScheduledResponse, error) {
	limit := min(int(req.Limit), mq.MaxBatchMessages)
	return one(ctx, s, req.Partition, func(p *replica.Partition, done func(*mqpb.ListScheduledResponse, error)) {
		p.ListScheduled(mq.Schedule{Number: req.AfterNumber, Due: req.AfterDue}, limit, done)
	})
}

// FindScheduled says where a schedule is in its life.
func (s *server) FindScheduled(ctx context.Context, req *mqpb.FindScheduledRequest) (*mqpb.FindScheduledResponse, error) {
	return one(ctx, s, req.Partition, func(p *replica.Partition, done func(*mqpb.FindScheduledResponse, error)) {
		p.FindScheduled(req.Number, req.Archived, done)
	})
}
