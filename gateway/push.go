package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/splashdam/splashdam/gateway/internal/push"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// webhooksGap is the least time between two looks at which webhooks there are.
	webhooksGap = 20 * time.Millisecond
	// disablePause is the time between two tries to disable a webhook.
	disablePause = time.Second
)

// pushSource is where the engine of webhooks gets its messages: it is a consumer like any other, with this gateway
// as its name.
func (g *Gateway) pushSource() push.Source {
	return push.Source{Fetch: g.pushFetch, Return: g.pushReturn, Settle: g.pushSettle, Disable: g.pushDisable}
}

// followWebhooks tells the engine, until ctx ends, which webhooks there are and which of their partitions this
// gateway owns.
func (g *Gateway) followWebhooks(ctx context.Context) {
	changes, cancel := g.view.Subscribe()
	defer cancel()
	for {
		g.applyWebhooks()
		if !pause(ctx, webhooksGap) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
	}
}

// applyWebhooks tells the engine what the view shows. A call that has changed a webhook does so before it answers: what this gateway
// sends from then on is sent, and signed, as was answered.
func (g *Gateway) applyWebhooks() {
	g.hooked.mu.Lock()
	defer g.hooked.mu.Unlock()
	if g.hooked.known == nil {
		g.hooked.known = map[mq.GroupID]knownHook{}
	}
	g.push.Apply(g.hooks(g.hooked.known))
}

// hooked is what the engine was told last.
type hooked struct {
	mu    sync.Mutex // held until the engine is told, so that it is told nothing older afterwards
	known map[mq.GroupID]knownHook
}

// knownHook is a hook with what it was made from; while that stays, so does the hook.
type knownHook struct {
	hook  *push.Hook
	basis hookBasis
}

type hookBasis struct {
	webhook, group, assignment, topic int64 // revisions
}

// hooks are all webhooks of which this gateway owns partitions. known is what the last call found; it is brought up
// to date.
func (g *Gateway) hooks(known map[mq.GroupID]knownHook) []*push.Hook {
	var out []*push.Hook
	all := g.view.Webhooks()
	seen := make(map[mq.GroupID]bool, len(all))
	for i := range all {
		w := &all[i]
		t, ok := g.view.TopicByID(w.Topic)
		if !ok || t.Deleted {
			continue
		}
		gr, ok := g.view.Group(w.Topic, mq.WebhookGroup(w.Name))
		if !ok || gr.ID != w.Group {
			continue // its own watch will show it
		}
		a, _ := g.view.Assignment(w.Group)
		now := hookBasis{w.Revision, gr.Revision, a.Revision, t.Revision}
		k := known[w.Group]
		if k.hook == nil || k.basis != now {
			mine, _ := a.Of(g.cfg.Name)
			k = knownHook{g.hookOf(t, &gr, w, mine.Partitions), now}
			known[w.Group] = k
		}
		seen[w.Group] = true
		if len(k.hook.Partitions) > 0 {
			out = append(out, k.hook)
		}
	}
	for id := range known {
		if !seen[id] {
			delete(known, id)
		}
	}
	return out
}

// hookOf is a webhook as the engine needs it.
func (g *Gateway) hookOf(t meta.Topic, gr *meta.Group, w *meta.Webhook, partitions []uint32) *push.Hook {
	h := &push.Hook{TopicID: t.ID, Topic: t.Name, Name: w.Name, GroupID: gr.ID, Group: gr.Name, Revision: w.Revision,
		Settings: w.Settings, Paused: gr.Paused, Private: g.cfg.WebhooksAllowPrivate, Total: t.Settings.Partitions}
	for _, p := range partitions {
		if p < h.Total {
			h.Partitions = append(h.Partitions, p)
		}
	}
	for _, s := range w.Secrets {
		key, err := mq.ParseWebhookSecret(s.Secret)
		if err != nil {
			g.log.Error("a webhook's secret can't be read", "topic", t.Name, "webhook", w.Name, "error", err)
			continue
		}
		h.Secrets = append(h.Secrets, push.Secret{Key: key, Until: s.Until})
	}
	return h
}

// pushFetch leases messages for a webhook, waiting for some, and first for the time: endpoints refuse a stamp that is off, and which
// secrets sign goes by it.
func (g *Gateway) pushFetch(ctx context.Context, h *push.Hook, most, bytes int) ([]push.Delivery, error) {
	if err := g.knowTime(ctx); err != nil {
		return nil, err
	}
	t, ok := g.view.TopicByID(h.TopicID)
	if !ok || t.Deleted {
		return nil, mqerr.New(mqerr.TopicNotFound, "topic %s was deleted", h.Topic)
	}
	gr, err := g.startedGroup(ctx, t, h)
	if err != nil {
		return nil, err
	}
	r := &receive{g: g, topic: t, group: gr, max: uint32(most), maxBytes: uint32(max(1, bytes)), wait: mq.MaxWait,
		consumer: g.cfg.Name, member: membership{name: g.cfg.Name, wanted: h.Partitions}}
	err = r.collect(ctx)
	var out []push.Delivery
	if err == nil {
		out, err = r.deliveries()
	}
	if err != nil {
		return nil, r.undo(err)
	}
	return out, nil
}

