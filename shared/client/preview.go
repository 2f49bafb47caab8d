package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/splashdam/splashdam/shared/api"
)

// PreviewTopic says what UpdateTopic with the same input would change. An error is the one that it would get. force is that
// of MoveKeys.
func (c *Client) PreviewTopic(ctx context.Context, topic string, in api.TopicInput, force bool) (out api.ConfigChange, err error) {
	query := url.Values{"dry_run": {"true"}}
	if force {
		query.Set("force", "true")
	}
	q, err := newCall(http.MethodPatch, withQuery(pathOf("topics", topic), query), in, true)
	if err != nil {
		return out, err
	}
	q.header.Set("Content-Type", "application/merge-patch+json")
	_, err = c.exchange(ctx, q, &out)
	return out, err
}

// PreviewGroup says what UpdateGroup with the same change would change.
func (c *Client) PreviewGroup(ctx context.Context, topic, group string, change api.GroupInput) (api.ConfigChange, error) {
	have, err := c.Group(ctx, topic, group)
	if err != nil {
		return api.ConfigChange{}, err
	}
	path := dryRun(pathOf("topics", topic, "groups", group), true)
	return fetch[api.ConfigChange](ctx, c, http.MethodPut, path, merged(&have.Settings, change), true)
}

// PreviewWebhook says what UpdateWebhook with the same change would change.
func (c *Client) PreviewWebhook(ctx context.Context, topic, webhook string, change WebhookChange) (api.ConfigChange, error) {
	have, err := c.Webhook(ctx, topic, webhook)
	if err != nil {
		return api.ConfigChange{}, err
	}
	return fetch[api.ConfigChange](ctx, c, http.MethodPut, dryRun(webhookPath(topic, webhook), true), changed(&have.Settings, &change), true)
}

// PreviewRotation says what RotateSecret would do: which secrets would sign, and until when. A random one is not among them.
func (c *Client) PreviewRotation(ctx context.Context, topic, webhook string, in api.WebhookRotation) (api.Webhook, error) {
	return fetch[api.Webhook](ctx, c, http.MethodPost, dryRun(webhookPath(topic, webhook, "rotate-secret"), true), in, true)
}

// PreviewDrain says what draining a node would move: what it leads and holds now.
func (c *Client) PreviewDrain(ctx context.Context, node string) (api.NodeInfo, error) {
	return fetch[api.NodeInfo](ctx, c, http.MethodPost, dryRun(pathOf("nodes", node, "drain"), true), nil, true)
}

// PreviewMove says who would lead a partition after MoveLeader.
func (c *Client) PreviewMove(ctx context.Context, topic string, partition uint32, to string) (api.MoveLeaderAnswer, error) {
	path := pathOf("topics", topic, "partitions", strconv.FormatUint(uint64(partition), 10), "move-leader")
	return fetch[api.MoveLeaderAnswer](ctx, c, http.MethodPost, dryRun(path, true), api.MoveLeaderRequest{To: to}, true)
}

// PreviewLeave says which partitions the others would get of a member.
func (c *Client) PreviewLeave(ctx context.Context, topic, group, member string) (api.MemberLeave, error) {
	path := dryRun(pathOf("topics", topic, "groups", group, "members", member), true)
	return fetch[api.MemberLeave](ctx, c, http.MethodDelete, path, nil, true)
}
