package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

type clusterCommands struct {
	Show       clusterCmd    `cmd:"" default:"1" help:"Show nodes, gateways and how partitions do (the default)."`
	Drain      drainCmd      `cmd:"" help:"Empty a log node: it gets and leads nothing new."`
	Undrain    undrainCmd    `cmd:"" help:"Use a drained log node again."`
	MoveLeader moveLeaderCmd `cmd:"" help:"Let another replica lead a partition."`

	ForceRecover forceRecoverCmd `cmd:"" help:"Go on with what is left of a partition that lost too many replicas."`

	RebuildMetadata rebuildCmd `cmd:"" help:"Rebuild the metadata of a cluster whose coordinators lost their data."`
}

type drainCmd struct {
	Node   string `arg:"" help:"Name of the log node."`
	DryRun bool   `help:"Say what would move and leave it."`
}

func (d *drainCmd) Run(s *session) error {
	if !d.DryRun {
		return drainNode(s, d.Node, true)
	}
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.PreviewDrain(ctx, d.Node)
	if err != nil {
		return err
	}
	return s.show(out, func() string {
		return fmt.Sprintf("%s would give away what it leads, %d partitions, and %d open segments.\n", out.Name, out.Leads, out.Replicas) + addNodes(&out)
	})
}

type undrainCmd struct {
	Node string `arg:"" help:"Name of the log node."`
}

func (u *undrainCmd) Run(s *session) error { return drainNode(s, u.Node, false) }

func drainNode(s *session, node string, drain bool) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.DrainNode(ctx, node, drain)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderNode(&out) })
}

// addNodes says that a node which drains, or would, can't be emptied by the nodes that there are.
func addNodes(n *api.NodeInfo) string {
	out := ""
	if n.NeededBy > 0 {
		out = fmt.Sprintf("%d partitions can't leave it: too few other nodes take segments.\n", n.NeededBy)
	}
	switch {
	case n.NodesWanted == 1:
		out += "No other node has room for all of its copies: add a log node.\n"
	case n.NodesWanted > 1:
		out += fmt.Sprintf("The other nodes have no room for all of its copies: add %d log nodes.\n", n.NodesWanted)
	}
	return out
}

func renderNode(n *api.NodeInfo) string {
	state := "in use"
	if n.Draining {
		state = "draining"
	}
	out := fmt.Sprintf("%s is %s: it leads %d partitions and holds %d open segments.\n", n.Name, state, n.Leads, n.Replicas)
	switch {
	case !n.Draining:
		return out
	case n.NeededBy+n.NodesWanted > 0:
		return out + addNodes(n)
	case n.Leads+n.Replicas+n.Sealed > 0:
		if n.Sealed > 0 {
			out += fmt.Sprintf("%d sealed segments are still to be copied elsewhere.\n", n.Sealed)
		}
		return out + "To see how far it is: splashdam cluster drain " + n.Name + "\n"
	}
	return out + "Nothing needs it any more: it may be stopped.\n"
}

type moveLeaderCmd struct {
	Topic     string `arg:"" help:"Topic."`
	Partition uint32 `arg:"" help:"Partition."`
	To        string `help:"Node that is to lead; any other replica if not given."`
	DryRun    bool   `help:"Say who would lead and leave it."`
}

func (m *moveLeaderCmd) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	move := s.client.MoveLeader
	if m.DryRun {
		move = s.client.PreviewMove
	}
	out, err := move(ctx, m.Topic, m.Partition, m.To)
	if err != nil {
		return err
	}
	return s.show(out, func() string {
		if out.DryRun {
			return fmt.Sprintf("Partition %d would be led by %s instead of %s.\n", out.Partition, out.Leader, out.From)
		}
		return fmt.Sprintf("Partition %d is led by %s now.\n", out.Partition, out.Leader)
	})
}

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

// heardSince says at the top of a cluster's table how old it is, if it is not of now.
func heardSince(c *api.Cluster, paint painter) string {
	text := ""
	switch c.Metadata {
	case api.MetadataStale:
		text = "The coordinators can't be reached since %s UTC; what follows is from then."
	case api.MetadataReturned:
		text = "The coordinators are back since %s UTC; others register anew."
	default:
		return ""
	}
	at := "-"
	if c.MetadataSince != nil {
		at = c.MetadataSince.UTC().Format(time.TimeOnly)
	}
	return paint(styleWarn, fmt.Sprintf(text, at)) + "\n"
}

// nodeState is a log node's state in one word or two.
func nodeState(n *api.NodeInfo, stale bool) string {
	switch {
	case !n.Alive && stale:
		return "not heard"
	case !n.Alive:
		return "away"
	case n.Draining:
		return "draining"
	case n.SlowDisk:
		return "disk slow"
	}
	return "alive"
}

// clockNote is a line below the table about a clock that is off.
func clockNote(name string, ahead api.Duration) string {
	switch {
	case ahead > 0:
		return fmt.Sprintf("%s: its clock is %s ahead\n", name, ahead)
	case ahead < 0:
		return fmt.Sprintf("%s: its clock is %s behind\n", name, -ahead)
	}
	return ""
}

func renderCluster(c *api.Cluster, width int, paint painter) string {
	stale := c.Metadata == api.MetadataStale
	parts := fmt.Sprintf("%d, %d with a leader", c.Partitions.Total, c.Partitions.WithLeader)
	if n := c.Partitions.UnderReplicated; n > 0 {
		parts += ", " + paint(styleWarn, fmt.Sprintf("%d under-replicated", n))
	}
	if n := c.Partitions.LostRanges; n > 0 {
		parts += ", " + paint(styleWarn, fmt.Sprintf("%d ranges lost, %d of them forced", n, c.Partitions.Forced))
	}
	coordinators := fmt.Sprintf("%d of %d", len(c.Coordinators), max(c.CoordinatorsWanted, len(c.Coordinators)))
	if stale {
		coordinators = fmt.Sprintf("too few of %d, or none", c.CoordinatorsWanted)
	} else if len(c.Coordinators) < c.CoordinatorsWanted {
		coordinators = paint(styleWarn, coordinators)
	}
	out := heardSince(c, paint) + pairs([][2]string{{"cluster", c.ID}, {"answered by", c.Gateway}, {"coordinators", coordinators},
		{"topics", strconv.Itoa(c.Topics)}, {"partitions", parts}}, width)
	t := table{headers: []string{"!NAME", "ROLE", "!STATE", "!ADDRESS", "ZONE", ">LEADS", ">REPLICAS"}}
	notes := ""
	for i := range c.Nodes {
		n := &c.Nodes[i]
		notes += clockNote(n.Name, n.ClockAhead)
		t.rows = append(t.rows, []string{n.Name, "log node", nodeState(n, stale), orDash(n.Address), orDash(n.Zone), strconv.Itoa(n.Leads), strconv.Itoa(n.Replicas)})
	}
	for _, g := range c.Gateways {
		state := "alive"
		if stale && g.Name != c.Gateway {
			state = "unknown"
		}
		notes += clockNote(g.Name, g.ClockAhead)
		t.rows = append(t.rows, []string{g.Name, "gateway", state, orDash(g.Address), "-", "-", "-"})
	}
	for _, k := range c.Coordinators {
		role, state := "coordinator", "alive"
		if stale {
			state = "unknown"
		}
		if k.Controller {
			role = "controller"
		}
		t.rows = append(t.rows, []string{k.Name, role, state, "-", "-", "-", "-"})
	}
	return out + "\n" + t.render(width, paint) + notes
}
