package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// streamWait bounds how long a description of the cluster waits for streams to nodes.
const streamWait = 500 * time.Millisecond

// handleCluster answers who is there and how the partitions do, by what this gateway knows from etcd.
func (g *Gateway) handleCluster(c echo.Context) error {
	ctx := c.Request().Context()
	heads := g.view.AllHeads()
	fresh := g.view.Freshness()
	asking, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	answers := g.whoAnswers(asking, fresh.Stale)
	nodes, err := g.describeNodes(ctx, heads, answers, "")
	if err != nil {
		return err
	}
	out := api.Cluster{ID: g.view.ClusterID(), Gateway: g.cfg.Name, Metadata: api.MetadataCurrent, Nodes: nodes,
		Gateways: []api.GatewayInfo{}, Coordinators: []api.CoordinatorInfo{}, CoordinatorsWanted: len(g.cfg.Etcd),
		Partitions: g.countPartitions(heads, answers)}
	switch {
	case fresh.Stale:
		out.Metadata, out.MetadataSince = api.MetadataStale, &fresh.Since
	case fresh.Returned:
		out.Metadata, out.MetadataSince = api.MetadataReturned, &fresh.Since
	}
	controller := ""
	if !fresh.Stale {
		controller = g.controller(ctx)
	}
	for _, w := range g.view.Gateways() {
		info := api.GatewayInfo{Name: w.Name, Address: w.Addr}
		if ahead := g.clock.ahead(); w.Name == g.cfg.Name && ahead.Abs() > mq.MaxSkew {
			info.ClockAhead = api.Duration(ahead.Round(time.Second))
		}
		out.Gateways = append(out.Gateways, info)
	}
	for _, k := range g.view.Coordinators() {
		out.Coordinators = append(out.Coordinators, api.CoordinatorInfo{Name: k.Name, Controller: k.Name == controller})
	}
	out.Topics = len(g.view.Topics())
	return answerJSON(c, http.StatusOK, out)
}

// controller is the name of the coordinator that decides now; "" if none does, or that can't be read within a second.
func (g *Gateway) controller(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	name, err := g.store.Controller(ctx)
	if err != nil {
		g.log.Debug("the controller's name could not be read", "err", err)
		return ""
	}
	return name
}

// countPartitions goes by the topics' settings, so that a partition counts before the controller made it. While the metadata
// are stale it goes by which nodes answer this gateway.
func (g *Gateway) countPartitions(heads []mq.Head, answers map[mq.StoreID]bool) api.PartitionCounts {
	byID := make(map[mq.PartitionID]*mq.Head, len(heads))
	for i := range heads {
		byID[heads[i].Partition] = &heads[i]
	}
	var out api.PartitionCounts
	for _, t := range g.view.Topics() {
		for _, p := range allPartitions(t) {
			out.Total++
			h := byID[p]
			if h == nil {
				h = &mq.Head{}
			}
			for _, x := range h.Holes {
				if out.LostRanges++; x.By != "" {
					out.Forced++
				}
			}
			state := g.partitionState(h)
			if answers != nil {
				state = answeringState(h, state, answers)
			}
			switch state {
			case api.StateOpening:
				out.UnderReplicated++
			case api.StateDegraded:
				out.WithLeader++
				out.UnderReplicated++
			default:
				out.WithLeader++
			}
		}
	}
	return out
}

// whoAnswers says, while the metadata are stale, which nodes answer this gateway; nil otherwise. ctx bounds the wait for streams that
// nobody has needed yet.
func (g *Gateway) whoAnswers(ctx context.Context, stale bool) map[mq.StoreID]bool {
	if !stale {
		return nil
	}
	out := map[mq.StoreID]bool{}
	nodes := g.view.Nodes()
	answers := make([]bool, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() { answers[i] = g.router.Answers(ctx, n.Name, n.Addr) })
	}
	asked.Wait()
	for i, n := range nodes {
		out[n.Store] = answers[i]
	}
	return out
}

// answeringState makes of the state of a partition by the metadata what it is by the nodes that answer.
func answeringState(h *mq.Head, state string, answers map[mq.StoreID]bool) string {
	if state == api.StateOpening {
		return state
	}
	for _, r := range h.Open.Replicas {
		switch {
		case answers[r.Store]:
		case r.Store == h.Open.Leader.Store:
			return api.StateOpening
		default:
			state = api.StateDegraded
		}
	}
	return state
}

