package client

import (
	"context"
	"net/http"

	"github.com/splashdam/splashdam/shared/api"
)

// Seek puts a group to another place, or says what that would change. Receipts from before are stale then. With Partial
// in the answer some partitions stayed where they were; the same call moves them.
func (c *Client) Seek(ctx context.Context, topic, group string, to api.SeekTarget, dry bool) (api.SeekResult, error) {
	// Not repeated by itself: what is delivered in between would be delivered again.
	return fetch[api.SeekResult](ctx, c, http.MethodPost, dryRun(pathOf("topics", topic, "groups", group, "seek"), dry), api.SeekRequest{To: to}, dry)
}

// CreateSnapshot keeps what a group has settled under a name; already_exists (412) when there is one.
func (c *Client) CreateSnapshot(ctx context.Context, topic, group, name string) (api.Snapshot, error) {
	return fetch[api.Snapshot](ctx, c, http.MethodPost, pathOf("topics", topic, "groups", group, "snapshots"), api.SnapshotInput{Name: name}, false)
}

// Snapshots lists a group's snapshots by name.
func (c *Client) Snapshots(ctx context.Context, topic, group string) (api.SnapshotList, error) {
	return fetch[api.SnapshotList](ctx, c, http.MethodGet, pathOf("topics", topic, "groups", group, "snapshots"), nil, true)
}

// Snapshot describes one snapshot.
func (c *Client) Snapshot(ctx context.Context, topic, group, name string) (api.Snapshot, error) {
	return fetch[api.Snapshot](ctx, c, http.MethodGet, pathOf("topics", topic, "groups", group, "snapshots", name), nil, true)
}

// DeleteSnapshot forgets a snapshot, or says what that would forget; both answer what it was.
func (c *Client) DeleteSnapshot(ctx context.Context, topic, group, name string, dry bool) (api.Snapshot, error) {
	return fetch[api.Snapshot](ctx, c, http.MethodDelete, dryRun(pathOf("topics", topic, "groups", group, "snapshots", name), dry), nil, dry)
}
