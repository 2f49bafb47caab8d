package gateway

import (
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/splashdam/splashdam/gateway/internal/push"
	"github.com/splashdam/splashdam/gateway/internal/strictjson"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// defaultRetries is max_attempts of a webhook whose delays grow.
const defaultRetries = 10

// webhookWish is what the body of a PUT asks for.
type webhookWish struct {
	settings   mq.WebhookSettings
	secret     string // "" for none
	startGiven bool
}

// webhookBody is that body: the settings with a secret beside them.
type webhookBody struct {
	mq.WebhookSettings
	Secret string `json:"secret"`
}

// webhookSettings reads the body of a PUT of a webhook. Fields that are left out, or null, get their defaults.
func webhookSettings(body []byte) (webhookWish, error) {
	var out webhookWish
	merged, err := strictjson.Merge([]byte("{}"), body)
	if err != nil {
		return out, err
	}
	var names struct {
		Start json.RawMessage            `json:"start"`
		Retry map[string]json.RawMessage `json:"retry"`
	}
	_ = json.Unmarshal(merged, &names) // what does not fit is found by Decode
	in := webhookBody{WebhookSettings: mq.DefaultWebhookSettings()}
	if out.startGiven = names.Start != nil; out.startGiven {
		in.Start = mq.Start{} // its fields belong together
	}
	_, grows := names.Retry["initial"]
	for _, name := range [...]string{"multiplier", "max"} {
		_, given := names.Retry[name]
		grows = grows || given
	}
	_, scheduled := names.Retry["schedule"]
	in.Retry.Schedule = nil // a list is replaced, not filled up
	if !scheduled && !grows {
		in.Retry.Schedule = mq.DefaultWebhookSettings().Retry.Schedule
	}
	if err := strictjson.Decode(merged, &in); err != nil {
		return out, err
	}
	if _, given := names.Retry["max_attempts"]; !given {
		in.Retry.MaxAttempts = defaultRetries
		if n := len(in.Retry.Schedule); n > 0 {
			in.Retry.MaxAttempts = n + 1
		}
	}
	out.settings, out.secret = in.WebhookSettings, in.Secret
	var bad []error
	if in.Secret != "" {
		if _, err := mq.ParseWebhookSecret(in.Secret); err != nil {
			bad = append(bad, mq.FieldError{Pointer: "/secret", Detail: err.Error()})
		}
	}
	if scheduled && grows {
		bad = append(bad, mq.FieldError{Pointer: "/retry/schedule", Detail: "does not go with initial, multiplier and max: say one or the other"})
	}
	return out, validation(errors.Join(append(bad, in.Validate(""), checkStart("", in.Start))...))
}

// checkReach refuses an endpoint whose host is an address that this gateway would not dial: a name is looked up
// only when something is sent, and then checked.
func (g *Gateway) checkReach(s *mq.WebhookSettings) error {
	if s.AllowPrivate && !g.cfg.WebhooksAllowPrivate {
		return invalid("/allow_private", "this gateway does not allow it (it runs without --webhooks-allow-private)")
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return invalid("/url", "is not a URL")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	if err := push.CheckAddr(addr, s.AllowPrivate); err != nil {
		return invalid("/url", "%v", err)
	}
	return nil
}

// unhide puts the values of before in the place of those that the caller did not know. To another server they don't
// go: who may change a webhook would read them there.
func unhide(want, have *mq.WebhookSettings) (map[string]string, error) {
	out := maps.Clone(want.Headers)
	var bad []error
	for _, name := range slices.Sorted(maps.Keys(want.Headers)) {
		if want.Headers[name] != api.HiddenValue {
			continue
		}
		old, ok := headerNamed(have.Headers, name)
		detail := ""
		switch {
		case !ok:
			detail = "*** keeps the value that is there, and there is no such header: give its value"
		case !sameServer(want.URL, have.URL):
			detail = "its value, which answers show as ***, was for " + serverOf(have.URL) + " and is not sent to another server: give it again, or leave the header out"
		default:
			out[name] = old
			continue
		}
		bad = append(bad, mq.FieldError{Pointer: "/headers/" + name, Detail: detail})
	}
	return out, validation(errors.Join(bad...))
}

// headerNamed finds a header by its name in any case.
func headerNamed(headers map[string]string, name string) (value string, ok bool) {
	if value, ok = headers[name]; ok {
		return value, true
	}
	for have, value := range headers {
		if strings.EqualFold(have, name) {
			return value, true
		}
	}
	return "", false
}

// serverOf is the scheme, host and port of a URL.
func serverOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the old one"
	}
	return u.Scheme + "://" + u.Host
}

// sameServer says whether two URLs name one scheme, host and port, and do so in the same words.
func sameServer(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && x.Scheme == y.Scheme && x.Host == y.Host
}

// hideHeaders are settings as answers show them.
func hideHeaders(s mq.WebhookSettings) mq.WebhookSettings {
	s.Headers = maps.Clone(s.Headers)
	for name := range s.Headers {
		s.Headers[name] = api.HiddenValue
	}
	return s
}

// notOfWebhook refuses what only a webhook may do with its group.
func notOfWebhook(group string) error {
	w, ok := mq.GroupWebhook(group)
	if !ok {
		return nil
	}
	e := badParameter("path/group", "the group belongs to webhook %q; groups of users have names that don't begin with %q", w, mq.WebhookGroup(""))
	e.Code = mqerr.InvalidParameter
	return e
}