// startedGroup is the group of a webhook, which is started here if whoever made it did not get so far.
func (g *Gateway) startedGroup(ctx context.Context, t meta.Topic, h *push.Hook) (meta.Group, error) {
	gr, ok := g.view.Group(t.ID, h.Group)
	switch {
	case !ok || gr.ID != h.GroupID:
		return gr, mqerr.New(mqerr.GroupNotFound, "webhook %s was deleted", h.Name)
	case gr.Started:
		return gr, nil
	}
	return shared(ctx, g, fmt.Sprintf("group/%d/%s", t.ID, h.Group), func(ctx context.Context) (meta.Group, error) {
		return g.ensureGroup(ctx, t, gr)
	})
}

// deliveries are the messages that were handed over, as the engine takes them. They are not confirmed: if this
// gateway dies before it has settled them, the leaders take them back at once, uncounted.
func (r *receive) deliveries() ([]push.Delivery, error) {
	if r.count == 0 {
		return nil, nil
	}
	number, secret := r.g.view.NewestSecret()
	if secret == nil {
		return nil, mqerr.New(mqerr.MetadataUnavailable, "the cluster has no secrets yet")
	}
	signer := mq.NewReceiptSigner(number, secret)
	out := make([]push.Delivery, 0, r.count)
	err := r.each(func(h *handed, m *mq.Message, at *given) {
		receipt := r.receipt(h, at)
		d := push.Delivery{ID: at.id, Offset: at.offset, Message: *m, Stamp: at.stamp, Attempt: at.run.Attempt,
			Receipt: signer.AppendRaw(nil, &receipt), Fence: string(api.AppendFence(nil, receipt.Segment, receipt.Counter)), Source: h}
		// An attempt may take minutes, and must hold no more than its message: the answer that it came in is as large as the
		// batch that it was published in.
		d.Message.Key, d.Message.Value, d.Message.Headers = bytes.Clone(m.Key), bytes.Clone(m.Value), slices.Clone(m.Headers)
		out = append(out, d)
	})
	for i := range r.got {
		r.got[i].Chunks = nil
	}
	return out, err
}

// pushReturn gives deliveries back uncounted. On an ended stream there is nobody to tell: the node took them back.
func (g *Gateway) pushReturn(h *push.Hook, deliveries []push.Delivery) {
	offsets := map[*handed][]uint64{}
	for i := range deliveries {
		from := deliveries[i].Source.(*handed)
		offsets[from] = append(offsets[from], deliveries[i].Offset)
	}
	for from, back := range offsets {
		_ = from.session.Return(from.partition, h.GroupID, from.handover, back)
	}
}

// pushSettle settles deliveries, all partitions at once. A settlement that is repeated finds its own first one and is
// called stale: that is success too, so every one may be sent again until ctx ends.
func (g *Gateway) pushSettle(ctx context.Context, h *push.Hook, all []push.Settlement) {
	byPartition := map[mq.PartitionID][]frame.SettleItem{}
	for i := range all {
		byPartition[all[i].Partition] = append(byPartition[all[i].Partition], all[i].Item)
	}
	var wg sync.WaitGroup
	for p, items := range byPartition {
		wg.Go(func() {
			if _, err := g.router.Call(ctx, p, frame.TypeSettle, &frame.Settle{Partition: p, Items: items}); err != nil {
				g.log.Warn("attempts of a webhook could not be settled; their leases run out", "topic", h.Topic, "webhook", h.Name,
					"partition", p.Number, "attempts", len(items), "error", err)
			}
		})
	}
	wg.Wait()
}

// pushDisable pauses a webhook whose endpoint is gone for good, and notes why, unless its endpoint was changed meanwhile.
func (g *Gateway) pushDisable(ctx context.Context, h *push.Hook, reason string) {
	for ctx.Err() == nil {
		err := g.disableOnce(ctx, h, reason)
		switch code := mqerr.Of(err); {
		case err == nil:
			g.log.Warn("a webhook is disabled", "topic", h.Topic, "webhook", h.Name, "reason", reason)
			return
		case code.Code == mqerr.WebhookNotFound || code.Code == mqerr.TopicNotFound:
			return
		}
		g.log.Info("a webhook could not be disabled yet", slog.String("webhook", h.Name), slog.Any("error", err))
		pause(ctx, disablePause)
	}
}

func (g *Gateway) disableOnce(ctx context.Context, h *push.Hook, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.RequestTimeout)
	defer cancel()
	_, gr, err := g.store.UpdateWebhook(ctx, h.TopicID, h.Name, 0, func(w *meta.Webhook, gr *meta.Group) error {
		if w.Group == h.GroupID && w.Settings.URL == h.Settings.URL && w.Disabled == nil {
			gr.Paused = true
			w.Disabled = &meta.WebhookDisabled{At: g.clock.now().UTC(), Reason: reason}
		}
		return nil
	})
	if err != nil {
		return err
	}
	t, ok := g.view.TopicByID(h.TopicID)
	if !ok || t.Deleted {
		return nil
	}
	_, err = g.ensureGroup(ctx, t, gr)
	return err
}
