package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/cursor"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// maxConfigTries bounds how often a change without If-Match is tried again because the topic or group changed
// meanwhile.
const maxConfigTries = 8

// handlePutTopic creates or replaces a topic.
func (g *Gateway) handlePutTopic(c echo.Context) error {
	name, err := pathName(c, "topic")
	if err != nil {
		return err
	}
	cond, body, wait, err := g.readTopicChange(c)
	if err != nil {
		return err
	}
	want, err := topicSettings(nothing, body)
	if err != nil {
		return err
	}
	if err := checkTopic(name, &want); err != nil {
		return err
	}
	if cond.dry {
		return g.previewTopic(c, name, &cond, func(*mq.TopicSettings) (mq.TopicSettings, error) { return want, nil })
	}
	t, created, err := g.putTopic(c.Request().Context(), name, want, &cond)
	if err != nil {
		return err
	}
	return g.answerChanged(c, t, created, wait)
}

// readTopicChange reads what calls that make or change topics begin with; wait is how long they wait for leaders.
func (g *Gateway) readTopicChange(c echo.Context) (cond precondition, body []byte, wait time.Duration, err error) {
	if wait, err = queryDuration(c, "wait", g.cfg.RequestTimeout, 0, mq.MaxWait); err != nil {
		return cond, nil, 0, err
	}
	move, err := queryBool(c, "force")
	if err != nil {
		return cond, nil, 0, err
	}
	cond, body, err = g.readReplacement(c)
	cond.moveKeys = move
	return cond, body, wait, err
}

// putTopic makes the topic, or gives it the wanted settings.
func (g *Gateway) putTopic(ctx context.Context, name string, want mq.TopicSettings, cond *precondition) (t meta.Topic, created bool, err error) {
	for range maxConfigTries {
		have, err := g.store.GetTopic(ctx, name)
		if mqerr.Is(err, mqerr.TopicNotFound) {
			if err := cond.onMissing("topic", name); err != nil {
				return t, false, err
			}
			if err := g.mayMake(&want); err != nil {
				return t, false, err
			}
			t, err = g.store.CreateTopic(ctx, name, want)
			if mqerr.Is(err, mqerr.AlreadyExists) && !cond.createOnly {
				continue // somebody else was faster; now it is there to be replaced
			}
			return t, err == nil, err
		}
		if err != nil {
			return t, false, err
		}
		t, err = g.changeTopic(ctx, have, want, cond)
		if mqerr.Is(err, mqerr.PreconditionFailed) && !cond.exact() || mqerr.Is(err, mqerr.TopicNotFound) && !cond.mustExist {
			continue // it changed meanwhile, or was deleted
		}
		return t, false, err
	}
	return t, false, mqerr.New(mqerr.MetadataUnavailable, "topic %q keeps changing", name)
}

// checkChange refuses wanted settings that a topic can't get, and fills in those that stay.
func (g *Gateway) checkChange(ctx context.Context, have meta.Topic, want *mq.TopicSettings, cond *precondition) error {
	if err := cond.onFound("topic", have.Name, have.Revision); err != nil {
		return err
	}
	if err := checkFixed(&have.Settings, want); err != nil {
		return err
	}
	if err := checkTopic(have.Name, want); err != nil {
		return err
	}
	if err := g.archiveThere(have.Settings.Archive, want); err != nil {
		return err
	}
	if want.Partitions <= have.Settings.Partitions {
		return nil
	}
	if err := g.roomForPartitions(want.Partitions - have.Settings.Partitions); err != nil || cond.moveKeys {
		return err
	}
	return g.keysStay(ctx, have)
}

// mayMake refuses a new topic that the cluster can't have.
func (g *Gateway) mayMake(want *mq.TopicSettings) error {
	if err := g.roomForPartitions(want.Partitions); err != nil {
		return err
	}
	return g.archiveThere(false, want)
}

// roomForPartitions refuses partitions beyond those that the cluster may have.
func (g *Gateway) roomForPartitions(more uint32) error {
	have := g.view.Partitions()
	if have+int(more) <= g.cfg.MaxPartitions {
		return nil
	}
	return &mqerr.Error{Code: mqerr.ValidationFailed, Detail: fmt.Sprintf("the cluster's topics have %d partitions, and %d more would exceed --max-partitions (%d)",
		have, more, g.cfg.MaxPartitions), Fields: []mqerr.Field{{Pointer: "/partitions", Detail: "are too many for this cluster"}}}
}

