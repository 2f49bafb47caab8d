package lognode

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// DeadLetters counts, redrives or removes dead letters of a group in a partition led here.
func (s *server) DeadLetters(ctx context.Context, req *mqpb.DeadLettersRequest) (*mqpb.DeadLettersResponse, error) {
	return one(ctx, s, req.Partition, func(p *replica.Partition, done func(*mqpb.DeadLettersResponse, error)) {
		p.DeadLetters(req, done)
	})
}

// Seek puts a group to another place in partitions led here, or says what that would change.
func (s *server) Seek(ctx context.Context, req *mqpb.SeekRequest) (*mqpb.SeekResponse, error) {
	absent := func(p *mqpb.Partition) *mqpb.SeekResult {
		return &mqpb.SeekResult{Partition: p, Code: uint32(mqerr.NotLeader)}
	}
	out, err := each(ctx, s, req.Partitions, absent, func(p *replica.Partition, done func(*mqpb.SeekResult)) { p.Seek(req, done) })
	if err != nil {
		return nil, err
	}
	return &mqpb.SeekResponse{Results: out}, nil
}

// Snapshots makes, deletes or lists a group's snapshots in partitions led here.
func (s *server) Snapshots(ctx context.Context, req *mqpb.SnapshotsRequest) (*mqpb.SnapshotsResponse, error) {
	absent := func(p *mqpb.Partition) *mqpb.PartitionSnapshots {
		return &mqpb.PartitionSnapshots{Partition: p, Code: uint32(mqerr.NotLeader)}
	}
	out, err := each(ctx, s, req.Partitions, absent, func(p *replica.Partition, done func(*mqpb.PartitionSnapshots)) {
		p.Snapshots(req, done)
	})
	if err != nil {
		return nil, err
	}
	return &mqpb.SnapshotsResponse{Results: out}, nil
}
