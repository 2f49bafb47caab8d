package client

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

func webhookPath(topic, webhook string, more ...string) string {
	return pathOf(append([]string{"topics", topic, "webhooks", webhook}, more...)...)
}

// CreateWebhook makes a webhook; already_exists (412) when there is one of this name. The answer holds its secret, and
// no later one does.
func (c *Client) CreateWebhook(ctx context.Context, topic, webhook string, in api.WebhookInput) (api.Webhook, error) {
	return create[api.Webhook](ctx, c, webhookPath(topic, webhook), in)
}

// PutWebhook makes a webhook or replaces its settings as a whole. A repetition of a call that made it would not show
// the secret again, so it is not repeated unless in names one.
func (c *Client) PutWebhook(ctx context.Context, topic, webhook string, in api.WebhookInput) (api.Webhook, error) {
	return fetch[api.Webhook](ctx, c, http.MethodPut, webhookPath(topic, webhook), in, in.Secret != nil)
}

// WebhookChange is what UpdateWebhook changes: what is nil or empty stays. Headers replace those of the same name.
type WebhookChange struct {
	api.WebhookInput
	// DropHeaders are names of headers that are sent no more.
	DropHeaders []string
}

// UpdateWebhook changes the settings that change names and leaves the others, as UpdateGroup does; it fails with
// webhook_not_found where none is. A schedule of retries takes the place of growing waits, and the other way round; where
// the attempts were as many as a schedule has waits, and one, they follow it unless change says how many. Headers go to
// another server only when their values are given again. Secret and Start can't be changed so.
func (c *Client) UpdateWebhook(ctx context.Context, topic, webhook string, change WebhookChange) (api.Webhook, error) {
	return update(ctx, c, webhookPath(topic, webhook), func(w *api.Webhook) any { return changed(&w.Settings, &change) })
}

// changed is the whole settings with the changes. The values of headers are not known here: what the server showed in
// their stead keeps them.
func changed(old *mq.WebhookSettings, change *WebhookChange) api.WebhookInput {
	in := api.WebhookInput{URL: cmp.Or(change.URL, old.URL), Format: &old.Format, Headers: maps.Clone(old.Headers), Ordering: &old.Ordering,
		MaxInFlight: &old.MaxInFlight, Rate: &old.Rate, Timeout: &old.Timeout, Retry: retries(&old.Retry, change.Retry),
		Circuit:         &api.WebhookCircuitInput{Failures: &old.Circuit.Failures, Open: &old.Circuit.Open, MaxOpen: &old.Circuit.MaxOpen},
		DeadLetterTopic: &old.DeadLetterTopic, AllowPrivate: &old.AllowPrivate, Secret: change.Secret, Start: change.Start}
	if in.Headers == nil {
		in.Headers = map[string]string{}
	}
	for _, name := range change.DropHeaders {
		maps.DeleteFunc(in.Headers, func(have, _ string) bool { return strings.EqualFold(have, name) })
	}
	for name, value := range change.Headers {
		maps.DeleteFunc(in.Headers, func(have, _ string) bool { return strings.EqualFold(have, name) })
		in.Headers[name] = value
	}
	override(&in.Format, change.Format)
	override(&in.Ordering, change.Ordering)
	override(&in.MaxInFlight, change.MaxInFlight)
	override(&in.Rate, change.Rate)
	override(&in.Timeout, change.Timeout)
	override(&in.DeadLetterTopic, change.DeadLetterTopic)
	override(&in.AllowPrivate, change.AllowPrivate)
	if n := change.Circuit; n != nil {
		override(&in.Circuit.Failures, n.Failures)
		override(&in.Circuit.Open, n.Open)
		override(&in.Circuit.MaxOpen, n.MaxOpen)
	}
	return in
}

