package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/splashdam/splashdam/shared/api"
)

// Page asks for a part of a list; the zero value asks for its beginning with the server's default length.
type Page struct {
	Cursor string // NextCursor of the page before
	Limit  int
	// Partition is the only one to list of; for what a group holds, other lists refuse it.
	Partition *uint32
}

func (p Page) query() url.Values {
	q := url.Values{}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Partition != nil {
		q.Set("partition", strconv.FormatUint(uint64(*p.Partition), 10))
	}
	return q
}

func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

func dryRun(path string, dry bool) string {
	if dry {
		return path + "?dry_run=true"
	}
	return path
}

// CreateTopic makes a topic; already_exists (412) when there is one of this name.
func (c *Client) CreateTopic(ctx context.Context, topic string, in api.TopicInput) (api.Topic, error) {
	return create[api.Topic](ctx, c, pathOf("topics", topic), in)
}

// PutTopic makes a topic or replaces its settings as a whole.
func (c *Client) PutTopic(ctx context.Context, topic string, in api.TopicInput) (api.Topic, error) {
	return fetch[api.Topic](ctx, c, http.MethodPut, pathOf("topics", topic), in, true)
}

// create puts with If-None-Match. A lost answer is not asked for again: the second try would say that it
// exists already.
func create[T any](ctx context.Context, c *Client, path string, in any) (out T, err error) {
	q, err := newCall(http.MethodPut, path, in, false)
	if err != nil {
		return out, err
	}
	q.header.Set("If-None-Match", "*")
	_, err = c.exchange(ctx, q, &out)
	return out, err
}

// UpdateTopic changes the settings that in names (a merge patch) and leaves the others.
func (c *Client) UpdateTopic(ctx context.Context, topic string, in api.TopicInput) (api.Topic, error) {
	return c.patchTopic(ctx, pathOf("topics", topic), in)
}

// MoveKeys is UpdateTopic that may add partitions although a group of the topic orders by key: its keys may then move to
// another partition, where they do not wait for what is not settled in the old one.
func (c *Client) MoveKeys(ctx context.Context, topic string, in api.TopicInput) (api.Topic, error) {
	return c.patchTopic(ctx, withQuery(pathOf("topics", topic), url.Values{"force": {"true"}}), in)
}

func (c *Client) patchTopic(ctx context.Context, path string, in api.TopicInput) (api.Topic, error) {
	var out api.Topic
	q, err := newCall(http.MethodPatch, path, in, true)
	if err != nil {
		return out, err
	}
	q.header.Set("Content-Type", "application/merge-patch+json")
	_, err = c.exchange(ctx, q, &out)
	return out, err
}

// Topic describes one topic.
func (c *Client) Topic(ctx context.Context, topic string) (api.Topic, error) {
	return fetch[api.Topic](ctx, c, http.MethodGet, pathOf("topics", topic), nil, true)
}

// Topics lists topics by name.
func (c *Client) Topics(ctx context.Context, p Page) (api.TopicList, error) {
	return fetch[api.TopicList](ctx, c, http.MethodGet, withQuery(pathOf("topics"), p.query()), nil, true)
}

// DeleteTopic removes a topic with its messages and groups, or says what would go.
func (c *Client) DeleteTopic(ctx context.Context, topic string, dry bool) (api.Deletion, error) {
	return fetch[api.Deletion](ctx, c, http.MethodDelete, dryRun(pathOf("topics", topic), dry), nil, dry)
}

// CreateGroup makes a group; already_exists (412) when there is one of this name.
func (c *Client) CreateGroup(ctx context.Context, topic, group string, in api.GroupInput) (api.Group, error) {
	return create[api.Group](ctx, c, pathOf("topics", topic, "groups", group), in)
}

// PutGroup makes a group or replaces its settings as a whole.
func (c *Client) PutGroup(ctx context.Context, topic, group string, in api.GroupInput) (api.Group, error) {
	return fetch[api.Group](ctx, c, http.MethodPut, pathOf("topics", topic, "groups", group), in, true)
}

// Group describes one group.
func (c *Client) Group(ctx context.Context, topic, group string) (api.Group, error) {
	return fetch[api.Group](ctx, c, http.MethodGet, pathOf("topics", topic, "groups", group), nil, true)
}

// Groups lists the groups of a topic by name.
func (c *Client) Groups(ctx context.Context, topic string, p Page) (api.GroupList, error) {
	return fetch[api.GroupList](ctx, c, http.MethodGet, withQuery(pathOf("topics", topic, "groups"), p.query()), nil, true)
}

// DeleteGroup removes a group with its position, or says what would go.
func (c *Client) DeleteGroup(ctx context.Context, topic, group string, dry bool) (api.Deletion, error) {
	return fetch[api.Deletion](ctx, c, http.MethodDelete, dryRun(pathOf("topics", topic, "groups", group), dry), nil, dry)
}

// PauseGroup stops deliveries to a group; what is out may still be settled.
func (c *Client) PauseGroup(ctx context.Context, topic, group string) error {
	return c.do(ctx, http.MethodPost, pathOf("topics", topic, "groups", group, "pause"), nil, nil, true)
}

// ResumeGroup ends a pause.
func (c *Client) ResumeGroup(ctx context.Context, topic, group string) error {
	return c.do(ctx, http.MethodPost, pathOf("topics", topic, "groups", group, "resume"), nil, nil, true)
}

