package main

import (
	"fmt"
	"os/user"
	"strings"

	"github.com/splashdam/splashdam/shared/api"
)

type forceRecoverCmd struct {
	Topic      string `arg:"" help:"Topic."`
	Partition  uint32 `arg:"" help:"Partition."`
	Node       string `help:"Replica that must be among those that answer; whichever do if not given."`
	AcceptLoss bool   `help:"Do it. Without this it is only shown what would be given up."`
	Empty      bool   `help:"Go on even if no replica answers: all of a segment that nobody has is lost."`
	By         string `help:"Who decides that; it is recorded. Your user name if not given."`
}

func (f *forceRecoverCmd) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	by := f.By
	if by == "" {
		if u, err := user.Current(); err == nil {
			by = u.Username
		}
	}
	out, err := s.client.ForceRecover(ctx, f.Topic, f.Partition,
		api.ForceRecoverRequest{Node: f.Node, AcceptLoss: f.AcceptLoss, Empty: f.Empty, By: by}, !f.AcceptLoss)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderForce(&out, f.AcceptLoss, s.width, s.painter()) })
}

func renderForce(a *api.ForceRecoverAnswer, done bool, width int, paint painter) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(wrap(fmt.Sprintf(format, args...), width) + "\n") }
	switch {
	case !a.Needed:
		say("Nothing to do for partition %d: %s.", a.Partition, a.Because)
		return b.String()
	case a.Forced:
		say("Partition %d goes on, led by %s. Recorded as lost:", a.Partition, a.Leader)
	case done:
		say("Partition %d goes on, led by %s; nothing was lost.", a.Partition, a.Leader)
	default:
		say("Partition %d needs it: %s. This would be recorded as lost:", a.Partition, a.Because)
	}
	for _, l := range a.Lost {
		text := fmt.Sprintf("offsets %d to %d", l.From, l.To-1)
		if l.From >= l.To { // the segment had acts of groups only
			text = fmt.Sprintf("no message; before offset %d what was recorded of deliveries", l.From)
		}
		b.WriteString("  " + paint(styleWarn, text) + "\n")
	}
	if len(a.Replicas) > 0 {
		t := table{headers: []string{"REPLICA", "ANSWERS", ">NEXT OFFSET"}}
		for _, r := range a.Replicas {
			answers, next := "no", "-"
			switch {
			case r.Answers:
				answers, next = "yes", fmt.Sprint(r.NextOffset)
			case r.Damaged:
				answers, next = "damaged", fmt.Sprint(r.NextOffset)
			}
			t.rows = append(t.rows, []string{r.Node, answers, next})
		}
		b.WriteString(t.render(width, paint))
	}
	if !done {
		say("Nothing was done. Bring a replica back if you can; to give this up, add --accept-loss.")
	}
	return b.String()
}

type rebuildCmd struct {
	DryRun bool `help:"Only show what would be rebuilt."`
}

func (r *rebuildCmd) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.RebuildMetadata(ctx, r.DryRun)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderRebuild(&out, s.width) })
}

func renderRebuild(a *api.RebuildAnswer, width int) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(wrap(fmt.Sprintf(format, args...), width) + "\n") }
	verb := "Would rebuild"
	if a.Rebuilt {
		verb = "Rebuilt"
	}
	say("%s %d topics, %d groups, %d partitions, %d segments from nodes %s.", verb, a.Topics, a.Groups, a.Partitions,
		a.Segments, strings.Join(a.Nodes, ", "))
	if a.ConfigurationOf != nil {
		say("Topics and groups are as they were at %s.", a.ConfigurationOf.Format("2006-01-02 15:04:05 MST"))
	} else {
		say("No node has a copy of the configuration: names of topics, settings and groups are lost.")
	}
	list := func(title string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(&b, "%s:\n  %s\n", title, strings.Join(items, "\n  "))
		}
	}
	list("Topics that got a new name and default settings", a.Renamed)
	list("Segments left out, because they do not join the others", a.LeftOut)
	list("Missing on the nodes that answered", a.Lost)
	return b.String()
}
