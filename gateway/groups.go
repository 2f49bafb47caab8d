package gateway

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/cursor"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// pathGroup reads the topic and the group that a path names, as etcd has them.
func (g *Gateway) pathGroup(c echo.Context) (t meta.Topic, group meta.Group, err error) {
	topic, name, err := groupNames(c)
	if err != nil {
		return t, group, err
	}
	ctx := c.Request().Context()
	if t, err = g.currentTopic(ctx, topic); err != nil {
		return t, group, err
	}
	group, err = g.store.GetGroup(ctx, t.ID, name)
	if mqerr.Is(err, mqerr.MetadataUnavailable) {
		if known, ok := g.view.Group(t.ID, name); ok {
			return t, known, nil
		}
	}
	if mqerr.Is(err, mqerr.GroupNotFound) {
		err = mqerr.New(mqerr.GroupNotFound, "group %q of topic %q", name, topic)
	}
	return t, group, err
}

func groupNames(c echo.Context) (topic, group string, err error) {
	if topic, err = pathName(c, "topic"); err != nil {
		return "", "", err
	}
	group, err = pathName(c, "group")
	return topic, group, err
}

// handlePutGroup creates or replaces a group.
func (g *Gateway) handlePutGroup(c echo.Context) error {
	topic, name, err := groupNames(c)
	if err != nil {
		return err
	}
	if err := notOfWebhook(name); err != nil {
		return err
	}
	cond, body, err := g.readReplacement(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := g.currentTopic(ctx, topic)
	if err != nil {
		return err
	}
	want, startGiven, err := groupSettings(t.Settings.GroupDefaults, body)
	if err != nil {
		return err
	}
	if err := validation(checkDeadLetterTopic("", t.Name, &want)); err != nil {
		return err
	}
	if cond.dry {
		return g.previewGroup(c, t, name, want, startGiven, &cond)
	}
	group, created, err := g.putGroup(ctx, t, name, want, startGiven, &cond)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, "/v1/topics/"+t.Name+"/groups/"+name)
	}
	return g.tellAndAnswer(c, status, t, group)
}

// putGroup makes the group's key, or gives it the wanted settings.
func (g *Gateway) putGroup(ctx context.Context, t meta.Topic, name string, want mq.GroupSettings, startGiven bool, cond *precondition) (group meta.Group, created bool, err error) {
	for range maxConfigTries {
		have, err := g.store.GetGroup(ctx, t.ID, name)
		if mqerr.Is(err, mqerr.GroupNotFound) {
			if err := cond.onMissing("group", name); err != nil {
				return group, false, err
			}
			group, err = g.store.CreateGroup(ctx, t.ID, name, want)
			if mqerr.Is(err, mqerr.AlreadyExists) && !cond.createOnly {
				continue
			}
			return group, err == nil, err
		}
		if err != nil {
			return group, false, err
		}
		settings := want
		if err := replaceGroup(name, &have, &settings, startGiven, cond); err != nil {
			return group, false, err
		}
		group, err = g.store.UpdateGroup(ctx, t.ID, name, have.Revision, func(m *meta.Group) { m.Settings = settings })
		if mqerr.Is(err, mqerr.PreconditionFailed) && !cond.exact() || mqerr.Is(err, mqerr.GroupNotFound) && !cond.mustExist {
			continue // it changed meanwhile, or was deleted
		}
		return group, false, err
	}
	return group, false, mqerr.New(mqerr.MetadataUnavailable, "group %q keeps changing", name)
}

// replaceGroup refuses wanted settings that a group can't get, and fills in what stays.
func replaceGroup(name string, have *meta.Group, want *mq.GroupSettings, startGiven bool, cond *precondition) error {
	if err := cond.onFound("group", name, have.Revision); err != nil {
		return err
	}
	if startGiven && !sameStart(want.Start, have.Settings.Start) {
		return validation(mq.FieldError{Pointer: "/start", Detail: "counts when a group is made and can't change later"})
	}
	want.Start = have.Settings.Start
	return nil
}

func sameStart(a, b mq.Start) bool { return a.At == b.At && a.Time.Equal(b.Time) }

// tellAndAnswer makes every partition's leader know the group as it is now, and answers it. A group that was
// just made may still be starting where a partition has no leader: its state says so, and the first receive
// goes on. A change that not all leaders know is an error that may be sent again: the same PUT, pause or
// resume tells them again.
func (g *Gateway) tellAndAnswer(c echo.Context, status int, t meta.Topic, group meta.Group) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	told, err := g.ensureGroup(ctx, t, group)
	switch {
	case err == nil:
		group = told
	case status != http.StatusCreated || !mqerr.Of(err).Code.Retryable():
		return err
	}
	g.showIn(ctx, func(v *meta.View) bool {
		have, ok := v.Group(t.ID, group.Name)
		return ok && have.Revision >= group.Revision
	})
	return g.answerGroup(c, status, t, group)
}

