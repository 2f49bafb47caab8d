package client

import (
	"context"
	"net/http"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// Scheduled lists the messages of a topic that wait for their time, the first one due first.
func (c *Client) Scheduled(ctx context.Context, topic string, p Page) (api.ScheduledList, error) {
	return fetch[api.ScheduledList](ctx, c, http.MethodGet, withQuery(pathOf("topics", topic, "scheduled"), p.query()), nil, true)
}

// CancelScheduled makes a message that waits for its time never delivered; already_released (409) when it was. Doing so
// twice is fine. With dry nothing is changed.
func (c *Client) CancelScheduled(ctx context.Context, id string, dry bool) (api.Scheduled, error) {
	return fetch[api.Scheduled](ctx, c, http.MethodDelete, dryRun(pathOf("scheduled", id), dry), nil, true)
}

// RetimeScheduled lets a message that waits be delivered at another time; one that has passed is now.
func (c *Client) RetimeScheduled(ctx context.Context, id string, at time.Time) (api.Scheduled, error) {
	text := at.Format(time.RFC3339Nano)
	return c.retime(ctx, id, api.Reschedule{DeliverAt: &text})
}

// DelayScheduled lets a message that waits be delivered after a delay from now; 0 is at once.
func (c *Client) DelayScheduled(ctx context.Context, id string, delay time.Duration) (api.Scheduled, error) {
	d := api.Duration(delay)
	return c.retime(ctx, id, api.Reschedule{Delay: &d})
}

func (c *Client) retime(ctx context.Context, id string, in api.Reschedule) (api.Scheduled, error) {
	return fetch[api.Scheduled](ctx, c, http.MethodPatch, pathOf("scheduled", id), in, true)
}
