package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// Error is every answer of the server that is not a success, and a request whose fate is not known. Match
// it with errors.As, or ask for one code with IsCode.
type Error struct {
	// Code is the code of the API's table ("topic_not_found"); "outcome_unknown" also stands for a request
	// that was sent and never answered, and "http_502" and the like for an answer that is no problem
	// document (a proxy's page).
	Code string
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// Title says in general what the code means and what to do, Detail what it was in this request.
	Title, Detail string
	// Retryable says that the same request may be sent again unchanged. With outcome_unknown it may then
	// be carried out twice.
	Retryable bool
	// RetryAfter is how long the server asks to wait first; 0 when it does not say.
	RetryAfter time.Duration
	// Fields names each bad field of the request.
	Fields []mqerr.Field
	// RequestID finds the request in the server's log.
	RequestID string

	cause error
}

func (e *Error) Error() string {
	parts := make([]string, 0, len(e.Fields)+1)
	for _, f := range e.Fields {
		parts = append(parts, f.Pointer+": "+f.Detail)
	}
	// The detail often is the first field's, and is then not said twice.
	if text := cmp.Or(e.Detail, e.Title); text != "" && !e.inFields(text) {
		parts = slices.Insert(parts, 0, text)
	}
	if len(parts) == 0 {
		return e.Code
	}
	return e.Code + ": " + strings.Join(parts, "; ")
}

func (e *Error) inFields(text string) bool {
	return slices.ContainsFunc(e.Fields, func(f mqerr.Field) bool { return strings.HasSuffix(text, f.Detail) })
}

// Unwrap gives the error of the connection or the context behind an unknown outcome.
func (e *Error) Unwrap() error { return e.cause }

// OutcomeUnknown says that the request may or may not have been carried out.
func (e *Error) OutcomeUnknown() bool { return e.Code == codeOutcomeUnknown }

// IsCode says whether err is an Error with this code of the API's table.
func IsCode(err error, code mqerr.Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code.String()
}

// IsOutcomeUnknown says whether err leaves open if the request was carried out.
func IsOutcomeUnknown(err error) bool { return IsCode(err, mqerr.OutcomeUnknown) }

var codeOutcomeUnknown = mqerr.OutcomeUnknown.String()

// unknown wraps the fault that hit a request after it may have been sent.
func unknown(cause error) *Error {
	return &Error{Code: codeOutcomeUnknown, Title: mqerr.OutcomeUnknown.Title(), Retryable: true,
		Detail: "the request was sent, but no answer came: " + cause.Error(), cause: cause}
}

// problem is the body of application/problem+json.
type problem struct {
	Title     string        `json:"title"`
	Code      string        `json:"code"`
	Retryable bool          `json:"retryable"`
	Detail    string        `json:"detail"`
	RequestID string        `json:"request_id"`
	Errors    []mqerr.Field `json:"errors"`
}

func (p *problem) toError(status int) *Error {
	return &Error{Code: p.Code, Status: status, Title: p.Title, Detail: p.Detail, Retryable: p.Retryable,
		Fields: p.Errors, RequestID: p.RequestID}
}

// maxProblem bounds how much of an error answer is read; the rest is dropped with the connection.
const maxProblem = 256 << 10

// readProblem turns an answer with an error status into an Error. It does not close the body.
func readProblem(r *http.Response) *Error {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxProblem))
	var p problem
	var e *Error
	if json.Unmarshal(body, &p) == nil && p.Code != "" {
		e = p.toError(r.StatusCode)
	} else {
		e = foreign(r.StatusCode, body)
	}
	if e.RequestID == "" {
		e.RequestID = r.Header.Get("X-Request-Id")
	}
	e.RetryAfter = retryAfter(r.Header.Get("Retry-After"), time.Now())
	return e
}

// foreign is an answer that this API did not write: a proxy in front of it, or another server. 502 and 504
// of a proxy say nothing about what the server behind it did.
func foreign(status int, body []byte) *Error {
	text := strings.ToValidUTF8(strings.TrimSpace(string(body)), "?")
	if len(text) > 200 {
		text = text[:200] + "..."
	}
	if status == http.StatusBadGateway || status == http.StatusGatewayTimeout {
		e := unknown(fmt.Errorf("HTTP status %d: %s", status, text))
		e.Status = status
		return e
	}
	return &Error{Code: "http_" + strconv.Itoa(status), Status: status, Title: http.StatusText(status),
		Detail: text, Retryable: status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable}
}

// retryAfter reads the header's two forms, seconds and a date; 0 for anything else.
func retryAfter(text string, now time.Time) time.Duration {
	if s, err := strconv.Atoi(text); err == nil && s > 0 && s < 1<<20 {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
