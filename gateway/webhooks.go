package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"reflect"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// webhookRoutes are the calls that make, change and watch webhooks.
func (g *Gateway) webhookRoutes() []route {
	const hook = "/v1/topics/:topic/webhooks/:webhook"
	return []route{
		{http.MethodGet, "/v1/topics/:topic/webhooks", g.handleListWebhooks, nil},
		{http.MethodPut, hook, g.handlePutWebhook, []string{"dry_run"}},
		{http.MethodGet, hook, g.handleGetWebhook, nil},
		{http.MethodDelete, hook, g.handleDeleteWebhook, []string{"dry_run"}},
		{http.MethodPost, hook + "/pause", g.handlePauseWebhook, nil},
		{http.MethodPost, hook + "/resume", g.handleResumeWebhook, nil},
		{http.MethodPost, hook + "/rotate-secret", g.handleRotateSecret, []string{"dry_run"}},
		{http.MethodPost, hook + "/replay", g.handleReplayWebhook, []string{"dry_run"}},
		{http.MethodPost, hook + "/test", g.handleTestWebhook, nil},
		{http.MethodGet, hook + "/attempts", g.handleAttempts, []string{"limit", "message"}},
	}
}

// pathWebhook reads the names of a path, and the topic.
func (g *Gateway) pathWebhook(c echo.Context) (t meta.Topic, name string, err error) {
	topic, err := pathName(c, "topic")
	if err != nil {
		return t, "", err
	}
	if name, err = pathName(c, "webhook"); err != nil {
		return t, "", err
	}
	if len(name) > mq.MaxWebhookName {
		return t, "", badParameter("path/webhook", "the name of a webhook has at most %d bytes", mq.MaxWebhookName)
	}
	t, err = g.currentTopic(c.Request().Context(), topic)
	return t, name, err
}

// getWebhook reads a webhook and its group as etcd has them; while the coordinators are away, as this gateway
// knows them.
func (g *Gateway) getWebhook(ctx context.Context, t meta.Topic, name string) (w meta.Webhook, gr meta.Group, err error) {
	if w, err = g.store.GetWebhook(ctx, t.ID, name); err == nil {
		gr, err = g.store.GetGroup(ctx, t.ID, mq.WebhookGroup(name))
	}
	switch {
	case mqerr.Is(err, mqerr.MetadataUnavailable):
		known, ok := g.view.Webhook(t.ID, name)
		group, there := g.view.Group(t.ID, mq.WebhookGroup(name))
		if ok && there {
			return known, group, nil
		}
	case mqerr.Is(err, mqerr.WebhookNotFound) || mqerr.Is(err, mqerr.GroupNotFound):
		err = mqerr.New(mqerr.WebhookNotFound, "webhook %q of topic %q", name, t.Name)
	}
	return w, gr, err
}

// handlePutWebhook creates or replaces a webhook.
func (g *Gateway) handlePutWebhook(c echo.Context) error {
	cond, body, err := g.readReplacement(c)
	if err != nil {
		return err
	}
	wish, err := webhookSettings(body)
	if err != nil {
		return err
	}
	if err := g.checkReach(&wish.settings); err != nil {
		return err
	}
	t, name, err := g.pathWebhook(c)
	if err != nil {
		return err
	}
	group := wish.settings.GroupSettings()
	if err := validation(checkDeadLetterTopic("", t.Name, &group)); err != nil {
		return err
	}
	if cond.dry {
		return g.previewWebhook(c, t, name, &wish, &cond)
	}
	w, gr, created, err := g.putWebhook(c.Request().Context(), t, name, &wish, &cond)
	if err != nil {
		return err
	}
	status, secret := http.StatusOK, ""
	if created {
		status, secret = http.StatusCreated, w.Secrets[0].Secret
		c.Response().Header().Set(echo.HeaderLocation, "/v1/topics/"+t.Name+"/webhooks/"+name)
	}
	return g.tellWebhook(c, status, t, w, gr, secret)
}

