package gateway

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// A read of a partition without a leader ends with what the last node said. That it was the wrong node is no answer for
// callers: the API promises that they never see it.
func TestNotLeaderStaysInside(t *testing.T) {
	e := asError(fmt.Errorf("reading: %w", &mqerr.Error{Code: mqerr.NotLeader, Detail: "this node does not lead the partition", Leader: "node-2"}))
	if e.Code != mqerr.NoLeader || e.Leader != "" || e.Detail == "this node does not lead the partition" {
		t.Errorf("not_leader comes out as %+v", e)
	}
}

// A control call to a node that is away says which node that is, in nobody's jargon.
func TestControlCallToANodeThatIsAway(t *testing.T) {
	err := controlError("node-1", status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing"`))
	if e := mqerr.Of(err); e.Code != mqerr.NoLeader || e.Detail != "node-1 can't be reached" {
		t.Errorf("%+v", e)
	}
}
