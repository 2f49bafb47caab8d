package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// compareSettings tells which settings are others in want than in have, by pointer. removes are the pointers of those whose
// change removes something that is kept.
func compareSettings(have, want any, removes ...string) ([]api.SettingChange, error) {
	before, after := map[string]any{}, map[string]any{}
	for _, s := range []struct {
		settings any
		into     map[string]any
	}{{have, before}, {want, after}} {
		b, err := json.Marshal(s.settings)
		if err != nil {
			return nil, err
		}
		var tree map[string]any
		if err := json.Unmarshal(b, &tree); err != nil {
			return nil, err
		}
		flatten(s.into, "", tree)
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	out := []api.SettingChange{}
	for _, pointer := range slices.Sorted(maps.Keys(all)) {
		if from, to := before[pointer], after[pointer]; !reflect.DeepEqual(from, to) {
			out = append(out, api.SettingChange{Setting: pointer, From: from, To: to, Removes: slices.Contains(removes, pointer)})
		}
	}
	return out, nil
}

// flatten writes the leaves of a tree by JSON pointer (RFC 6901); lists are leaves.
func flatten(into map[string]any, at string, tree map[string]any) {
	for name, v := range tree {
		pointer := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if sub, ok := v.(map[string]any); ok {
			flatten(into, pointer, sub)
		} else if v != nil {
			into[pointer] = v
		}
	}
}

// tightened names the limits (0: none) that are lower than they were.
func tightened[T int | int64 | mq.Duration](pointer string, have, want T) []string {
	if want > 0 && (have == 0 || want < have) {
		return []string{pointer}
	}
	return nil
}

// removedByTopic are the settings of a topic whose change removes messages.
func removedByTopic(have, want *mq.TopicSettings) []string {
	out := slices.Concat(tightened("/retention/time", have.Retention.Time, want.Retention.Time),
		tightened("/retention/bytes", have.Retention.Bytes, want.Retention.Bytes))
	if have.Retention.KeepUnsettled && !want.Retention.KeepUnsettled {
		out = append(out, "/retention/keep_unsettled")
	}
	return out
}

// removedByGroup are the settings of a group whose change removes dead letters.
func removedByGroup(have, want *mq.GroupSettings) []string {
	return slices.Concat(tightened("/dead/max_count", have.Dead.MaxCount, want.Dead.MaxCount),
		tightened("/dead/max_age", have.Dead.MaxAge, want.Dead.MaxAge),
		tightened("/dead/max_bytes", have.Dead.MaxBytes, want.Dead.MaxBytes))
}

// previewTopic answers what a PUT or PATCH of a topic would change. want makes the wanted settings of those that are
// there; nil for no topic.
func (g *Gateway) previewTopic(c echo.Context, name string, cond *precondition, want func(have *mq.TopicSettings) (mq.TopicSettings, error)) error {
	ctx := c.Request().Context()
	out := api.ConfigChange{DryRun: true, Topic: name, Changes: []api.SettingChange{}}
	have, err := g.store.GetTopic(ctx, name)
	if mqerr.Is(err, mqerr.TopicNotFound) {
		settings, wantErr := want(nil)
		if wantErr != nil {
			return wantErr
		}
		if err := cond.onMissing("topic", name); err != nil {
			return err
		}
		if err := g.mayMake(&settings); err != nil {
			return err
		}
		out.Created = true
		return answerJSON(c, http.StatusOK, out)
	}
	if err != nil {
		return err
	}
	settings, err := want(&have.Settings)
	if err != nil {
		return err
	}
	if err := g.checkChange(ctx, have, &settings, cond); err != nil {
		return err
	}
	removes := removedByTopic(&have.Settings, &settings)
	if out.Changes, err = compareSettings(have.Settings, settings, removes...); err != nil {
		return err
	}
	if len(removes) > 0 {
		if out.Removal, err = g.previewRemoval(ctx, have, &settings); err != nil {
			return err
		}
	}
	return answerJSON(c, http.StatusOK, out)
}

// previewRemoval asks the leaders of a topic what retention would remove by other settings.
func (g *Gateway) previewRemoval(ctx context.Context, t meta.Topic, want *mq.TopicSettings) (*api.Removal, error) {
	settings, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	parts := allPartitions(t)
	figures := g.figuresFor(ctx, parts, settings)
	out := &api.Removal{Partitions: []api.PartitionRemoval{}}
	for _, p := range parts {
		one := api.PartitionRemoval{Partition: p.Number}
		f := figures[p]
		if f.err == nil && f.answer.GetRemoval() == nil {
			f.err = mqerr.New(mqerr.NoLeader, "the node that leads the partition is of a version that can't tell")
		}
		if f.err != nil {
			out.Partial, one.Error = true, api.ItemErrorOf(f.err)
		} else {
			r := f.answer.GetRemoval()
			one.Segments, one.Messages, one.Bytes, one.KeptFor = r.GetSegments(), r.GetMessages(), r.GetBytes(), r.GetKeptFor()
			out.Segments, out.Messages, out.Bytes = out.Segments+one.Segments, out.Messages+one.Messages, out.Bytes+one.Bytes
		}
		out.Partitions = append(out.Partitions, one)
	}
	return out, nil
}

// previewGroup answers what a PUT of a group would change.
func (g *Gateway) previewGroup(c echo.Context, t meta.Topic, name string, want mq.GroupSettings, startGiven bool, cond *precondition) error {
	out := api.ConfigChange{DryRun: true, Topic: t.Name, Group: name, Changes: []api.SettingChange{}}
	have, err := g.store.GetGroup(c.Request().Context(), t.ID, name)
	switch {
	case mqerr.Is(err, mqerr.GroupNotFound):
		if err := cond.onMissing("group", name); err != nil {
			return err
		}
		out.Created = true
		return answerJSON(c, http.StatusOK, out)
	case err != nil:
		return err
	}
	if err := replaceGroup(name, &have, &want, startGiven, cond); err != nil {
		return err
	}
	if out.Changes, err = compareSettings(have.Settings, want, removedByGroup(&have.Settings, &want)...); err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, out)
}

