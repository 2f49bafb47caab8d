package gateway

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// A browser lets a page of any site send a POST to this gateway, if it looks like that of a form, or open a stream, and only keeps the
// answer from it. There is no login, so whoever reaches the gateway may do everything: what a page of another site may not do is decided here.

// changes says whether a call does more than answer: what a page can make a browser send, and is not to.
func (r *route) changes() bool {
	return strings.HasPrefix(r.path, "/v1/") && (r.method != http.MethodGet || strings.HasSuffix(r.path, "/stream"))
}

// checkOrigin refuses pages of other sites: a browser would let them speak with this gateway in its user's name. Programs
// send none of the headers that are looked at.
func (g *Gateway) checkOrigin(r *http.Request) error {
	origin := r.Header.Get(echo.HeaderOrigin)
	if origin == "" {
		switch r.Header.Get("Sec-Fetch-Site") { // it comes without an origin where no page asked for the answer
		case "", "same-origin", "none":
			return nil
		}
		return badParameter("header/Sec-Fetch-Site", "pages of other sites may not call this")
	}
	u, err := url.Parse(origin)
	known := func(pattern string) bool {
		ok, _ := path.Match(strings.ToLower(pattern), strings.ToLower(u.Host))
		return ok
	}
	if err == nil && (strings.EqualFold(u.Host, r.Host) || slices.ContainsFunc(g.cfg.Origins, known)) {
		return nil
	}
	return badParameter("header/Origin", "pages of %.80q may not call this; see --origins", origin)
}
