package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

// handleCluster answers who is there and how the partitions do, by what this gateway knows from etcd.
func (g *Gateway) handleCluster(c echo.Context) error {
	heads := g.view.AllHeads()
	out := api.Cluster{ID: g.view.ClusterID(), Gateway: g.cfg.Name, Nodes: g.describeNodes(heads),
		Gateways: []api.GatewayInfo{}, Coordinators: []api.CoordinatorInfo{}, Partitions: g.countPartitions(heads)}
	for _, w := range g.view.Gateways() {
		out.Gateways = append(out.Gateways, api.GatewayInfo{Name: w.Name, Address: w.Addr})
	}
	for _, k := range g.view.Coordinators() {
		out.Coordinators = append(out.Coordinators, api.CoordinatorInfo{Name: k.Name})
	}
	out.Topics = len(g.view.Topics())
	return answerJSON(c, http.StatusOK, out)
}

// countPartitions goes by the topics' settings, so that a partition counts before the controller made it.
func (g *Gateway) countPartitions(heads []mq.Head) api.PartitionCounts {
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
			switch g.partitionState(h) {
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

// describeNodes lists the nodes that are registered, then replicas' stores that are not.
func (g *Gateway) describeNodes(heads []mq.Head) []api.NodeInfo {
	out := []api.NodeInfo{}
	at := map[mq.StoreID]int{}
	for _, n := range g.view.Nodes() {
		at[n.Store] = len(out)
		out = append(out, api.NodeInfo{Name: n.Name, Alive: true, Store: string(n.Store), Boot: n.Boot, Address: n.Addr, Zone: n.Zone, Draining: n.Draining})
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
	slices.SortStableFunc(out, func(a, b api.NodeInfo) int { return strings.Compare(a.Name, b.Name) })
	return out
}
