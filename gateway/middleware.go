package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/mqerr"
)

const maxRequestID = 128

// withRequestID echoes a sound X-Request-Id or makes one.
func (g *Gateway) withRequestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Request().Header.Get(echo.HeaderXRequestID)
		if !soundRequestID(id) {
			var b [48]byte
			id = string(strconv.AppendUint(append(b[:0], g.requestPrefix...), g.requests.Add(1), 36))
		}
		c.Response().Header()[echo.HeaderXRequestID] = []string{id}
		return next(c)
	}
}

// requestID is what withRequestID set.
func requestID(c echo.Context) string {
	if v := c.Response().Header()[echo.HeaderXRequestID]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func soundRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false // printable ASCII only, so that it can go into logs and JSON as it is
		}
	}
	return true
}

// withRecover turns a panic of a handler into a 500 with its stack in the log.
func (g *Gateway) withRecover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			r := recover()
			if r == nil {
				return
			}
			if e, ok := r.(error); ok && errors.Is(e, http.ErrAbortHandler) {
				panic(r) // net/http's own way to cut a connection
			}
			g.log.Error("panic in a handler", slog.String("request_id", requestID(c)), slog.String("route", c.Path()),
				slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
			err = &mqerr.Error{Code: mqerr.Internal, Detail: fmt.Sprint("panic: ", r)}
		}()
		return next(c)
	}
}

// hasMetadata refuses what comes before the first metadata: every topic would be unknown here, and every receipt
// a forged one, which its consumer takes for final.
func (g *Gateway) hasMetadata() error {
	select {
	case <-g.view.Ready():
		return nil
	default:
		return mqerr.New(mqerr.MetadataUnavailable, "the gateway is starting")
	}
}