// describeNodes lists the nodes that are registered, then replicas' stores that are not. While a node is draining it reads
// the list of sealed segments from etcd, a thousand at a time; not while the metadata are stale, as etcd can't be asked: alive is
// then what answers this gateway, by whoAnswers. The node that is named by leaving, if any, is described as if it were draining.
func (g *Gateway) describeNodes(ctx context.Context, heads []mq.Head, answers map[mq.StoreID]bool, leaving string) ([]api.NodeInfo, error) {
	out := []api.NodeInfo{}
	at := map[mq.StoreID]int{}
	draining := false
	takers := map[mq.StoreID]bool{}
	for _, n := range g.view.Nodes() {
		n.Draining = n.Draining || n.Name == leaving
		draining = draining || n.Draining
		if !n.Draining && !n.Full {
			takers[n.Store] = true
		}
		at[n.Store] = len(out)
		out = append(out, api.NodeInfo{Name: n.Name, Alive: answers == nil || answers[n.Store], Store: string(n.Store), Boot: n.Boot, Address: n.Addr, Zone: n.Zone, Draining: n.Draining, SlowDisk: n.Slow, ClockAhead: n.Ahead})
	}
	for i := range heads {
		open := heads[i].Open
		if open == nil {
			continue
		}
		for _, r := range open.Replicas {
			k, ok := at[r.Store]
			if !ok {
				k = len(out)
				at[r.Store] = k
				out = append(out, api.NodeInfo{Name: r.Node, Store: string(r.Store)})
			}
			out[k].Replicas++
			if r.Store == open.Leader.Store && out[k].Boot == open.Leader.Boot {
				out[k].Leads++
			}
		}
	}
	if draining && answers == nil {
		if err := g.describeDrains(ctx, heads, out, at, takers); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b api.NodeInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// describeNode is one of the nodes that are registered, if it is leaving as if it were draining.
func (g *Gateway) describeNode(ctx context.Context, name string, leaving bool) (api.NodeInfo, error) {
	as := ""
	if leaving {
		as = name
	}
	nodes, err := g.describeNodes(ctx, g.view.AllHeads(), nil, as)
	if err != nil {
		return api.NodeInfo{}, err
	}
	for _, n := range nodes {
		if n.Name == name && n.Alive {
			return n, nil
		}
	}
	return api.NodeInfo{}, mqerr.New(mqerr.NodeNotFound, "there is no node %q now", name)
}

// describeDrains adds what keeps the draining ones of nodes; at says where in the list a store is, and takers which stores get
// new segments and copies.
func (g *Gateway) describeDrains(ctx context.Context, heads []mq.Head, nodes []api.NodeInfo, at map[mq.StoreID]int, takers map[mq.StoreID]bool) error {
	each := func(list []mq.Replica, f func(n *api.NodeInfo)) {
		for _, r := range list {
			if k, ok := at[r.Store]; ok && nodes[k].Draining {
				f(&nodes[k])
			}
		}
	}
	// leave counts the copies that are on nodes which drain, against the takers that have none yet.
	leave := func(list []mq.Replica) {
		free, leaving := len(takers), 0
		for _, r := range list {
			if takers[r.Store] {
				free--
			}
		}
		each(list, func(*api.NodeInfo) { leaving++ })
		each(list, func(n *api.NodeInfo) { n.NodesWanted = max(n.NodesWanted, leaving-free) })
	}
	sealed := func(s *mq.Segment) {
		each(s.Replicas, func(n *api.NodeInfo) { n.Sealed++ })
		leave(s.Replicas)
	}
	for i := range heads {
		h := &heads[i]
		if h.Last != nil {
			sealed(h.Last)
		}
		if h.Open == nil {
			continue
		}
		leave(h.Open.Replicas)
		if len(takers) < h.Quorum {
			each(h.Open.Replicas, func(n *api.NodeInfo) { n.NeededBy++ })
		}
	}
	return g.store.SealedSegments(ctx, func(s mq.Segment) bool {
		sealed(&s)
		return true
	})
}
