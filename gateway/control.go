package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/cursor"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// maxConfigBytes bounds the body of a configuration call: beyond it 413.
	maxConfigBytes = 64 << 10
	// viewWait bounds how long a configuration call waits for this gateway's own view to show its change, so
	// that the caller's next request to the same gateway meets it. The change holds whether or not it shows in time.
	viewWait = 2 * time.Second

	defaultPage = 100
	maxPage     = 1000
)

// controlRoutes are the calls that configure, list, look and tell how things are.
func (g *Gateway) controlRoutes() []route {
	const topic, group, message = "/v1/topics/:topic", "/v1/topics/:topic/groups/:group", "/v1/messages/:id"
	page, grow, dry := []string{"limit", "cursor"}, []string{"wait", "force", "dry_run"}, []string{"dry_run"}
	return []route{
		{http.MethodGet, "/v1/topics", g.handleListTopics, page},
		{http.MethodPut, topic, g.handlePutTopic, grow},
		{http.MethodGet, topic, g.handleGetTopic, nil},
		{http.MethodPatch, topic, g.handlePatchTopic, grow},
		{http.MethodDelete, topic, g.handleDeleteTopic, dry},
		{http.MethodGet, topic + "/messages", g.handleRead, []string{"partition", "from", "to", "direction", "limit", "wait", "encoding", "cursor", "include_archived"}},
		{http.MethodGet, topic + "/groups", g.handleListGroups, page},
		{http.MethodPut, group, g.handlePutGroup, dry},
		{http.MethodGet, group, g.handleGetGroup, nil},
		{http.MethodDelete, group, g.handleDeleteGroup, dry},
		{http.MethodPost, group + "/pause", g.handlePauseGroup, nil},
		{http.MethodPost, group + "/resume", g.handleResumeGroup, nil},
		{http.MethodGet, group + "/messages", g.handleHeldMessages, []string{"state", "partition", "limit", "cursor"}},
		{http.MethodGet, message, g.handleMessage, []string{"raw", "encoding", "include_archived"}},
		{http.MethodGet, message + "/trace", g.handleTrace, []string{"include_archived"}},
		{http.MethodGet, message + "/explain", g.handleExplain, []string{"group"}},
		{http.MethodGet, "/v1/cluster", g.handleCluster, nil},
		{http.MethodGet, "/livez", g.handleLive, nil},
		{http.MethodGet, "/readyz", g.handleReady, nil},
		{http.MethodGet, "/metrics", g.handleMetrics, nil},
		{http.MethodGet, "/openapi.json", g.handleOpenAPI, nil},
	}
}

// configBody reads the JSON body of a configuration call; an empty one is fine.
func (g *Gateway) configBody(c echo.Context) ([]byte, error) {
	in, err := g.readBody(c, maxConfigBytes, func() error {
		return mqerr.New(mqerr.BodyTooLarge, "the body of this call has at most %d bytes", maxConfigBytes)
	})
	if err != nil {
		return nil, err
	}
	defer in.release()
	if len(in.b) == 0 {
		return nil, nil
	}
	if kind, err := mediaType(c.Request().Header); err != nil || kind == ndjson {
		return nil, mqerr.New(mqerr.UnsupportedMedia, "this call takes application/json, not %.80q", c.Request().Header.Get(echo.HeaderContentType))
	}
	return bytes.Clone(in.b), nil
}

// answerJSON writes a body with its status.
func answerJSON(c echo.Context, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.Blob(status, echo.MIMEApplicationJSON, append(b, '\n'))
}

// queryBool reads true or false from the query; a name without a value is true.
func queryBool(c echo.Context, name string) (bool, error) {
	values, ok := c.QueryParams()[name]
	if !ok {
		return false, nil
	}
	if values[0] == "" {
		return true, nil
	}
	v, err := strconv.ParseBool(values[0])
	if err != nil {
		return false, badParameter("query/"+name, "must be true or false, not %.40q", values[0])
	}
	return v, nil
}

// queryLimit reads the page size of a listing.
func queryLimit(c echo.Context) (int, error) {
	n, err := queryInt(c, "limit", defaultPage, 1, maxPage)
	return int(n), err
}

// sealCursor makes the text by which a listing goes on, or fails while the cluster has no secret yet.
func (g *Gateway) sealCursor(kind cursor.Kind, scope string, payload []byte) (string, error) {
	number, secret := g.view.NewestSecret()
	if secret == nil {
		return "", mqerr.New(mqerr.MetadataUnavailable, "the cluster has no secrets yet")
	}
	return cursor.Seal(kind, scope, payload, number, secret), nil
}

// queryCursor opens the request's cursor; nil says that there is none.
func (g *Gateway) queryCursor(c echo.Context, kind cursor.Kind, scope string) ([]byte, error) {
	text := c.QueryParam("cursor")
	if text == "" {
		return nil, nil
	}
	payload, err := cursor.Open(kind, scope, text, g.view.Secret)
	if err == nil && payload == nil {
		payload = []byte{}
	}
	return payload, err
}

// currentTopic reads a topic as etcd has it, so that what another gateway has just made or changed counts; while
// the coordinators are away, as this gateway knows it.
func (g *Gateway) currentTopic(ctx context.Context, name string) (meta.Topic, error) {
	t, err := g.store.GetTopic(ctx, name)
	if mqerr.Is(err, mqerr.MetadataUnavailable) {
		if known, ok := g.view.Topic(name); ok {
			return known, nil
		}
	}
	return t, err
}

// knownTopic finds a topic for a call on its messages: in this gateway's view, and if it is not there, in etcd.
func (g *Gateway) knownTopic(ctx context.Context, name string) (meta.Topic, error) {
	if t, ok := g.view.Topic(name); ok {
		return t, nil
	}
	return g.store.GetTopic(ctx, name)
}

// showIn waits a little until this gateway's own view shows a change.
func (g *Gateway) showIn(ctx context.Context, shows func(*meta.View) bool) {
	ctx, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	_ = g.view.WaitFor(ctx, shows) // it is a courtesy: the change is made either way
}