// changeTopic gives a topic that was read the wanted settings, unless it changed meanwhile.
func (g *Gateway) changeTopic(ctx context.Context, have meta.Topic, want mq.TopicSettings, cond *precondition) (meta.Topic, error) {
	if err := g.checkChange(ctx, have, &want, cond); err != nil {
		return have, err
	}
	return g.store.UpdateTopic(ctx, have.Name, have.Revision, func(s *mq.TopicSettings) { *s = want })
}

// archiveThere refuses to begin with the setting archive while a log node has no bucket: what it leads would be kept for ever. A
// topic that has the setting keeps it.
func (g *Gateway) archiveThere(had bool, want *mq.TopicSettings) error {
	if had || !want.Archive {
		return nil
	}
	var without []string
	nodes := g.view.Nodes()
	for i := range nodes {
		if !nodes[i].Archives {
			without = append(without, nodes[i].Name)
		}
	}
	if len(nodes) == 0 {
		return mqerr.New(mqerr.NoLeader, "no log node is alive, so none can say whether there is an archive")
	}
	if len(without) == 0 {
		return nil
	}
	return validation(mq.FieldError{Pointer: "/archive", Detail: fmt.Sprintf("needs a bucket on every log node; started without --archive-url: %s",
		strings.Join(without[:min(len(without), 5)], ", "))})
}

// keysStay refuses more partitions for a topic with a group that orders by key: a key's next messages may go to another
// partition, where they don't wait for those that are still unsettled in the old one.
func (g *Gateway) keysStay(ctx context.Context, t meta.Topic) error {
	groups, err := g.store.OrderedByKey(ctx, t.ID)
	if err != nil || len(groups) == 0 {
		return err
	}
	return mqerr.New(mqerr.OrderedByKey, "group %s of topic %s orders by key; more partitions would move keys, and break their order "+
		"for what is not settled yet: let the group settle everything and say force=true (the command line: --force)", groups[0], t.Name)
}

// checkFixed refuses changes of what is decided when a topic is made; what the caller left open stays.
func checkFixed(have, want *mq.TopicSettings) error {
	var bad []error
	if want.Replicas == 0 {
		want.Replicas = have.Replicas
	}
	if want.Quorum == 0 {
		want.Quorum = have.Quorum
	}
	fixed := func(pointer string, have, want int) {
		if have != 0 && want != have {
			bad = append(bad, mq.FieldError{Pointer: pointer, Detail: "is fixed when the topic is made"})
		}
	}
	fixed("/replicas", have.Replicas, want.Replicas)
	fixed("/ack_quorum", have.Quorum, want.Quorum)
	if want.Partitions < have.Partitions {
		bad = append(bad, mq.FieldError{Pointer: "/partitions", Detail: fmt.Sprintf("can only grow: the topic has %d, not %d", have.Partitions, want.Partitions)})
	}
	return validation(errors.Join(bad...))
}

// handlePatchTopic changes some of a topic's settings.
func (g *Gateway) handlePatchTopic(c echo.Context) error {
	name, err := pathName(c, "topic")
	if err != nil {
		return err
	}
	cond, body, wait, err := g.readTopicChange(c)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return mqerr.New(mqerr.InvalidJSON, "the body must be a JSON merge patch")
	}
	if cond.dry {
		return g.previewTopic(c, name, &cond, func(have *mq.TopicSettings) (mq.TopicSettings, error) {
			if have == nil {
				return mq.TopicSettings{}, mqerr.New(mqerr.TopicNotFound, "topic %q", name)
			}
			return topicSettings(*have, body)
		})
	}
	ctx := c.Request().Context()
	for range maxConfigTries {
		have, err := g.store.GetTopic(ctx, name)
		if err != nil {
			return err
		}
		want, err := topicSettings(have.Settings, body)
		if err != nil {
			return err
		}
		t, err := g.changeTopic(ctx, have, want, &cond)
		if mqerr.Is(err, mqerr.PreconditionFailed) && !cond.exact() && !cond.createOnly {
			continue
		}
		if err != nil {
			return err
		}
		return g.answerChanged(c, t, false, wait)
	}
	return mqerr.New(mqerr.MetadataUnavailable, "topic %q keeps changing", name)
}

