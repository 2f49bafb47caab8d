package meta

import (
	"fmt"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A webhook and its group are made, changed and deleted together.
func TestWebhooks(t *testing.T) {
	s, ctx := testStore(t)
	v := NewView(s, quiet(), WithWebhooks)
	runView(t, ctx, v)
	settings := mq.DefaultWebhookSettings()
	settings.URL = "https://example.com/"
	w, g, err := s.CreateWebhook(ctx, 1, "shop", settings, "whsec_one")
	if err != nil || g.ID != w.Group || g.Name != "webhook.shop" || g.Version != 1 || g.Settings.Mode != mq.ModePush || w.Revision == 0 || w.Revision != g.Revision {
		t.Fatalf("%+v %+v %v", w, g, err)
	}
	_, _, err = s.CreateWebhook(ctx, 1, "shop", settings, "whsec_two")
	wantCode(t, "creating it again", err, mqerr.AlreadyExists)

	keep := func(*Webhook, *Group) error { return nil }
	if same, _, err := s.UpdateWebhook(ctx, 1, "shop", w.Revision, keep); err != nil || same.Revision != w.Revision {
		t.Errorf("a change of nothing: %+v, %v", same, err)
	}
	changed, group, err := s.UpdateWebhook(ctx, 1, "shop", w.Revision, func(w *Webhook, g *Group) error {
		w.Settings.Retry.MaxAttempts, g.Paused = 3, true
		return nil
	})
	if err != nil || group.Version != 2 || !group.Paused || group.Settings.MaxAttempts != 3 || changed.Revision <= w.Revision {
		t.Errorf("changed: %+v %+v %v", changed, group, err)
	}
	_, _, err = s.UpdateWebhook(ctx, 1, "shop", w.Revision, keep)
	wantCode(t, "changing what changed", err, mqerr.PreconditionFailed)
	refusal := fmt.Errorf("no")
	if _, _, err := s.UpdateWebhook(ctx, 1, "shop", 0, func(*Webhook, *Group) error { return refusal }); err != refusal {
		t.Errorf("a change that is refused: %v", err)
	}
	if err := v.WaitFor(ctx, func(v *View) bool {
		w, ok := v.Webhook(1, "shop")
		return ok && w.Revision == changed.Revision && len(v.Webhooks()) == 1
	}); err != nil {
		t.Fatal(err)
	}

	_, err = s.DeleteWebhook(ctx, 1, "shop", w.Revision)
	wantCode(t, "deleting what changed", err, mqerr.PreconditionFailed)
	if gone, err := s.DeleteWebhook(ctx, 1, "shop", 0); err != nil || gone.ID != g.ID || !gone.Deleted {
		t.Fatalf("%+v, %v", gone, err)
	}
	_, err = s.DeleteWebhook(ctx, 1, "shop", 0)
	wantCode(t, "deleting it again", err, mqerr.WebhookNotFound)
	_, err = s.GetGroup(ctx, 1, "webhook.shop")
	wantCode(t, "its group", err, mqerr.GroupNotFound)
	if err := v.WaitFor(ctx, func(v *View) bool { return len(v.Webhooks()) == 0 }); err != nil {
		t.Fatal(err)
	}
	again, _, err := s.CreateWebhook(ctx, 1, "shop", settings, "whsec_three")
	if err != nil || again.Group <= w.Group {
		t.Errorf("made anew: %+v, %v", again, err)
	}
	for _, text := range []string{fmt.Sprintf("%v", again), fmt.Sprintf("%+v", again), fmt.Sprintf("%#v", again)} {
		if strings.Contains(text, "whsec_") {
			t.Errorf("a log would show the secret: %s", text)
		}
	}
}
