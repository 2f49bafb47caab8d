package router

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a caller reads of a broken connection is the reason, not gRPC's form of it.
func TestReason(t *testing.T) {
	for _, err := range []error{errors.New("it broke"), status.Error(codes.Unavailable, "it broke"),
		fmt.Errorf("stream: %w", status.Error(codes.Canceled, "it broke"))} {
		if got := reason(err); got != "it broke" {
			t.Errorf("%v: %q", err, got)
		}
	}
}
