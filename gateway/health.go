package gateway

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// handleLive says that the process answers.
func (g *Gateway) handleLive(c echo.Context) error {
	return answerJSON(c, http.StatusOK, api.Health{Status: "ok"})
}

// handleReady says whether requests should come here: not before the first metadata and not while draining.
// A leader that is away is no reason: the other gateways would not have it either.
func (g *Gateway) handleReady(c echo.Context) error {
	select {
	case <-g.draining:
		return mqerr.New(mqerr.Draining, "")
	default:
	}
	if !g.ready.Load() {
		return mqerr.New(mqerr.MetadataUnavailable, "the gateway is starting")
	}
	return answerJSON(c, http.StatusOK, api.Health{Status: "ok"})
}

// handleMetrics answers the registry that the gateway was started with, if it can be read.
func (g *Gateway) handleMetrics(c echo.Context) error {
	gatherer, ok := g.reg.(prometheus.Gatherer)
	if !ok {
		return mqerr.New(mqerr.RouteNotFound, "this gateway was started without a metrics registry of its own")
	}
	promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}).ServeHTTP(c.Response(), c.Request())
	return nil
}
