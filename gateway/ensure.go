package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// topicToPublish finds the topic that is published to, and makes it if there is none and that is allowed.
func (g *Gateway) topicToPublish(ctx context.Context, name string) (meta.Topic, error) {
	if t, ok := g.view.Topic(name); ok {
		return t, nil
	}
	return shared(ctx, g, "topic/"+name, func(ctx context.Context) (meta.Topic, error) {
		t, err := g.store.GetTopic(ctx, name)
		if !mqerr.Is(err, mqerr.TopicNotFound) || !g.cfg.AutoCreate {
			return t, err
		}
		settings := mq.DefaultTopicSettings()
		if err := g.roomForPartitions(settings.Partitions); err != nil {
			return t, err
		}
		t, err = g.store.CreateTopic(ctx, name, settings)
		if mqerr.Is(err, mqerr.AlreadyExists) {
			return g.store.GetTopic(ctx, name)
		}
		if err == nil { // as for a group below
			g.showIn(ctx, func(v *meta.View) bool { _, ok := v.Topic(name); return ok })
		}
		return t, err
	})
}

// groupToUse finds a group that has started, or makes it with the topic's defaults (first use). The groups of
// webhooks are nobody else's to use.
func (g *Gateway) groupToUse(ctx context.Context, t meta.Topic, name string) (meta.Group, error) {
	if err := notOfWebhook(name); err != nil {
		return meta.Group{}, err
	}
	if gr, ok := g.view.Group(t.ID, name); ok && gr.Started {
		return gr, nil
	}
	return shared(ctx, g, fmt.Sprintf("group/%d/%s", t.ID, name), func(ctx context.Context) (meta.Group, error) {
		gr, err := g.store.GetGroup(ctx, t.ID, name)
		if mqerr.Is(err, mqerr.GroupNotFound) {
			gr, err = g.store.CreateGroup(ctx, t.ID, name, t.Settings.GroupDefaults)
			if mqerr.Is(err, mqerr.AlreadyExists) {
				gr, err = g.store.GetGroup(ctx, t.ID, name)
			}
		}
		if err != nil || gr.Started {
			return gr, err
		}
		return g.ensureGroup(ctx, t, gr)
	})
}

// ensureGroup has every partition's leader record the group as it is, and marks it started if it was not.
// Until a group has started nothing is received: what is published between would be before the start in one
// partition and after it in another.
func (g *Gateway) ensureGroup(ctx context.Context, t meta.Topic, gr meta.Group) (meta.Group, error) {
	if err := g.tellGroup(ctx, gr, allPartitions(t), !gr.Started); err != nil || gr.Started {
		return gr, err
	}
	gr, err := g.store.MarkStarted(ctx, t.ID, gr.Name, gr.ID)
	if err == nil { // who used it may use it again, also if the coordinators go away right now
		g.showIn(ctx, func(v *meta.View) bool {
			now, ok := v.Group(t.ID, gr.Name)
			return ok && now.Started
		})
	}
	return gr, err
}

// tellGroup sends a group's settings to the leaders of partitions, and again to those that could not take
// them until ctx ends. first says that the partitions may not know the group because it is new.
func (g *Gateway) tellGroup(ctx context.Context, gr meta.Group, parts []mq.PartitionID, first bool) error {
	settings, err := json.Marshal(gr.Settings)
	if err != nil {
		return err
	}
	wire := &mqpb.Group{Id: uint64(gr.ID), Name: gr.Name, Version: gr.Version, Settings: settings, Paused: gr.Paused}
	changes, cancel := g.view.Subscribe()
	defer cancel()
	var why error // why not, from a round that was not cut short
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		answers := askLeaders(ctx, g, parts, func(ctx context.Context, c mqpb.LogNodeClient, ps []*mqpb.Partition) ([]*mqpb.PartitionResult, error) {
			r, err := c.EnsureGroup(ctx, &mqpb.EnsureGroupRequest{Partitions: ps, Group: wire, FirstUse: first})
			return r.GetResults(), err
		})
		var last error
		parts = parts[:0:0]
		for p, a := range answers {
			if a.err != nil && !asError(a.err).Code.Retryable() {
				return a.err
			}
			if a.err != nil {
				parts, last = append(parts, p), a.err
				if g.router.Hopeless(p) != nil {
					return a.err
				}
			}
		}
		if last == nil {
			return nil
		}
		if ctx.Err() == nil || why == nil {
			why = last
		}
		if !waitForChange(ctx, changes, pause) {
			return why
		}
	}
}

// relearn is for a leader that does not know a group: if the group lives, the leader is told of it. This
// happens where a partition is newer than the group.
func (g *Gateway) relearn(ctx context.Context, gr meta.Group, p mq.PartitionID) error {
	now, err := g.store.GetGroup(ctx, gr.Topic, gr.Name)
	if err != nil {
		return err
	}
	if now.ID != gr.ID {
		return mqerr.New(mqerr.GroupNotFound, "group %s was deleted and made again", gr.Name)
	}
	return g.tellGroup(ctx, now, []mq.PartitionID{p}, false)
}

func allPartitions(t meta.Topic) []mq.PartitionID {
	out := make([]mq.PartitionID, t.Settings.Partitions)
	for n := range out {
		out[n] = mq.PartitionID{Topic: t.ID, Number: uint32(n)}
	}
	return out
}
