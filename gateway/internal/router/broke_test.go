package router

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// What a caller reads of a node without a connection is which one it is, nothing of transports.
func TestWordsOfBrokenConnections(t *testing.T) {
	n := &node{name: "node-1"}
	if got, want := n.away(), mqerr.New(mqerr.NoLeader, "node node-1 is not connected yet"); got.Error() != want.Error() {
		t.Errorf("before the first try: %v", got)
	}
	n.failed.Store(true)
	if got, want := n.away(), mqerr.New(mqerr.NoLeader, "node-1 can't be reached"); got.Error() != want.Error() {
		t.Errorf("after it: %v", got)
	}
	if got, want := broke(mqerr.OutcomeUnknown, "node-1"), mqerr.New(mqerr.OutcomeUnknown, "the connection to node-1 broke"); got.Error() != want.Error() {
		t.Errorf("in a call: %v", got)
	}
}
