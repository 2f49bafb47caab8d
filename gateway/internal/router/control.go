package router

import (
	"context"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Control is the control calls of a partition's leader; NoLeader if there is none now. Errors are not Named yet.
func (r *Router) Control(p mq.PartitionID) (mqpb.LogNodeClient, error) {
	name, addr, err := r.leader(p)
	if err != nil {
		return nil, err
	}
	n, err := r.node(name, addr)
	if err != nil {
		return nil, err
	}
	return n.client, nil
}

// ControlNode makes control calls to a node by its name.
func (r *Router) ControlNode(name string) (mqpb.LogNodeClient, error) {
	live, ok := r.cfg.View.Node(name)
	if !ok {
		return nil, mqerr.New(mqerr.NoLeader, "node %s is not registered", name)
	}
	n, err := r.node(live.Name, live.Addr)
	if err != nil {
		return nil, err
	}
	return n.client, nil
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
