package client

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
)

// A list in which a program found nothing is sent as it is, so that the gateway refuses it: left out it would choose
// everything.
func TestEmptyListsAreSent(t *testing.T) {
	for want, v := range map[string]any{
		`{"partitions":[]}`:        api.ReceiveRequest{Partitions: []uint32{}},
		`{}`:                       api.ReceiveRequest{},
		`{"filter":{"ids":[]}}`:    api.RedriveRequest{Filter: &api.DeadFilter{IDs: []string{}}},
		`{"filter":{"key":"ada"}}`: api.RedriveRequest{Filter: &api.DeadFilter{Key: new("ada")}},
	} {
		if got, err := json.Marshal(v); err != nil || string(got) != want {
			t.Errorf("%s is sent as %s (%v)", want, got, err)
		}
	}
	if got, err := json.Marshal(api.SocketSubscribe{Partitions: []uint32{}}); err != nil || !strings.Contains(string(got), `"partitions":[]`) {
		t.Errorf("a subscription is sent as %s (%v)", got, err)
	}
	if got := deadQuery(api.DeadFilter{IDs: []string{}}, map[string][]string{}); !got.Has("ids") {
		t.Errorf("the query is %v", got)
	}
}