// previewWebhook answers what a PUT of a webhook would change; of headers it tells names, and that a value is another.
func (g *Gateway) previewWebhook(c echo.Context, t meta.Topic, name string, wish *webhookWish, cond *precondition) error {
	out := api.ConfigChange{DryRun: true, Topic: t.Name, Webhook: name, Changes: []api.SettingChange{}}
	have, err := g.store.GetWebhook(c.Request().Context(), t.ID, name)
	switch {
	case mqerr.Is(err, mqerr.WebhookNotFound):
		if err := g.webhookFits(t, name, wish, cond); err != nil {
			return err
		}
		out.Created = true
		return answerJSON(c, http.StatusOK, out)
	case err != nil:
		return err
	}
	if err := cond.onFound("webhook", name, have.Revision); err != nil {
		return err
	}
	before := have.Settings
	if err := wish.replace(&have); err != nil {
		return err
	}
	if out.Changes, err = compareSettings(before, have.Settings); err != nil {
		return err
	}
	for i := range out.Changes {
		if change := &out.Changes[i]; strings.HasPrefix(change.Setting, "/headers/") {
			change.From, change.To = hide(change.From), hide(change.To)
		}
	}
	return answerJSON(c, http.StatusOK, out)
}

// hide takes the place of a header's value, if there is one.
func hide(value any) any {
	if value == nil {
		return nil
	}
	return api.HiddenValue
}

// previewDrain answers what a drained node would have to give away.
func (g *Gateway) previewDrain(c echo.Context, name string) error {
	n, err := g.describeNode(c.Request().Context(), name, true)
	if err != nil {
		return err
	}
	n.DryRun = true
	return answerJSON(c, http.StatusOK, n)
}

// previewLeave answers which partitions the others would get of a member.
func (g *Gateway) previewLeave(c echo.Context, t meta.Topic, group *meta.Group, member string) error {
	out := api.MemberLeave{DryRun: true, Topic: t.Name, Group: group.Name, Member: member, Assignment: []uint32{}}
	_, out.Joined = g.view.Member(group.ID, member)
	a, _ := g.view.Assignment(group.ID)
	if own, ok := a.Of(member); ok && own.Partitions != nil {
		out.Assignment = own.Partitions
	}
	return answerJSON(c, http.StatusOK, out)
}
