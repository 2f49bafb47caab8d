package api

import "github.com/splashdam/splashdam/shared/mqerr"

// ProblemType is the media type of every error answer (RFC 9457).
const ProblemType = "application/problem+json"

// Problem is the body of an error answer.
type Problem struct {
	Type      string        `json:"type"`  // a URI reference that names the code
	Title     string        `json:"title"` // what the code means and what to do
	Status    int           `json:"status"`
	Code      string        `json:"code"`      // a name of the table in shared/mqerr
	Retryable bool          `json:"retryable"` // the same request may be sent again unchanged
	Detail    string        `json:"detail,omitempty"`
	RequestID string        `json:"request_id,omitempty"`
	Errors    []mqerr.Field `json:"errors,omitempty"` // each bad field by pointer
}

// ItemError stands in the place of an item's result where that item of a batch or of a stream failed.
type ItemError struct {
	Code      string        `json:"code"`
	Retryable bool          `json:"retryable"`
	Detail    string        `json:"detail,omitempty"`
	Errors    []mqerr.Field `json:"errors,omitempty"`
}

// ItemErrorOf makes the item form of an error; nil stays nil.
func ItemErrorOf(err error) *ItemError {
	e := mqerr.Of(err)
	if e == nil {
		return nil
	}
	return &ItemError{Code: e.Code.String(), Retryable: e.Code.Retryable(), Detail: e.Detail, Errors: e.Fields}
}
