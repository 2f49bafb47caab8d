package lognode

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// DeadLetters counts, redrives or removes dead letters of a group in a partition led here.
func (s *server) DeadLetters(ctx context.Context, req *mqpb.DeadLettersRequest) (*mqpb.DeadLettersResponse, error) {
	return one(ctx, s, req.Partition, func(p *replica.Partition, done func(*mqpb.DeadLettersResponse, error)) {
		p.DeadLetters(req, done)
	})
}