// putWebhook makes a webhook, or gives it the wanted settings.
func (g *Gateway) putWebhook(ctx context.Context, t meta.Topic, name string, wish *webhookWish, cond *precondition) (w meta.Webhook, gr meta.Group, created bool, err error) {
	for range maxConfigTries {
		have, err := g.store.GetWebhook(ctx, t.ID, name)
		if mqerr.Is(err, mqerr.WebhookNotFound) {
			w, gr, err = g.createWebhook(ctx, t, name, wish, cond)
			if mqerr.Is(err, mqerr.AlreadyExists) && !cond.createOnly {
				continue
			}
			return w, gr, err == nil, err
		}
		if err != nil {
			return w, gr, false, err
		}
		if err := cond.onFound("webhook", name, have.Revision); err != nil {
			return w, gr, false, err
		}
		w, gr, err = g.store.UpdateWebhook(ctx, t.ID, name, have.Revision, func(w *meta.Webhook, _ *meta.Group) error { return wish.replace(w) })
		if mqerr.Is(err, mqerr.PreconditionFailed) && !cond.exact() || mqerr.Is(err, mqerr.WebhookNotFound) && !cond.mustExist {
			continue // it changed meanwhile, or was deleted
		}
		return w, gr, false, err
	}
	return w, gr, false, mqerr.New(mqerr.MetadataUnavailable, "webhook %q keeps changing", name)
}

func (g *Gateway) createWebhook(ctx context.Context, t meta.Topic, name string, wish *webhookWish, cond *precondition) (meta.Webhook, meta.Group, error) {
	if err := g.webhookFits(t, name, wish, cond); err != nil {
		return meta.Webhook{}, meta.Group{}, err
	}
	secret := wish.secret
	if secret == "" {
		secret = newWebhookSecret()
	}
	return g.store.CreateWebhook(ctx, t.ID, name, wish.settings, secret)
}

// webhookFits refuses what would be made of a webhook that is not there.
func (g *Gateway) webhookFits(t meta.Topic, name string, wish *webhookWish, cond *precondition) error {
	if err := cond.onMissing("webhook", name); err != nil {
		return err
	}
	if n := len(g.webhooksOf(t.ID)); n >= mq.MaxWebhooks {
		return mqerr.New(mqerr.ValidationFailed, "topic %q has %d webhooks, which is the most", t.Name, n)
	}
	_, err := unhide(&wish.settings, &mq.WebhookSettings{})
	return err
}

// newWebhookSecret makes a secret of 32 random bytes, as text.
func newWebhookSecret() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return mq.WebhookSecretText(key[:])
}

// replace gives a webhook the wanted settings.
func (wish *webhookWish) replace(w *meta.Webhook) error {
	if wish.startGiven && !sameStart(wish.settings.Start, w.Settings.Start) {
		return validation(mq.FieldError{Pointer: "/start", Detail: "counts when a webhook is made and can't change later"})
	}
	if wish.secret != "" && wish.secret != w.Secrets[0].Secret {
		return validation(mq.FieldError{Pointer: "/secret", Detail: "is another one than now; POST …/rotate-secret changes it"})
	}
	headers, err := unhide(&wish.settings, &w.Settings)
	if err != nil {
		return err
	}
	settings := wish.settings
	settings.Start, settings.Headers = w.Settings.Start, headers
	if !reflect.DeepEqual(settings, w.Settings) {
		w.Settings = settings
	}
	return nil
}

func (g *Gateway) webhooksOf(topic mq.TopicID) (out []meta.Webhook) {
	for _, w := range g.view.Webhooks() {
		if w.Topic == topic {
			out = append(out, w)
		}
	}
	return out
}

// tellWebhook makes every partition's leader know the webhook's group as it is now, and answers the webhook; see
// tellAndAnswer of groups. secret is shown if it is not "".
func (g *Gateway) tellWebhook(c echo.Context, status int, t meta.Topic, w meta.Webhook, gr meta.Group, secret string) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	told, err := g.ensureGroup(ctx, t, gr)
	switch {
	case err == nil:
		gr = told
	case status != http.StatusCreated || !mqerr.Of(err).Code.Retryable():
		return err
	}
	g.showIn(ctx, func(v *meta.View) bool {
		have, ok := v.Webhook(t.ID, w.Name)
		group, there := v.Group(t.ID, gr.Name)
		return ok && there && have.Revision >= w.Revision && group.Revision >= gr.Revision
	})
	g.applyWebhooks()
	return g.answerWebhook(c, status, t, &w, &gr, secret)
}

