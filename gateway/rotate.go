package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// defaultOverlap is how long the old secret of a rotation signs where the caller says nothing.
const defaultOverlap = 24 * time.Hour

// rotation is what a call that rotates a secret asks for.
type rotation struct {
	secret  string
	chosen  bool // by the caller
	overlap time.Duration
	dry     bool
}

func (g *Gateway) readRotation(c echo.Context) (r rotation, err error) {
	if r.dry, err = queryBool(c, "dry_run"); err != nil {
		return r, err
	}
	var in api.WebhookRotation
	if err := g.readOptions(c, &in); err != nil {
		return r, err
	}
	r.overlap, r.secret = defaultOverlap, newWebhookSecret()
	if in.Overlap != nil {
		r.overlap = time.Duration(*in.Overlap)
	}
	if r.overlap < 0 || r.overlap > mq.MaxSecretOverlap {
		return r, invalid("/overlap", "must be 0s to %s", mq.Duration(mq.MaxSecretOverlap))
	}
	if in.Secret != nil {
		if _, err := mq.ParseWebhookSecret(*in.Secret); err != nil {
			return r, invalid("/secret", "%v", err)
		}
		r.secret, r.chosen = *in.Secret, true
	}
	return r, nil
}

// rotate gives a webhook the secret; for a while the old one signs beside it.
func (r *rotation) rotate(w *meta.Webhook, now time.Time) {
	old := w.Secrets[0]
	if old.Secret == r.secret {
		return // this call, once more
	}
	w.Secrets = []meta.WebhookSecret{{Secret: r.secret, Created: now}}
	if old.Until = now.Add(r.overlap); r.overlap > 0 {
		w.Secrets = append(w.Secrets, old)
	}
}

// handleRotateSecret gives a webhook another secret; for a while both sign.
func (g *Gateway) handleRotateSecret(c echo.Context) error {
	r, err := g.readRotation(c)
	if err != nil {
		return err
	}
	t, name, err := g.pathWebhook(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if r.overlap > 0 { // by a clock that is behind it would be over before it began
		knowing, cancel := context.WithTimeout(ctx, g.cfg.RequestTimeout)
		defer cancel()
		if err := g.knowTime(knowing); err != nil {
			return err
		}
	}
	now := g.clock.now().UTC()
	if r.dry {
		w, gr, err := g.getWebhook(ctx, t, name)
		if err != nil {
			return err
		}
		if r.rotate(&w, now); !r.chosen { // the real call makes another one
			w.Secrets = w.Secrets[1:]
		}
		out := g.describeWebhook(ctx, t, &w, &gr)
		out.DryRun = true
		return answerJSON(c, http.StatusOK, out)
	}
	w, gr, err := g.store.UpdateWebhook(ctx, t.ID, name, 0, func(w *meta.Webhook, _ *meta.Group) error {
		r.rotate(w, now)
		return nil
	})
	if err != nil {
		return err
	}
	return g.tellWebhook(c, http.StatusOK, t, w, gr, r.secret)
}
