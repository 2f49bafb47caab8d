package gateway

import (
	"fmt"
	"testing"

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
