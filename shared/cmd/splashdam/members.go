package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// consumerName is what this program is called in traces.
const consumerName = "splashdam-cli"

type groupMembers struct {
	groupName `embed:""`
}

func (g *groupMembers) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Members(ctx, g.Topic, g.Group)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderMembers(&out, s.width, s.painter()) })
}

func renderMembers(list *api.MemberList, width int, paint painter) string {
	if len(list.Members) == 0 {
		return "no members\n"
	}
	t := table{headers: []string{"MEMBER", "ZONE", ">TTL", "JOINED (UTC)", ">OWNS", "PARTITIONS"}}
	for _, m := range list.Members {
		joined, ttl := "-", "-"
		if !m.Joined.IsZero() {
			joined, ttl = m.Joined.UTC().Format("01-02 15:04:05"), m.TTL.String()
		}
		if m.Gone {
			joined = "gone"
		}
		t.rows = append(t.rows, []string{m.Member, orDash(m.Zone), ttl, joined, strconv.Itoa(len(m.Assignment)), orDash(numbers(m.Assignment))})
	}
	return t.render(width, paint) + fmt.Sprintf("generation %d\n", list.Generation)
}

// numbers writes ascending numbers with runs drawn together: 0-3 7.
func numbers(list []uint32) string {
	var out []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		text := strconv.FormatUint(uint64(list[i]), 10)
		if j > i {
			text += "-" + strconv.FormatUint(uint64(list[j]), 10)
		}
		out = append(out, text)
		i = j + 1
	}
	return strings.Join(out, " ")
}

// join makes the command a member, if it is to be one; leave is to be called at its end.
func (c *consumeCmd) join(s *session) (member *client.Member, leave func(), err error) {
	if c.Member == "" {
		return nil, func() {}, nil
	}
	for {
		member, err = s.client.Member(s.ctx, c.Topic, c.Group, api.JoinInput{Name: c.Member, Zone: c.Zone, TTL: api.Duration(c.TTL)}, s.assigned(c.Member))
		if err == nil {
			break
		}
		if !c.follows() || !passes(err) || s.ctx.Err() != nil {
			return nil, nil, err
		}
		s.notes.trying(err, tryingAgain)
		s.wait(time.Second)
	}
	return member, func() { _ = member.Leave(context.WithoutCancel(s.ctx)) }, nil // who can't leave expires
}

// assigned tells a person what the member that runs here owns.
func (s *session) assigned(member string) func([]uint32) {
	return func(partitions []uint32) {
		what := "no partition; it stands by"
		if len(partitions) > 0 {
			what = "partitions " + numbers(partitions)
		}
		fmt.Fprintf(s.err, "%s owns %s\n", member, what)
	}
}
