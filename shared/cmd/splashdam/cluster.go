package main

import (
	"fmt"
	"strconv"

	"github.com/splashdam/splashdam/shared/api"
)

type clusterCmd struct{}

func (clusterCmd) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Cluster(ctx)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderCluster(&out, s.width, s.painter()) })
}

func renderCluster(c *api.Cluster, width int, paint painter) string {
	parts := fmt.Sprintf("%d, %d with a leader", c.Partitions.Total, c.Partitions.WithLeader)
	if n := c.Partitions.UnderReplicated; n > 0 {
		parts += ", " + paint(styleWarn, fmt.Sprintf("%d under-replicated", n))
	}
	out := pairs([][2]string{{"cluster", c.ID}, {"answered by", c.Gateway}, {"topics", strconv.Itoa(c.Topics)}, {"partitions", parts}})
	t := table{headers: []string{"NAME", "ROLE", "STATE", "ADDRESS", "ZONE", ">LEADS", ">REPLICAS"}}
	for _, n := range c.Nodes {
		state := "alive"
		if !n.Alive {
			state = "away"
		}
		t.rows = append(t.rows, []string{n.Name, "log node", state, orDash(n.Address), orDash(n.Zone), strconv.Itoa(n.Leads), strconv.Itoa(n.Replicas)})
	}
	for _, g := range c.Gateways {
		t.rows = append(t.rows, []string{g.Name, "gateway", "alive", orDash(g.Address), "-", "-", "-"})
	}
	for _, k := range c.Coordinators {
		t.rows = append(t.rows, []string{k.Name, "coordinator", "alive", "-", "-", "-", "-"})
	}
	return out + "\n" + t.render(width, paint)
}
