package router

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Share is the partitions that one node leads.
type Share struct {
	Node       string
	Client     mqpb.LogNodeClient
	Partitions []mq.PartitionID
}

// Control is the control calls of a partition's leader; NoLeader if there is none now. The errors of its
// calls go through ControlError.
func (r *Router) Control(p mq.PartitionID) (mqpb.LogNodeClient, error) {
	name, addr, err := r.Leader(p)
	if err != nil {
		return nil, err
	}
	n, err := r.node(name, addr)
	if err != nil {
		return nil, err
	}
	return n.client, nil
}

// Shares groups partitions by their leader, in the order of the first of each. Those that have no leader
// now are in missing.
func (r *Router) Shares(partitions []mq.PartitionID) (shares []Share, missing []mq.PartitionID) {
	at := map[string]int{}
	for _, p := range partitions {
		name, addr, err := r.Leader(p)
		if err != nil {
			missing = append(missing, p)
			continue
		}
		i, ok := at[addr]
		if !ok {
			n, err := r.node(name, addr)
			if err != nil {
				missing = append(missing, p)
				continue
			}
			i = len(shares)
			at[addr] = i
			shares = append(shares, Share{Node: name, Client: n.client})
		}
		shares[i].Partitions = append(shares[i].Partitions, p)
	}
	return shares, missing
}

// CallNode sends one request to a node by its name, once.
func (r *Router) CallNode(ctx context.Context, name string, t frame.Type, body link.Encoder) ([]byte, error) {
	live, ok := r.cfg.View.Node(name)
	if !ok {
		return nil, mqerr.New(mqerr.NoLeader, "node %s is not registered", name)
	}
	n, err := r.node(live.Name, live.Addr)
	if err != nil {
		return nil, err
	}
	s := n.session.Load()
	if s == nil {
		return nil, n.away()
	}
	_, answer, _, err := s.caller.Call(ctx, t, body)
	return answer, err
}

// ControlError gives the error of a control call its row of the table.
func ControlError(err error) error {
	var e *mqerr.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	s, _ := status.FromError(err)
	switch s.Code() {
	case codes.Unavailable:
		return mqerr.New(mqerr.NoLeader, "%w", err)
	case codes.Canceled:
		return mqerr.New(mqerr.Cancelled, "")
	case codes.DeadlineExceeded:
		return mqerr.New(mqerr.NoLeader, "the leader did not answer in time")
	case codes.ResourceExhausted:
		return mqerr.New(mqerr.Overloaded, "%w", err)
	}
	return mqerr.New(mqerr.Internal, "%w", err)
}