// handleGetGroup answers one group.
func (g *Gateway) handleGetGroup(c echo.Context) error {
	t, group, err := g.pathGroup(c)
	if err != nil {
		return err
	}
	return g.answerGroup(c, http.StatusOK, t, group)
}

// handlePauseGroup stops deliveries to a group; what is out stays out.
func (g *Gateway) handlePauseGroup(c echo.Context) error { return g.setPaused(c, true) }

// handleResumeGroup goes on with a paused group.
func (g *Gateway) handleResumeGroup(c echo.Context) error { return g.setPaused(c, false) }

func (g *Gateway) setPaused(c echo.Context, paused bool) error {
	topic, name, err := groupNames(c)
	if err != nil {
		return err
	}
	if err := notOfWebhook(name); err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := g.currentTopic(ctx, topic)
	if err != nil {
		return err
	}
	group, err := g.store.UpdateGroup(ctx, t.ID, name, 0, func(m *meta.Group) { m.Paused = paused })
	if err != nil {
		return err
	}
	return g.tellAndAnswer(c, http.StatusOK, t, group)
}

// handleDeleteGroup forgets a group, or says what that would forget.
func (g *Gateway) handleDeleteGroup(c echo.Context) error {
	r, err := readRemoval(c)
	if err != nil {
		return err
	}
	t, group, err := g.pathGroup(c)
	if err != nil {
		return err
	}
	if err := notOfWebhook(group.Name); err != nil {
		return err
	}
	if err := r.onFound("group", group.Name, group.Revision); err != nil {
		return err
	}
	ctx := c.Request().Context()
	about := g.describeGroup(ctx, t, group)
	out := api.Deletion{DryRun: r.dry, Topic: t.Name, Group: group.Name, Messages: about.Lag, Dead: about.Dead,
		InFlight: about.InFlight, Partial: about.Partial}
	if r.dry {
		return answerJSON(c, http.StatusOK, out)
	}
	deleted, err := g.store.DeleteGroup(ctx, t.ID, group.Name, r.revision(group.Revision))
	if err != nil {
		return err
	}
	g.tellDeleted(ctx, t, deleted.ID)
	g.showIn(ctx, func(v *meta.View) bool {
		have, ok := v.Group(t.ID, group.Name)
		return !ok || have.ID != group.ID
	})
	return answerJSON(c, http.StatusOK, out)
}

// tellDeleted tells the leaders that a group is gone. The key has said so already: a leader that is not
// reached finds out from it, so failures are only worth a line in the log.
func (g *Gateway) tellDeleted(ctx context.Context, t meta.Topic, group mq.GroupID) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	answers := askLeaders(ctx, g, allPartitions(t), func(ctx context.Context, c mqpb.LogNodeClient, ps []*mqpb.Partition) ([]*mqpb.PartitionResult, error) {
		r, err := c.DeleteGroup(ctx, &mqpb.DeleteGroupRequest{Partitions: ps, Group: uint64(group)})
		return r.GetResults(), err
	})
	for p, a := range answers {
		if a.err != nil && !mqerr.Is(a.err, mqerr.GroupNotFound) {
			g.log.Info("a leader was not told of a deleted group", "topic", t.Name, "partition", p.Number, "group", uint64(group), "error", a.err)
		}
	}
}

// handleListGroups answers a topic's groups by name, a page at a time.
func (g *Gateway) handleListGroups(c echo.Context) error {
	topic, err := pathName(c, "topic")
	if err != nil {
		return err
	}
	limit, err := queryLimit(c)
	if err != nil {
		return err
	}
	after, err := g.queryCursor(c, cursor.Groups, topic)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := g.knownTopic(ctx, topic)
	if err != nil {
		return err
	}
	page, more := pageAfter(g.view.Groups(t.ID), string(after), limit, func(m meta.Group) string { return m.Name })
	out := api.GroupList{Groups: g.summarizeGroups(ctx, t, page)}
	if more {
		if out.NextCursor, err = g.sealCursor(cursor.Groups, topic, []byte(page[len(page)-1].Name)); err != nil {
			return err
		}
	}
	return answerJSON(c, http.StatusOK, out)
}
