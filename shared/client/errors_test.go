package client

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// An error says each thing once: the server's detail is often that of its first field.
func TestErrorText(t *testing.T) {
	fields := []mqerr.Field{{Pointer: "/a", Detail: "too big"}, {Pointer: "/b", Detail: "too small"}}
	for _, tt := range []struct {
		e    Error
		want string
	}{
		{Error{Code: "internal"}, "internal"},
		{Error{Code: "topic_not_found", Title: "There is no such topic.", Detail: "topic t"}, "topic_not_found: topic t"},
		{Error{Code: "invalid_receipt", Title: "No receipt."}, "invalid_receipt: No receipt."},
		{Error{Code: "validation_failed", Detail: "/a: too big", Fields: fields}, "validation_failed: /a: too big; /b: too small"},
		{Error{Code: "validation_failed", Detail: "too big", Fields: fields[:1]}, "validation_failed: /a: too big"},
		{Error{Code: "validation_failed", Detail: "two faults", Fields: fields}, "validation_failed: two faults; /a: too big; /b: too small"},
	} {
		if got := tt.e.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
