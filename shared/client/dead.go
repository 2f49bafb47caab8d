package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// Redrive makes dead letters ready again for their group, or says how many it would. With Partial in the answer some
// partitions failed, with More there are more of them; the same call goes on.
func (c *Client) Redrive(ctx context.Context, topic, group string, in api.RedriveRequest, dry bool) (api.DeadResult, error) {
	// Not repeated by itself: what the lost answer counted would be missing in the second one.
	return fetch[api.DeadResult](ctx, c, http.MethodPost, dryRun(pathOf("topics", topic, "groups", group, "redrive"), dry), in, dry)
}

// DeleteDead removes dead letters for good, at most limit (0: no bound), or says how many it would.
func (c *Client) DeleteDead(ctx context.Context, topic, group string, f api.DeadFilter, limit uint64, dry bool) (api.DeadResult, error) {
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", strconv.FormatUint(limit, 10))
	}
	q = deadQuery(f, q)
	if dry {
		q.Set("dry_run", "true")
	}
	return fetch[api.DeadResult](ctx, c, http.MethodDelete, withQuery(pathOf("topics", topic, "groups", group, "dead"), q), nil, dry)
}

func deadQuery(f api.DeadFilter, q url.Values) url.Values {
	if f.Reason != "" {
		q.Set("reason", f.Reason)
	}
	if f.Key != nil {
		q.Set("key", *f.Key)
	}
	if !f.DiedAfter.IsZero() {
		q.Set("died_after", f.DiedAfter.UTC().Format(time.RFC3339Nano))
	}
	if !f.DiedBefore.IsZero() {
		q.Set("died_before", f.DiedBefore.UTC().Format(time.RFC3339Nano))
	}
	if f.IDs != nil {
		q.Set("ids", strings.Join(f.IDs, ","))
	}
	return q
}