// GroupMessages lists what a group holds in one state: ready, leased, waiting, parked or dead.
func (c *Client) GroupMessages(ctx context.Context, topic, group, state string, p Page) (api.HeldList, error) {
	q := p.query()
	q.Set("state", state)
	path := withQuery(pathOf("topics", topic, "groups", group, "messages"), q)
	return fetch[api.HeldList](ctx, c, http.MethodGet, path, nil, true)
}

// Dead lists a group's dead letters.
func (c *Client) Dead(ctx context.Context, topic, group string, p Page) (api.HeldList, error) {
	path := withQuery(pathOf("topics", topic, "groups", group, "dead"), p.query())
	return fetch[api.HeldList](ctx, c, http.MethodGet, path, nil, true)
}

// DeadMatching is Dead for those that match; a filter's ids are not for listings.
func (c *Client) DeadMatching(ctx context.Context, topic, group string, f api.DeadFilter, p Page) (api.HeldList, error) {
	q := deadQuery(f, p.query())
	return fetch[api.HeldList](ctx, c, http.MethodGet, withQuery(pathOf("topics", topic, "groups", group, "dead"), q), nil, true)
}

// DeadHistories is DeadMatching with the history of each: what became of its attempts. A page has at most 100.
func (c *Client) DeadHistories(ctx context.Context, topic, group string, f api.DeadFilter, p Page) (api.HeldList, error) {
	q := deadQuery(f, p.query())
	q.Set("history", "true")
	return fetch[api.HeldList](ctx, c, http.MethodGet, withQuery(pathOf("topics", topic, "groups", group, "dead"), q), nil, true)
}

// Message reads one message by its id.
func (c *Client) Message(ctx context.Context, id string) (api.Message, error) {
	return fetch[api.Message](ctx, c, http.MethodGet, pathOf("messages", id), nil, true)
}

// ArchivedMessage is Message for one that retention may have moved to the archive.
func (c *Client) ArchivedMessage(ctx context.Context, id string) (api.Message, error) {
	return fetch[api.Message](ctx, c, http.MethodGet, withQuery(pathOf("messages", id), url.Values{"include_archived": {"true"}}), nil, true)
}

// Trace tells a message's life.
func (c *Client) Trace(ctx context.Context, id string) (api.Trace, error) {
	return fetch[api.Trace](ctx, c, http.MethodGet, pathOf("messages", id, "trace"), nil, true)
}

// ArchivedTrace is Trace for a message that retention may have moved to the archive: then without Groups.
func (c *Client) ArchivedTrace(ctx context.Context, id string) (api.Trace, error) {
	return fetch[api.Trace](ctx, c, http.MethodGet, withQuery(pathOf("messages", id, "trace"), url.Values{"include_archived": {"true"}}), nil, true)
}

// Explain says why a message is not delivered to a group now.
func (c *Client) Explain(ctx context.Context, id, group string) (api.Explanation, error) {
	q := url.Values{"group": {group}}
	return fetch[api.Explanation](ctx, c, http.MethodGet, withQuery(pathOf("messages", id, "explain"), q), nil, true)
}

// DrainNode asks for a log node to be emptied (drain), or to be used again. It answers what the node leads and holds now.
func (c *Client) DrainNode(ctx context.Context, node string, drain bool) (api.NodeInfo, error) {
	method := http.MethodPost
	if !drain {
		method = http.MethodDelete
	}
	return fetch[api.NodeInfo](ctx, c, method, pathOf("nodes", node, "drain"), nil, true)
}

// MoveLeader lets another replica lead a partition: the node that is named, or any other with "".
func (c *Client) MoveLeader(ctx context.Context, topic string, partition uint32, to string) (api.MoveLeaderAnswer, error) {
	path := pathOf("topics", topic, "partitions", strconv.FormatUint(uint64(partition), 10), "move-leader")
	return fetch[api.MoveLeaderAnswer](ctx, c, http.MethodPost, path, api.MoveLeaderRequest{To: to}, false)
}

// ForceRecover makes a partition go on that lost more replicas than it can do without, with what is left of it. With
// dry it only says what that would give up.
func (c *Client) ForceRecover(ctx context.Context, topic string, partition uint32, req api.ForceRecoverRequest, dry bool) (api.ForceRecoverAnswer, error) {
	path := pathOf("topics", topic, "partitions", strconv.FormatUint(uint64(partition), 10), "force-recover")
	return fetch[api.ForceRecoverAnswer](ctx, c, http.MethodPost, dryRun(path, dry), req, dry)
}

// RebuildMetadata rebuilds the metadata of a cluster whose coordinators lost their data. With dry it only says what it
// would make.
func (c *Client) RebuildMetadata(ctx context.Context, dry bool) (api.RebuildAnswer, error) {
	return fetch[api.RebuildAnswer](ctx, c, http.MethodPost, dryRun(pathOf("cluster", "rebuild-metadata"), dry), nil, dry)
}

// Cluster describes the cluster as the answering gateway sees it.
func (c *Client) Cluster(ctx context.Context) (api.Cluster, error) {
	return fetch[api.Cluster](ctx, c, http.MethodGet, pathOf("cluster"), nil, true)
}
