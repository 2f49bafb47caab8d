// Package openapitest checks that what goes over the wire is what /openapi.json says. It is a module of its
// own, so that users of Splashdam do not inherit the validator's dependencies.
package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	verrors "github.com/pb33f/libopenapi-validator/errors"

	"github.com/splashdam/splashdam/gateway"
)

// Transport is an http.RoundTripper that holds every answer, and every request that was taken (a status below
// 400), against the gateway's document. Bodies that stream or are not JSON are passed through unread. Safe for
// many goroutines.
type Transport struct {
	// Base sends the requests.
	Base http.RoundTripper
	// Report is told of each difference. It may be called by any goroutine that sends a request.
	Report func(error)

	v validator.Validator
}

// New reads the document that this build of the gateway serves.
func New(base http.RoundTripper, report func(error)) (*Transport, error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Transport{Base: base, Report: report, v: v}, nil
}

// Document parses the gateway's document.
func Document() (libopenapi.Document, error) {
	b, err := gateway.OpenAPI()
	if err != nil {
		return nil, err
	}
	return libopenapi.NewDocument(b)
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if readable(r.Header) && r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	res, err := t.Base.RoundTrip(r)
	if err != nil || !readable(res.Header) {
		return res, err
	}
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	t.check(r, sent, res, got)
	res.Body = io.NopCloser(bytes.NewReader(got))
	return res, nil
}

func (t *Transport) check(r *http.Request, sent []byte, res *http.Response, got []byte) {
	request := r.Clone(r.Context())
	request.Body = io.NopCloser(bytes.NewReader(sent))
	request.ContentLength = int64(len(sent))
	answer := *res
	answer.Body = io.NopCloser(bytes.NewReader(got))
	if res.StatusCode < 400 && readable(r.Header) {
		if ok, errs := t.v.ValidateHttpRequest(request); !ok {
			t.report(r, res, "the request was taken, and the document does not allow it", errs)
		}
	}
	if ok, errs := t.v.ValidateHttpResponse(request, &answer); !ok {
		t.report(r, res, "the answer is not what the document says", errs)
	}
}

func (t *Transport) report(r *http.Request, res *http.Response, what string, errs []*verrors.ValidationError) {
	err := fmt.Errorf("%s %s -> %d: %s", r.Method, r.URL, res.StatusCode, what)
	for _, e := range errs {
		err = fmt.Errorf("%w; %s: %s", err, e.Message, e.Reason)
		for _, s := range e.SchemaValidationErrors {
			err = fmt.Errorf("%w; %s at %s", err, s.Reason, s.FieldPath)
		}
	}
	t.Report(err)
}

// readable says that a body may be read whole and checked: it is JSON, or there is none.
func readable(h http.Header) bool {
	ct := h.Get("Content-Type")
	if ct == "" {
		return true
	}
	kind, _, err := mime.ParseMediaType(ct)
	return err == nil && (kind == "application/json" || kind == "application/problem+json" || kind == "application/merge-patch+json")
}
