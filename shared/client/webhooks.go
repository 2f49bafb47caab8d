package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/splashdam/splashdam/shared/api"
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