// handleGetWebhook answers one webhook.
func (g *Gateway) handleGetWebhook(c echo.Context) error {
	t, name, err := g.pathWebhook(c)
	if err != nil {
		return err
	}
	w, gr, err := g.getWebhook(c.Request().Context(), t, name)
	if err != nil {
		return err
	}
	return g.answerWebhook(c, http.StatusOK, t, &w, &gr, "")
}

// handlePauseWebhook stops sending; what is under way ends.
func (g *Gateway) handlePauseWebhook(c echo.Context) error {
	return g.changeWebhook(c, func(_ *meta.Webhook, gr *meta.Group) error {
		gr.Paused = true
		return nil
	})
}

// handleResumeWebhook goes on with a webhook that is paused or disabled.
func (g *Gateway) handleResumeWebhook(c echo.Context) error {
	return g.changeWebhook(c, func(w *meta.Webhook, gr *meta.Group) error {
		gr.Paused, w.Disabled = false, nil
		return nil
	})
}

func (g *Gateway) changeWebhook(c echo.Context, change func(*meta.Webhook, *meta.Group) error) error {
	t, name, err := g.pathWebhook(c)
	if err != nil {
		return err
	}
	w, gr, err := g.store.UpdateWebhook(c.Request().Context(), t.ID, name, 0, change)
	if err != nil {
		return err
	}
	return g.tellWebhook(c, http.StatusOK, t, w, gr, "")
}

// handleReplayWebhook sends everything since a time again.
func (g *Gateway) handleReplayWebhook(c echo.Context) error {
	var in api.WebhookReplay
	dry, err := g.readAction(c, &in)
	if err != nil {
		return err
	}
	since, err := readSince(in.Since, g.clock.now())
	if err != nil {
		return err
	}
	t, name, err := g.pathWebhook(c)
	if err != nil {
		return err
	}
	_, gr, err := g.getWebhook(c.Request().Context(), t, name)
	if err != nil {
		return err
	}
	return g.seekAndAnswer(c, t, gr, &api.SeekTarget{Time: since}, dry)
}

// readSince reads a time, or how long ago it is.
func readSince(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		ago, err := time.ParseDuration(text)
		if err != nil || ago <= 0 {
			return at, invalid("/since", "must be a time like 2026-01-31T12:00:00Z, or how long ago it is, like 2h; not %.40q", text)
		}
		at = now.Add(-ago)
	}
	if err := checkStart("", mq.Start{Time: at}); err != nil {
		return at, invalid("/since", "must be in the years 1970 to 2261")
	}
	return at, nil
}

// handleDeleteWebhook removes a webhook with its group, or says what that would forget.
func (g *Gateway) handleDeleteWebhook(c echo.Context) error {
	r, err := readRemoval(c)
	if err != nil {
		return err
	}
	t, name, err := g.pathWebhook(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	w, gr, err := g.getWebhook(ctx, t, name)
	if err != nil {
		return err
	}
	if err := r.onFound("webhook", name, w.Revision); err != nil {
		return err
	}
	about := g.describeGroup(ctx, t, gr)
	out := api.Deletion{DryRun: r.dry, Topic: t.Name, Group: gr.Name, Messages: about.Lag, Dead: about.Dead, InFlight: about.InFlight, Partial: about.Partial}
	if r.dry {
		return answerJSON(c, http.StatusOK, out)
	}
	deleted, err := g.store.DeleteWebhook(ctx, t.ID, name, r.revision(w.Revision))
	if err != nil {
		return err
	}
	g.tellDeleted(ctx, t, deleted.ID)
	g.showIn(ctx, func(v *meta.View) bool {
		have, ok := v.Webhook(t.ID, name)
		return !ok || have.Group != deleted.ID
	})
	g.applyWebhooks()
	return answerJSON(c, http.StatusOK, out)
}