// answerChanged waits until the topic serves, at most as long as the caller wants, and answers it. A topic
// that does not serve yet is made all the same: its state says so.
func (g *Gateway) answerChanged(c echo.Context, t meta.Topic, created bool, wait time.Duration) error {
	ctx := c.Request().Context()
	g.showIn(ctx, func(v *meta.View) bool {
		have, ok := v.Topic(t.Name)
		return !ok && !created || have.Revision >= t.Revision
	})
	if len(g.view.Nodes()) < t.Settings.Quorum { // one that comes this late is waited for by the next call
		wait = min(wait, shortWait)
	}
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_ = g.view.WaitFor(waitCtx, func(v *meta.View) bool { return led(v, t) })
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, "/v1/topics/"+t.Name)
	}
	// A leader that etcd names begins to lead a moment later, and only then takes messages.
	about := g.describeTopic(ctx, t)
	for about.State == api.StateOpening && pause(waitCtx, takeOverPoll) {
		about = g.describeTopic(ctx, t)
	}
	return writeTopic(c, status, t, about)
}

// shortWait is how long a change waits for leaders where too few log nodes are registered; the answer says so then.
const shortWait = time.Second

// takeOverPoll is how often a leader that was just named is asked whether it leads.
const takeOverPoll = 25 * time.Millisecond

// pause passes the time, and says whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// led says whether every partition of a topic has a leader that lives.
func led(v *meta.View, t meta.Topic) bool {
	heads := v.Heads(t.ID)
	for i := range heads {
		if !headLed(v, &heads[i]) {
			return false
		}
	}
	return len(heads) >= int(t.Settings.Partitions)
}

func headLed(v *meta.View, h *mq.Head) bool {
	if h.Open == nil {
		return false
	}
	n, ok := v.Node(h.Open.LeaderNode())
	return ok && n.Incarnation() == h.Open.Leader
}

// handleGetTopic answers one topic.
func (g *Gateway) handleGetTopic(c echo.Context) error {
	name, err := pathName(c, "topic")
	if err != nil {
		return err
	}
	t, err := g.currentTopic(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return g.answerTopic(c, http.StatusOK, t)
}

func (g *Gateway) answerTopic(c echo.Context, status int, t meta.Topic) error {
	return writeTopic(c, status, t, g.describeTopic(c.Request().Context(), t))
}

func writeTopic(c echo.Context, status int, t meta.Topic, about api.Topic) error {
	c.Response().Header().Set("ETag", etag(t.Revision))
	return answerJSON(c, status, about)
}

// handleListTopics answers the topics by name, a page at a time.
func (g *Gateway) handleListTopics(c echo.Context) error {
	limit, err := queryLimit(c)
	if err != nil {
		return err
	}
	after, err := g.queryCursor(c, cursor.Topics, "")
	if err != nil {
		return err
	}
	page, more := pageAfter(g.view.Topics(), string(after), limit, func(t meta.Topic) string { return t.Name })
	out := api.TopicList{Topics: g.summarizeTopics(c.Request().Context(), page)}
	if more {
		if out.NextCursor, err = g.sealCursor(cursor.Topics, "", []byte(page[len(page)-1].Name)); err != nil {
			return err
		}
	}
	return answerJSON(c, http.StatusOK, out)
}

// pageAfter cuts a page out of a list that is sorted by name: the names after a given one.
func pageAfter[T any](all []T, after string, limit int, name func(T) string) (page []T, more bool) {
	start := 0
	for start < len(all) && name(all[start]) <= after {
		start++
	}
	end := min(start+limit, len(all))
	return all[start:end], end < len(all)
}

// handleDeleteTopic deletes a topic, or says what that would remove.
func (g *Gateway) handleDeleteTopic(c echo.Context) error {
	name, err := pathName(c, "topic")
	if err != nil {
		return err
	}
	r, err := readRemoval(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := g.store.GetTopic(ctx, name)
	if err != nil {
		return err
	}
	if err := r.onFound("topic", name, t.Revision); err != nil {
		return err
	}
	about := g.describeTopic(ctx, t)
	out := api.Deletion{DryRun: r.dry, Topic: name, Messages: about.Messages, Bytes: about.Bytes, Partial: about.Partial}
	for _, group := range g.view.Groups(t.ID) {
		out.Groups = append(out.Groups, group.Name)
	}
	if !r.dry {
		if err := g.store.DeleteTopic(ctx, name, r.revision(t.Revision)); err != nil {
			return err
		}
		g.showIn(ctx, func(v *meta.View) bool {
			have, ok := v.Topic(name)
			return !ok || have.ID != t.ID
		})
	}
	return answerJSON(c, http.StatusOK, out)
}
