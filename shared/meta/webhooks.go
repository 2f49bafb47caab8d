package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Webhook is the record of a webhook under /webhooks/<topic id>/<name>. Behind it stands a group
// (mq.WebhookGroup), which is made, changed and deleted in the same transactions; whether it is paused is in the
// group's record only.
type Webhook struct {
	Topic    mq.TopicID         `json:"topic"`
	Name     string             `json:"name"`
	Group    mq.GroupID         `json:"group"`
	Settings mq.WebhookSettings `json:"settings"`
	// Secrets sign what is sent, the newest first; the second one is that of before a rotation.
	Secrets []WebhookSecret `json:"secrets"`
	// Disabled says why the group was paused by the program itself.
	Disabled *WebhookDisabled `json:"disabled,omitempty"`
	Created  time.Time        `json:"created"`
	// Revision is the key's ModRevision when this value was read (ETag, If-Match); not stored.
	Revision int64 `json:"-"`
}

// WebhookSecret is one secret as text. Its String says which one it is without showing it.
type WebhookSecret struct {
	Secret  string    `json:"secret"`
	Created time.Time `json:"created"`
	Until   time.Time `json:"until,omitzero"` // when it ends to sign; zero: not yet known
}

// String and GoString keep the secret out of logs.
func (s WebhookSecret) String() string { return "secret " + mq.SecretFingerprint(s.Secret) }

// GoString is String, for %#v.
func (s WebhookSecret) GoString() string { return s.String() }

// WebhookDisabled is why and when a webhook was disabled.
type WebhookDisabled struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// GetWebhook reads a webhook linearizably: WebhookNotFound if there is none.
func (s *Store) GetWebhook(ctx context.Context, topic mq.TopicID, name string) (Webhook, error) {
	w, err := s.readWebhook(ctx, topic, name)
	if err == nil && w.Revision == 0 {
		return Webhook{}, mqerr.New(mqerr.WebhookNotFound, "webhook %q of this topic", name)
	}
	return w, err
}

func (s *Store) readWebhook(ctx context.Context, topic mq.TopicID, name string) (w Webhook, err error) {
	w.Revision, err = s.get(ctx, webhookKey(topic, name), &w)
	return w, err
}

// webhookPair is a webhook's key and its group's, which change together.
type webhookPair struct {
	hook  Webhook
	group Group
}

// putWebhook writes both keys if they are at the given revisions and the topic is not deleted.
func (s *Store) putWebhook(ctx context.Context, p *webhookPair, hookAt, groupAt int64) (bool, error) {
	hook, err := encode(p.hook)
	if err != nil {
		return false, err
	}
	group, err := encode(p.group)
	if err != nil {
		return false, err
	}
	hookKey, gKey, tomb := webhookKey(p.hook.Topic, p.hook.Name), groupKey(p.group.Topic, p.group.Name), deletedKey(p.hook.Topic)
	ok, at, err := s.commit(ctx, "writing webhook "+p.hook.Name,
		[]clientv3.Cmp{unchanged(hookKey, hookAt), unchanged(gKey, groupAt), unchanged(tomb, 0)},
		clientv3.OpPut(hookKey, hook), clientv3.OpPut(gKey, group))
	if err != nil {
		return false, err
	}
	if ok {
		p.hook.Revision, p.group.Revision = at, at
		return true, nil
	}
	var t Topic
	if r, err := s.get(ctx, tomb, &t); err == nil && r != 0 {
		return false, mqerr.New(mqerr.TopicNotFound, "topic %q is deleted", t.Name)
	}
	return false, nil
}

// CreateWebhook makes a webhook with its group: AlreadyExists if one of this name lives. The caller then tells every
// partition's leader of the group, as with CreateGroup.
func (s *Store) CreateWebhook(ctx context.Context, topic mq.TopicID, name string, settings mq.WebhookSettings, secret string) (Webhook, Group, error) {
	id, err := s.NextID(ctx, GroupIDs)
	if err != nil {
		return Webhook{}, Group{}, err
	}
	now := time.Now().UTC()
	want := webhookPair{
		hook: Webhook{Topic: topic, Name: name, Group: mq.GroupID(id), Settings: settings, Created: now,
			Secrets: []WebhookSecret{{Secret: secret, Created: now}}},
		group: Group{ID: mq.GroupID(id), Topic: topic, Name: mq.WebhookGroup(name), Version: 1, Settings: settings.GroupSettings(), Created: now},
	}
	for range maxSwaps {
		have, err := s.readWebhook(ctx, topic, name)
		if err != nil {
			return Webhook{}, Group{}, err
		}
		old, err := s.readGroup(ctx, topic, want.group.Name)
		switch {
		case err != nil:
			return Webhook{}, Group{}, err
		case have.Revision != 0 && have.Group == want.hook.Group:
			return have, old, nil // an earlier try of unknown outcome was carried out
		case have.Revision != 0:
			return Webhook{}, Group{}, mqerr.New(mqerr.AlreadyExists, "webhook %q of this topic", name)
		}
		ok, err := s.putWebhook(ctx, &want, 0, old.Revision)
		if ok {
			return want.hook, want.group, nil
		}
		if err != nil && (ctx.Err() != nil || mqerr.Is(err, mqerr.TopicNotFound)) {
			return Webhook{}, Group{}, err
		}
	}
	return Webhook{}, Group{}, mqerr.New(mqerr.MetadataUnavailable, "creating webhook %q: no try in %d came through", name, maxSwaps)
}

