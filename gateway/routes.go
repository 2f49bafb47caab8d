package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/shared/mq"
)

// route is one row of the table of calls; /openapi.json describes the same ones, which a test checks.
type route struct {
	method, path string
	handle       func(echo.Context) error
	query        []string // the names that its query may have
}

// routes is every call of the gateway.
func (g *Gateway) routes() []route {
	return slices.Concat(
		g.dataRoutes(),
		g.controlRoutes(),
		g.operateRoutes(),
		g.scheduledRoutes(),
		g.streamRoutes(),
		g.groupRoutes(),
		g.webhookRoutes(),
		g.memberRoutes(),
	)
}

// dataRoutes are the calls that carry messages and receipts.
func (g *Gateway) dataRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/topics/:topic/messages", g.handlePublish, nil},
		{http.MethodPost, "/v1/topics/:topic/messages/batch", g.handlePublishBatch, []string{"results", "strict"}},
		{http.MethodPost, "/v1/topics/:topic/groups/:group/receive", g.handleReceive, []string{"max", "wait", "raw", "encoding"}},
		{http.MethodPost, "/v1/settle", g.handleSettle, nil},
		{http.MethodPost, "/v1/ack", g.handleAck, nil},
		{http.MethodPost, "/v1/nack", g.handleNack, nil},
		{http.MethodPost, "/v1/release", g.handleRelease, nil},
		{http.MethodPost, "/v1/reject", g.handleReject, nil},
		{http.MethodPost, "/v1/extend", g.handleExtend, nil},
	}
}

// newEcho makes the router with what is common to all calls.
func (g *Gateway) newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	// The peer's own address: headers that a caller can write never say who it is (museum 32).
	e.IPExtractor = echo.ExtractIPDirect()
	e.HTTPErrorHandler = g.onError
	e.Pre(g.withRequestID, g.withRecover)
	for _, r := range g.routes() {
		e.Add(r.method, r.path, g.observed(r))
	}
	return e
}

// observed counts a route's calls and times them. The counters are looked up once per status, not per call.
func (g *Gateway) observed(r route) echo.HandlerFunc {
	seconds := g.metrics.seconds.WithLabelValues(r.method, r.path)
	changes := r.changes()
	answers := newStatusCounters(g.metrics.requests.MustCurryWith(prometheus.Labels{"method": r.method, "route": r.path}))
	return func(c echo.Context) error {
		start := time.Now()
		if c.Request().ContentLength == 0 {
			// Nothing more is read: the deadline for that must not end a long poll, see readBody.
			_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Time{})
		}
		err := checkQuery(c.Request().URL, r.query)
		if err == nil && strings.HasPrefix(r.path, "/v1/") {
			err = g.hasMetadata()
		}
		if err == nil && changes {
			err = g.checkOrigin(c.Request())
		}
		if err == nil {
			err = r.handle(c)
		}
		if err != nil {
			g.onError(err, c)
		}
		seconds.Observe(time.Since(start).Seconds())
		answers.count(c.Response().Status)
		return nil
	}
}

// checkQuery refuses a query of the API that would be passed over in part: what is misspelled, broken or
// given twice is not what its sender meant, and ?dry_run=true;x would delete.
func checkQuery(u *url.URL, known []string) error {
	if u.RawQuery == "" || !strings.HasPrefix(u.Path, "/v1/") {
		return nil
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return badParameter("query", "can't be read: %v", err)
	}
	for name, v := range values {
		short := name[:min(len(name), 64)]
		switch {
		case !slices.Contains(known, name):
			return badParameter("query/"+short, "is no parameter of this call")
		case len(v) > 1:
			return badParameter("query/"+short, "is given %d times", len(v))
		}
	}
	return nil
}

// pathName reads a name from the path; what is no name is 400 and goes no further.
func pathName(c echo.Context, param string) (string, error) {
	v := c.Param(param)
	if c.Request().URL.RawPath != "" { // the router went by that; else the path is unescaped already, and once is enough
		if u, err := url.PathUnescape(v); err == nil {
			v = u
		}
	}
	if err := mq.CheckName(v); err != nil {
		return "", badParameter("path/"+param, "%v", err)
	}
	return v, nil
}

// queryInt reads a whole number from the query, or def if it is not there.
func queryInt(c echo.Context, name string, def, low, high int64) (int64, error) {
	s := c.QueryParam(name)
	if s == "" && !c.QueryParams().Has(name) {
		return def, nil // what is said and empty is refused: mostly a variable that somebody's script forgot to set
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < low || v > high {
		return 0, badParameter("query/"+name, "must be a whole number from %d to %d, not %.40q", low, high, s)
	}
	return v, nil
}

// queryDuration reads a duration from the query, or def if it is not there.
func queryDuration(c echo.Context, name string, def, low, high time.Duration) (time.Duration, error) {
	s := c.QueryParam(name)
	if s == "" && !c.QueryParams().Has(name) {
		return def, nil
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < low || v > high {
		return 0, badParameter("query/"+name, "must be a duration from %s to %s (30s, 5m), not %.40q", mq.Duration(low), mq.Duration(high), s)
	}
	return v, nil
}
