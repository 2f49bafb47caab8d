package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// memberRoutes are the calls of members of assigned groups.
func (g *Gateway) memberRoutes() []route {
	const members = "/v1/topics/:topic/groups/:group/members"
	return []route{
		{http.MethodPost, members, g.handleJoin, nil},
		{http.MethodGet, members, g.handleListMembers, nil},
		{http.MethodPost, members + "/:member/heartbeat", g.handleHeartbeat, []string{"wait"}},
		{http.MethodDelete, members + "/:member", g.handleLeave, []string{"dry_run"}},
	}
}

// handleJoin makes the caller a member of an assigned group, which is made on first use.
func (g *Gateway) handleJoin(c echo.Context) error {
	topic, name, err := groupNames(c)
	if err != nil {
		return err
	}
	in, err := g.joinInput(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	group, err := g.groupToJoin(ctx, topic, name)
	if err != nil {
		return err
	}
	m, err := g.store.JoinMember(ctx, meta.Member{Name: in.Name, Group: group.ID, Zone: in.Zone, TTL: mq.Duration(in.TTL)})
	if err != nil {
		return err
	}
	defer g.renewals.hear(m)()
	g.showIn(ctx, func(v *meta.View) bool {
		have, ok := v.Member(group.ID, m.Name)
		return ok && have.Revision >= m.Revision
	})
	o := g.awaitAssigned(ctx, group.ID, m.Name, 0, assignedWait)
	c.Response().Header().Set(echo.HeaderLocation, c.Request().URL.Path+"/"+m.Name)
	return answerJSON(c, http.StatusCreated, membershipOf(&m, &o))
}

func (g *Gateway) joinInput(c echo.Context) (in api.JoinInput, err error) {
	if err := g.readOptions(c, &in); err != nil {
		return in, err
	}
	if in.Name == "" {
		in.Name = "m-" + strings.ToLower(rand.Text()[:12])
	}
	if in.TTL == 0 {
		in.TTL = api.Duration(mq.DefaultMemberTTL)
	}
	var fields []mqerr.Field
	bad := func(ok bool, pointer, detail string) {
		if !ok {
			fields = append(fields, mqerr.Field{Pointer: pointer, Detail: detail})
		}
	}
	ttl := time.Duration(in.TTL)
	bad(mq.CheckName(in.Name) == nil, "/name", "must be 1 to 249 letters, digits, dots, dashes and underscores, beginning with a letter or digit")
	bad(in.Zone == "" || mq.CheckName(in.Zone) == nil, "/zone", "must be a name like those of topics")
	bad(ttl >= mq.MinMemberTTL && ttl <= mq.MaxMemberTTL && ttl%time.Second == 0, "/ttl", "must be 2s to 5m, in whole seconds")
	if len(fields) > 0 {
		return in, &mqerr.Error{Code: mqerr.ValidationFailed, Detail: fields[0].Pointer + ": " + fields[0].Detail, Fields: fields}
	}
	return in, nil
}

// groupToJoin finds an assigned group, or makes one with the topic's defaults for the rest.
func (g *Gateway) groupToJoin(ctx context.Context, topic, name string) (meta.Group, error) {
	if err := notOfWebhook(name); err != nil {
		return meta.Group{}, err
	}
	t, err := g.knownTopic(ctx, topic)
	if err != nil {
		return meta.Group{}, err
	}
	_, err = g.store.GetGroup(ctx, t.ID, name)
	if mqerr.Is(err, mqerr.GroupNotFound) {
		settings := t.Settings.GroupDefaults
		settings.Mode = mq.ModeAssigned
		_, err = g.store.CreateGroup(ctx, t.ID, name, settings)
		if mqerr.Is(err, mqerr.AlreadyExists) {
			err = nil
		}
	}
	if err != nil {
		return meta.Group{}, err
	}
	group, err := g.groupToUse(ctx, t, name)
	if err != nil {
		return group, err
	}
	if current, err := g.store.GetGroup(ctx, t.ID, name); err == nil {
		group = current // its mode may have changed just now
	}
	return group, needsMembers(&group)
}

func membershipOf(m *meta.Member, o *owned) api.Membership {
	return api.Membership{Member: m.Name, TTL: api.Duration(m.TTL), Assignment: o.partitions, Generation: o.generation}
}

// handleHeartbeat keeps a member alive and answers what it owns, at once or when that changes.
func (g *Gateway) handleHeartbeat(c echo.Context) error {
	in, err := g.heartbeatInput(c)
	if err != nil {
		return err
	}
	group, m, err := g.pathMember(c)
	if err != nil {
		return err
	}
	defer g.renewals.hear(m)()
	ctx := c.Request().Context()
	o := g.awaitAssigned(ctx, group.ID, m.Name, in.Generation, time.Duration(in.Wait))
	if err := ctx.Err(); err != nil {
		return err
	}
	if !o.known && in.Generation > 0 {
		if m, err = g.memberOf(ctx, &group, m.Name); err != nil && !mqerr.Is(err, mqerr.MetadataUnavailable) {
			return err
		}
	}
	if g.isDraining() {
		c.Response().Header().Set("Connection", "close") // the next one goes to another gateway
	}
	return answerJSON(c, http.StatusOK, membershipOf(&m, &o))
}

func (g *Gateway) heartbeatInput(c echo.Context) (in api.HeartbeatInput, err error) {
	if err := g.readOptions(c, &in); err != nil {
		return in, err
	}
	wait, err := queryDuration(c, "wait", time.Duration(in.Wait), 0, mq.MaxWait)
	if err == nil && (wait < 0 || wait > mq.MaxWait) {
		err = validation(mq.FieldError{Pointer: "/wait", Detail: "must be 0s to 30s"})
	}
	in.Wait = api.Duration(wait)
	return in, err
}

// pathMember finds the living member that a path names.
func (g *Gateway) pathMember(c echo.Context) (group meta.Group, m meta.Member, err error) {
	topic, name, err := groupNames(c)
	if err != nil {
		return group, m, err
	}
	member, err := pathName(c, "member")
	if err != nil {
		return group, m, err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	t, err := g.knownTopic(ctx, topic)
	if err != nil {
		return group, m, err
	}
	group, ok := g.view.Group(t.ID, name)
	if !ok {
		if group, err = g.store.GetGroup(ctx, t.ID, name); err != nil {
			return group, m, err
		}
	}
	if err := needsMembers(&group); err != nil {
		return group, m, err
	}
	m, err = g.memberOf(ctx, &group, member)
	return group, m, err
}

// handleLeave ends a membership; the partitions go to the others at once. That it is over already is no error.
func (g *Gateway) handleLeave(c echo.Context) error {
	member, err := pathName(c, "member")
	if err != nil {
		return err
	}
	dry, err := queryBool(c, "dry_run")
	if err != nil {
		return err
	}
	t, group, err := g.pathGroup(c)
	if err != nil {
		return err
	}
	if dry {
		return g.previewLeave(c, t, &group, member)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	if err := g.store.LeaveMember(ctx, group.ID, member); err != nil {
		return err
	}
	g.showIn(ctx, func(v *meta.View) bool {
		_, ok := v.Member(group.ID, member)
		return !ok
	})
	return c.NoContent(http.StatusNoContent)
}

// handleListMembers answers who is in a group and owns what.
func (g *Gateway) handleListMembers(c echo.Context) error {
	_, group, err := g.pathGroup(c)
	if err != nil {
		return err
	}
	if !mq.ByMembers(group.Settings.Mode) {
		return needsMembers(&group)
	}
	a, _ := g.view.Assignment(group.ID)
	out := api.MemberList{Generation: a.Generation, Members: []api.Member{}}
	seen := map[string]bool{}
	add := func(m api.Member) {
		own, _ := a.Of(m.Member)
		if m.Assignment = own.Partitions; m.Assignment == nil {
			m.Assignment = []uint32{}
		}
		seen[m.Member] = true
		out.Members = append(out.Members, m)
	}
	if group.Settings.Mode == mq.ModePush {
		for _, m := range g.view.Gateways() {
			add(api.Member{Member: m.Name})
		}
	}
	for _, m := range g.view.Members(group.ID) {
		add(api.Member{Member: m.Name, Zone: m.Zone, TTL: api.Duration(m.TTL), Joined: m.Joined})
	}
	for _, m := range a.Members {
		if !seen[m.Name] {
			add(api.Member{Member: m.Name, Gone: true})
		}
	}
	slices.SortFunc(out.Members, func(a, b api.Member) int { return strings.Compare(a.Member, b.Member) })
	return answerJSON(c, http.StatusOK, out)
}