// UpdateWebhook changes a webhook, and its group with it: change is called with what is there, perhaps more than
// once, and may refuse with an error; of the group it may change Paused. ifRevision must be the webhook's Revision
// (else PreconditionFailed), or 0 for whatever is there. The caller then tells every partition's leader of the group.
func (s *Store) UpdateWebhook(ctx context.Context, topic mq.TopicID, name string, ifRevision int64, change func(*Webhook, *Group) error) (Webhook, Group, error) {
	for range maxSwaps {
		hook, err := s.GetWebhook(ctx, topic, name)
		if err != nil {
			return Webhook{}, Group{}, err
		}
		if ifRevision != 0 && ifRevision != hook.Revision {
			return Webhook{}, Group{}, mqerr.New(mqerr.PreconditionFailed, "webhook %q is at revision %d, not %d", name, hook.Revision, ifRevision)
		}
		group, err := s.readGroup(ctx, topic, mq.WebhookGroup(name))
		if err != nil {
			return Webhook{}, Group{}, err
		}
		if group.ID != hook.Group || group.Deleted {
			continue // deleted and made again between the two reads
		}
		want := webhookPair{hook: hook, group: group}
		if err := change(&want.hook, &want.group); err != nil {
			return Webhook{}, Group{}, err
		}
		want.hook.Topic, want.hook.Name, want.hook.Group = hook.Topic, hook.Name, hook.Group
		if !reflect.DeepEqual(want.hook.Settings, hook.Settings) {
			want.group.Settings = want.hook.Settings.GroupSettings()
		}
		if reflect.DeepEqual(want, webhookPair{hook, group}) {
			return hook, group, nil // also what an earlier try of unknown outcome left
		}
		if want.group.Paused != group.Paused || !reflect.DeepEqual(want.group.Settings, group.Settings) {
			want.group.Version = group.Version + 1
		}
		ok, err := s.putWebhook(ctx, &want, hook.Revision, group.Revision)
		if ok {
			return want.hook, want.group, nil
		}
		if err != nil && (ctx.Err() != nil || ifRevision != 0 || mqerr.Is(err, mqerr.TopicNotFound)) {
			return Webhook{}, Group{}, err
		}
	}
	return Webhook{}, Group{}, mqerr.New(mqerr.MetadataUnavailable, "updating webhook %q: no try in %d came through", name, maxSwaps)
}

// DeleteWebhook removes a webhook and marks its group as deleted, which it returns: the caller then tells every
// partition's leader. ifRevision as in UpdateWebhook.
func (s *Store) DeleteWebhook(ctx context.Context, topic mq.TopicID, name string, ifRevision int64) (Group, error) {
	for try := range maxSwaps {
		hook, err := s.readWebhook(ctx, topic, name)
		if err != nil {
			return Group{}, err
		}
		group, err := s.readGroup(ctx, topic, mq.WebhookGroup(name))
		switch {
		case err != nil:
			return Group{}, err
		case hook.Revision == 0 && try > 0:
			return group, nil // an earlier try of unknown outcome was carried out, or somebody else's
		case hook.Revision == 0:
			return Group{}, mqerr.New(mqerr.WebhookNotFound, "webhook %q of this topic", name)
		case ifRevision != 0 && ifRevision != hook.Revision:
			return Group{}, mqerr.New(mqerr.PreconditionFailed, "webhook %q is at revision %d, not %d", name, hook.Revision, ifRevision)
		}
		group.Deleted = true
		value, err := encode(group)
		if err != nil {
			return Group{}, err
		}
		hookKey, gKey := webhookKey(topic, name), groupKey(topic, group.Name)
		ok, _, err := s.commit(ctx, "deleting webhook "+name,
			[]clientv3.Cmp{unchanged(hookKey, hook.Revision), unchanged(gKey, group.Revision)},
			clientv3.OpDelete(hookKey), clientv3.OpPut(gKey, value))
		if ok {
			return group, nil
		}
		if err != nil && ctx.Err() != nil {
			return Group{}, err
		}
	}
	return Group{}, mqerr.New(mqerr.MetadataUnavailable, "deleting webhook %q: no try in %d came through", name, maxSwaps)
}

// WithWebhooks makes the view hold webhooks, which only gateways need.
func WithWebhooks(v *View) { v.kinds = append(v.kinds, v.data.webhookKind()) }

func (d *data) webhookKind() *kind {
	return withMods(&kind{
		prefix: prefixWebhooks,
		set: func(rest string, value []byte, revision int64) error {
			var w Webhook
			if err := json.Unmarshal(value, &w); err != nil {
				return err
			}
			if prefixWebhooks+rest != webhookKey(w.Topic, w.Name) {
				return fmt.Errorf("it is of webhook %q of topic %d", w.Name, w.Topic)
			}
			w.Revision = revision
			d.webhooks[rest] = w
			return nil
		},
		unset: func(rest string) { delete(d.webhooks, rest) },
	})
}

// Webhook finds a webhook by name.
func (v *View) Webhook(topic mq.TopicID, name string) (Webhook, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	w, ok := v.data.webhooks[webhookKey(topic, name)[len(prefixWebhooks):]]
	return w, ok
}

// Webhooks are all webhooks, by topic id and name; none without WithWebhooks.
func (v *View) Webhooks() []Webhook {
	out := read(v, func(d *data) []Webhook { return values(d.webhooks) })
	sort.Slice(out, func(i, j int) bool {
		if out[i].Topic != out[j].Topic {
			return out[i].Topic < out[j].Topic
		}
		return out[i].Name < out[j].Name
	})
	return out
}

// DeadLetterGroups are the living groups whose dead letters are published to a topic, in no order.
func (v *View) DeadLetterGroups() []Group {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []Group
	for _, g := range v.data.groups {
		if !g.Deleted && g.Started && g.Settings.DeadLetterTopic != "" {
			out = append(out, g)
		}
	}
	return out
}
