package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/strictjson"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// precondition is what a request says about the configuration that it wants to replace.
type precondition struct {
	createOnly bool // If-None-Match: *
	mustExist  bool // If-Match of any kind
	moveKeys   bool // ?force: a topic may get more partitions although a group orders by key
	dry        bool // ?dry_run: only say what it would be
	// revisions are those named by If-Match; nil for "*" or no If-Match, empty when none is one of ours.
	revisions []int64
}

// readReplacement reads what calls that make or replace configuration begin with: the precondition and the body.
func (g *Gateway) readReplacement(c echo.Context) (cond precondition, body []byte, err error) {
	if cond, err = readRemoval(c); err != nil {
		return cond, nil, err
	}
	body, err = g.configBody(c)
	return cond, body, err
}

// readRemoval reads what calls that delete configuration begin with.
func readRemoval(c echo.Context) (p precondition, err error) {
	if p, err = readPrecondition(c.Request().Header); err != nil {
		return p, err
	}
	p.dry, err = queryBool(c, "dry_run")
	return p, err
}

// revision is the one that must still be there when what was found at a revision is deleted; 0 for any.
func (p *precondition) revision(found int64) int64 {
	if p.exact() {
		return found
	}
	return 0
}

// readAction reads what calls that move something begin with: whether they only say what it would be, and their body.
func (g *Gateway) readAction(c echo.Context, into any) (dry bool, err error) {
	if dry, err = queryBool(c, "dry_run"); err != nil {
		return false, err
	}
	return dry, g.readConfig(c, into)
}

// readConfig reads the body of a call that needs one.
func (g *Gateway) readConfig(c echo.Context, into any) error {
	body, err := g.configBody(c)
	if err != nil {
		return err
	}
	return strictjson.Decode(body, into)
}

// readOptions reads the body of a call that may come without one: then into stays as it is.
func (g *Gateway) readOptions(c echo.Context, into any) error {
	body, err := g.configBody(c)
	if err != nil || len(body) == 0 {
		return err
	}
	return strictjson.Decode(body, into)
}

// etag is the entity tag of a configuration.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// readPrecondition reads If-None-Match and If-Match.
func readPrecondition(h http.Header) (precondition, error) {
	var p precondition
	if v := strings.TrimSpace(strings.Join(h.Values("If-None-Match"), ",")); v != "" {
		if v != "*" {
			return p, badParameter("header/If-None-Match", "only * is taken here (create only)")
		}
		p.createOnly = true
	}
	v := strings.TrimSpace(strings.Join(h.Values("If-Match"), ","))
	if v == "" {
		return p, nil
	}
	if p.createOnly {
		return p, badParameter("header/If-Match", "does not go with If-None-Match")
	}
	p.mustExist = true
	if v == "*" {
		return p, nil
	}
	p.revisions = []int64{}
	for tag := range strings.SplitSeq(v, ",") {
		tag = strings.TrimSpace(tag)
		weak := strings.HasPrefix(tag, "W/")
		inner, ok := strings.CutPrefix(strings.TrimPrefix(tag, "W/"), `"`)
		inner, closed := strings.CutSuffix(inner, `"`)
		if !ok || !closed || strings.Contains(inner, `"`) {
			return p, badParameter("header/If-Match", `must be * or entity tags in quotes ("12"), not %.40q`, tag)
		}
		// A weak tag never matches here (RFC 9110, 13.1.1), and neither does what is no tag of ours.
		if n, err := strconv.ParseInt(inner, 10, 64); err == nil && !weak && n > 0 {
			p.revisions = append(p.revisions, n)
		}
	}
	return p, nil
}

// onMissing refuses a request that wants something to be there.
func (p *precondition) onMissing(what, name string) error {
	if p.mustExist {
		return mqerr.New(mqerr.PreconditionFailed, "there is no %s %q", what, name)
	}
	return nil
}

// onFound refuses a request that wants nothing to be there, or another revision.
func (p *precondition) onFound(what, name string, revision int64) error {
	if p.createOnly {
		return mqerr.New(mqerr.AlreadyExists, "%s %q", what, name)
	}
	if p.revisions != nil && !slices.Contains(p.revisions, revision) {
		return mqerr.New(mqerr.PreconditionFailed, "%s %q has the entity tag %s now", what, name, etag(revision))
	}
	return nil
}

// exact says that a change meanwhile must fail rather than be tried again.
func (p *precondition) exact() bool { return p.revisions != nil }
