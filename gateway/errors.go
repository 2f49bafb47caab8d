package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const problemType = "application/problem+json"

// onError answers every error of every route, and those of the router itself (404, 405).
func (g *Gateway) onError(err error, c echo.Context) {
	if c.Response().Committed {
		return // the answer is under way; what is written can't be taken back
	}
	e := asError(err)
	if e.Code == mqerr.Internal {
		g.log.LogAttrs(c.Request().Context(), slog.LevelError, "request failed",
			slog.String("request_id", requestID(c)), slog.String("route", c.Path()), slog.Any("error", err))
		e = &mqerr.Error{Code: mqerr.Internal} // what went wrong inside is not the caller's business
	}
	drain(c.Request())
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, problemType)
	if s := retryAfter(e); s != "" {
		h.Set("Retry-After", s)
	}
	c.Response().WriteHeader(e.Code.Status())
	if c.Request().Method != http.MethodHead {
		_, _ = c.Response().Write(appendProblem(nil, e, requestID(c)))
	}
}

// asError finds the row of the table for any error that a handler may return.
func asError(err error) *mqerr.Error {
	var e *mqerr.Error
	var h *echo.HTTPError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &e) && e.Code == mqerr.NotLeader: // between tiers only
		return mqerr.New(mqerr.NoLeader, "no node that answers leads the partition now")
	case errors.As(err, &e):
		return e
	case errors.As(err, &h):
		switch h.Code {
		case http.StatusNotFound:
			return mqerr.New(mqerr.RouteNotFound, "")
		case http.StatusMethodNotAllowed:
			return mqerr.New(mqerr.MethodNotAllowed, "")
		}
		return mqerr.New(mqerr.InvalidRequest, "%v", h.Message)
	case errors.As(err, &tooLarge):
		return mqerr.New(mqerr.BodyTooLarge, "the body may have %d bytes", tooLarge.Limit)
	case errors.Is(err, context.Canceled):
		return mqerr.New(mqerr.Cancelled, "")
	case errors.Is(err, context.DeadlineExceeded):
		return mqerr.New(mqerr.Overloaded, "no answer in time")
	}
	return mqerr.Of(err)
}

// retryAfter is the header's value in whole seconds, rounded up, or "". Whatever is refused for the
// moment gets one, so that clients need no rule of their own.
func retryAfter(e *mqerr.Error) string {
	if e.RetryAfter > 0 {
		return strconv.FormatInt(int64((e.RetryAfter+999_999_999)/1_000_000_000), 10)
	}
	switch e.Code.Status() {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return "1"
	case http.StatusInsufficientStorage:
		return "10"
	}
	return ""
}

// appendProblem appends an RFC 9457 document.
func appendProblem(b []byte, e *mqerr.Error, requestID string) []byte {
	b = append(b, `{"type":"urn:splashdam:error:`...)
	b = append(b, e.Code.String()...)
	b = append(b, `","title":`...)
	b = jsonscan.AppendString(b, e.Code.Title())
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(e.Code.Status()), 10)
	b = append(b, ',')
	b = appendErrorFields(b, e)
	if requestID != "" {
		b = append(b, `,"request_id":`...)
		b = jsonscan.AppendString(b, requestID)
	}
	return append(b, '}', '\n')
}

// appendItemError appends the object that stands for an item of a batch that failed.
func appendItemError(b []byte, e *mqerr.Error) []byte {
	b = append(b, '{')
	b = appendErrorFields(b, e)
	return append(b, '}')
}

func appendErrorFields(b []byte, e *mqerr.Error) []byte {
	b = append(b, `"code":"`...)
	b = append(b, e.Code.String()...)
	b = append(b, `","retryable":`...)
	b = strconv.AppendBool(b, e.Code.Retryable())
	if e.Detail != "" {
		b = append(b, `,"detail":`...)
		b = jsonscan.AppendString(b, e.Detail)
	}
	for i, f := range e.Fields {
		if i == 0 {
			b = append(b, `,"errors":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"pointer":`...)
		b = jsonscan.AppendString(b, f.Pointer)
		b = append(b, `,"detail":`...)
		b = jsonscan.AppendString(b, f.Detail)
		b = append(b, '}')
	}
	if len(e.Fields) > 0 {
		b = append(b, ']')
	}
	return b
}

// invalid is one bad field of a body ("/retention/time", "" for the body itself), or of a header that says what the message is
// ("header/Mq-Ttl"): 422. The detail names it, too.
func invalid(pointer, format string, args ...any) *mqerr.Error {
	e := mqerr.New(mqerr.ValidationFailed, format, args...)
	e.Fields = []mqerr.Field{{Pointer: pointer, Detail: e.Detail}}
	if header, ok := strings.CutPrefix(pointer, "header/"); ok {
		e.Detail = "header " + header + ": " + e.Detail
	} else if pointer != "" {
		e.Detail = pointer + ": " + e.Detail
	}
	return e
}

// badParameter is a bad path, query or header value ("path/topic", "query/limit", "header/Mq-Key"): 400.
func badParameter(pointer, format string, args ...any) *mqerr.Error {
	e := mqerr.New(mqerr.InvalidParameter, format, args...)
	e.Fields = []mqerr.Field{{Pointer: pointer, Detail: e.Detail}}
	e.Detail = strings.ReplaceAll(pointer, "/", " ") + ": " + e.Detail
	return e
}