// retries is what a webhook waits after a change.
func retries(old *mq.WebhookRetry, change *api.WebhookRetryInput) *api.WebhookRetryInput {
	in := &api.WebhookRetryInput{Schedule: old.Schedule, Jitter: &old.Jitter, MaxAttempts: &old.MaxAttempts}
	if len(old.Schedule) == 0 {
		in.Initial, in.Multiplier, in.Max = &old.Initial, &old.Multiplier, &old.Max
	}
	if change == nil {
		return in
	}
	scheduled := len(change.Schedule) > 0
	grows := change.Initial != nil || change.Multiplier != nil || change.Max != nil
	if (scheduled || grows) && len(old.Schedule) > 0 && old.MaxAttempts == len(old.Schedule)+1 {
		in.MaxAttempts = nil
	}
	if scheduled {
		in.Schedule, in.Initial, in.Multiplier, in.Max = change.Schedule, nil, nil, nil
	}
	if grows {
		if !scheduled { // both at once is for the server to refuse
			in.Schedule = nil
		}
		in.Initial, in.Multiplier, in.Max = &old.Initial, &old.Multiplier, &old.Max
	}
	override(&in.Initial, change.Initial)
	override(&in.Multiplier, change.Multiplier)
	override(&in.Max, change.Max)
	override(&in.Jitter, change.Jitter)
	override(&in.MaxAttempts, change.MaxAttempts)
	return in
}

// Webhook describes one webhook.
func (c *Client) Webhook(ctx context.Context, topic, webhook string) (api.Webhook, error) {
	return fetch[api.Webhook](ctx, c, http.MethodGet, webhookPath(topic, webhook), nil, true)
}

// Webhooks lists the webhooks of a topic by name.
func (c *Client) Webhooks(ctx context.Context, topic string) (api.WebhookList, error) {
	return fetch[api.WebhookList](ctx, c, http.MethodGet, pathOf("topics", topic, "webhooks"), nil, true)
}

// DeleteWebhook removes a webhook with its position and dead letters, or says what would go.
func (c *Client) DeleteWebhook(ctx context.Context, topic, webhook string, dry bool) (api.Deletion, error) {
	return fetch[api.Deletion](ctx, c, http.MethodDelete, dryRun(webhookPath(topic, webhook), dry), nil, dry)
}

// PauseWebhook stops sending; what is under way ends.
func (c *Client) PauseWebhook(ctx context.Context, topic, webhook string) (api.Webhook, error) {
	return fetch[api.Webhook](ctx, c, http.MethodPost, webhookPath(topic, webhook, "pause"), nil, true)
}

// ResumeWebhook goes on with a webhook that is paused or disabled.
func (c *Client) ResumeWebhook(ctx context.Context, topic, webhook string) (api.Webhook, error) {
	return fetch[api.Webhook](ctx, c, http.MethodPost, webhookPath(topic, webhook, "resume"), nil, true)
}

// RotateSecret gives a webhook another secret, which the answer holds and no later one does.
func (c *Client) RotateSecret(ctx context.Context, topic, webhook string, in api.WebhookRotation) (api.Webhook, error) {
	return fetch[api.Webhook](ctx, c, http.MethodPost, webhookPath(topic, webhook, "rotate-secret"), in, in.Secret != nil)
}

// ReplayWebhook sends everything again that was published since a time (RFC 3339), or since so long ago (2h).
func (c *Client) ReplayWebhook(ctx context.Context, topic, webhook, since string, dry bool) (api.SeekResult, error) {
	return fetch[api.SeekResult](ctx, c, http.MethodPost, dryRun(webhookPath(topic, webhook, "replay"), dry), api.WebhookReplay{Since: since}, true)
}

// TestWebhook has a gateway send a test event to the endpoint, once and now, and tells what came back.
func (c *Client) TestWebhook(ctx context.Context, topic, webhook string, in api.WebhookTest) (api.WebhookTestAnswer, error) {
	return fetch[api.WebhookTestAnswer](ctx, c, http.MethodPost, webhookPath(topic, webhook, "test"), in, false)
}

// WebhookAttempts tells the newest attempts, the newest first; with a message's id all of that message, in order.
// A limit of 0 is the server's.
func (c *Client) WebhookAttempts(ctx context.Context, topic, webhook, message string, limit int) (api.WebhookAttempts, error) {
	q := url.Values{}
	if message != "" {
		q.Set("message", message)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return fetch[api.WebhookAttempts](ctx, c, http.MethodGet, withQuery(webhookPath(topic, webhook, "attempts"), q), nil, true)
}
