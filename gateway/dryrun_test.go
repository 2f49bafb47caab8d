package gateway

import (
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Whatever removes or replaces something says what it would do before, when it is asked to. What is taken back by the opposite
// call (pause, drain's DELETE) and what a consumer does with what is leased to it is not of that kind.
func TestDestructiveCallsHaveDryRuns(t *testing.T) {
	g := &Gateway{}
	own := []string{"PUT /v1/topics/:topic", "PATCH /v1/topics/:topic", "PUT /v1/topics/:topic/groups/:group",
		"PUT /v1/topics/:topic/webhooks/:webhook", "POST /v1/topics/:topic/webhooks/:webhook/rotate-secret",
		"POST /v1/topics/:topic/webhooks/:webhook/replay", "POST /v1/topics/:topic/groups/:group/seek",
		"POST /v1/topics/:topic/groups/:group/redrive", "POST /v1/nodes/:node/drain",
		"POST /v1/topics/:topic/partitions/:partition/move-leader", "POST /v1/topics/:topic/partitions/:partition/force-recover",
		"POST /v1/cluster/rebuild-metadata"}
	found := 0
	for _, r := range g.routes() {
		name := r.method + " " + r.path
		listed := slices.Contains(own, name)
		if listed {
			found++
		}
		if destructive := listed || r.method == http.MethodDelete && name != "DELETE /v1/nodes/:node/drain"; destructive && !slices.Contains(r.query, "dry_run") {
			t.Errorf("%s has no dry_run", name)
		}
	}
	if found != len(own) {
		t.Errorf("%d of %d calls are in the table", found, len(own))
	}
}

func TestDryRunsOfConfiguration(t *testing.T) {
	h := startHarness(t)
	orders := h.topic("orders", `{"partitions":1,"retention":{"time":"48h"}}`)
	h.node.set(func() {
		h.node.removal = map[mq.PartitionID]*mqpb.Removal{{Topic: orders}: {Segments: 3, Messages: 12, Bytes: 4000, KeptFor: "g"}}
	})
	removal := &api.Removal{Segments: 3, Messages: 12, Bytes: 4000, Partitions: []api.PartitionRemoval{{Segments: 3, Messages: 12, Bytes: 4000, KeptFor: "g"}}}
	h.ok(201, "PUT", "/v1/topics/orders/groups/g", `{"dead":{"max_count":10},"lease":"1m"}`)
	h.ok(201, "PUT", "/v1/topics/orders/webhooks/w", `{"url":"https://example.com/","headers":{"X-Token":"abc"}}`)

	tests := []struct {
		method, path, body string
		want               api.ConfigChange
	}{
		{"PATCH", "/v1/topics/orders", `{"retention":{"time":"1h","bytes":1000}}`, api.ConfigChange{Topic: "orders", Removal: removal, Changes: []api.SettingChange{
			{Setting: "/retention/bytes", From: 0.0, To: 1000.0, Removes: true}, {Setting: "/retention/time", From: "48h", To: "1h", Removes: true}}}},
		{"PATCH", "/v1/topics/orders", `{"retention":{"time":"72h"}}`, api.ConfigChange{Topic: "orders", Changes: []api.SettingChange{
			{Setting: "/retention/time", From: "48h", To: "72h"}}}},
		{"PATCH", "/v1/topics/orders", `{"retention":{"time":"48h"}}`, api.ConfigChange{Topic: "orders", Changes: []api.SettingChange{}}},
		{"PUT", "/v1/topics/orders", `{"partitions":1,"retention":{"keep_unsettled":false}}`, api.ConfigChange{Topic: "orders", Removal: removal, Changes: []api.SettingChange{
			{Setting: "/retention/keep_unsettled", From: true, To: false, Removes: true}, {Setting: "/retention/time", From: "48h", To: "168h"}}}},
		{"PUT", "/v1/topics/new", `{"partitions":3}`, api.ConfigChange{Topic: "new", Created: true, Changes: []api.SettingChange{}}},
		{"PUT", "/v1/topics/orders/groups/g", `{"dead":{"max_count":5},"lease":"1m","filter":{"kind":["a"]}}`, api.ConfigChange{Topic: "orders", Group: "g",
			Changes: []api.SettingChange{{Setting: "/dead/max_count", From: 10.0, To: 5.0, Removes: true}, {Setting: "/filter/kind", To: "a"}}}},
		{"PUT", "/v1/topics/orders/groups/new", `{}`, api.ConfigChange{Topic: "orders", Group: "new", Created: true, Changes: []api.SettingChange{}}},
		// The values of headers may be passwords.
		{"PUT", "/v1/topics/orders/webhooks/w", `{"url":"https://example.com/x","headers":{"X-Token":"def"}}`, api.ConfigChange{Topic: "orders", Webhook: "w",
			Changes: []api.SettingChange{{Setting: "/headers/X-Token", From: "***", To: "***"}, {Setting: "/url", From: "https://example.com/", To: "https://example.com/x"}}}},
		{"PUT", "/v1/topics/orders/webhooks/new", `{"url":"https://example.com/"}`, api.ConfigChange{Topic: "orders", Webhook: "new", Created: true, Changes: []api.SettingChange{}}},
	}
	for _, tt := range tests {
		tt.want.DryRun = true
		if got := decodeAs[api.ConfigChange](t, h.ok(200, tt.method, tt.path+"?dry_run=true", tt.body)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s %s %s: %+v, want %+v", tt.method, tt.path, tt.body, got, tt.want)
		}
	}
	if got := decodeAs[api.Topic](t, h.ok(200, "GET", "/v1/topics/orders", "")).Settings.Retention; got.Time.String() != "48h" || got.Bytes != 0 || !got.KeepUnsettled {
		t.Errorf("a dry run changed the topic: %+v", got)
	}
	if got := decodeAs[api.Group](t, h.ok(200, "GET", "/v1/topics/orders/groups/g", "")).Settings; got.Dead.MaxCount != 10 || len(got.Filter) != 0 {
		t.Errorf("a dry run changed the group: %+v", got)
	}
	for _, path := range []string{"/v1/topics/new", "/v1/topics/orders/groups/new", "/v1/topics/orders/webhooks/new"} {
		h.ok(404, "GET", path, "")
	}

	// It fails as the call itself would.
	h.fails("validation_failed", "/retention/time", "PATCH", "/v1/topics/orders?dry_run=true", `{"retention":{"time":"1s"}}`)
	h.fails("validation_failed", "/partitions", "PUT", "/v1/topics/orders?dry_run=true", `{"partitions":0}`)
	h.fails("topic_not_found", "", "PATCH", "/v1/topics/new?dry_run=true", `{}`)
	h.fails("precondition_failed", "", "PATCH", "/v1/topics/orders?dry_run=true", `{}`, "If-Match", `"1"`)
	h.fails("already_exists", "", "PUT", "/v1/topics/orders?dry_run=true", `{}`, "If-None-Match", "*")
	h.fails("precondition_failed", "", "PUT", "/v1/topics/orders/groups/new?dry_run=true", `{}`, "If-Match", "*")
	h.fails("validation_failed", "/start", "PUT", "/v1/topics/orders/groups/g?dry_run=true", `{"start":{"at":"latest"}}`)
	h.fails("validation_failed", "/headers/X-None", "PUT", "/v1/topics/orders/webhooks/w?dry_run=true", `{"url":"https://example.com/","headers":{"X-None":"***"}}`)
}

func TestDryRunsOfActions(t *testing.T) {
	h := startHarness(t)
	h.topic("orders", `{"partitions":1}`)

	if n := decodeAs[api.NodeInfo](t, h.ok(200, "POST", "/v1/nodes/node-1/drain?dry_run=true", "")); !n.DryRun || !n.Draining || n.Leads != 1 || n.Replicas != 1 || n.NeededBy != 1 || n.NodesWanted != 1 {
		t.Errorf("drain: %+v", n)
	}
	if n := decodeAs[api.Cluster](t, h.ok(200, "GET", "/v1/cluster", "")).Nodes; n[0].Draining || n[0].DryRun {
		t.Errorf("a dry run drained: %+v", n)
	}
	h.fails("node_not_found", "", "POST", "/v1/nodes/node-9/drain?dry_run=true", "")
	move := "/v1/topics/orders/partitions/0/move-leader?dry_run=true"
	if m := decodeAs[api.MoveLeaderAnswer](t, h.ok(200, "POST", move, `{"to":"node-1"}`)); m != (api.MoveLeaderAnswer{DryRun: true, Leader: "node-1", From: "node-1"}) {
		t.Errorf("move: %+v", m)
	}
	h.fails("not_enough_replicas", "", "POST", move, "")
	h.fails("validation_failed", "/to", "POST", move, `{"to":"node-9"}`)
	for _, call := range []string{"/v1/cluster/rebuild-metadata", "/v1/cluster/rebuild-metadata?dry_run=true"} {
		h.fails("nothing_to_recover", "", "POST", call, "") // nothing was lost
	}

	h.ok(201, "PUT", "/v1/topics/orders/groups/g", `{"mode":"assigned"}`)
	h.ok(201, "POST", "/v1/topics/orders/groups/g/members", `{"name":"m1"}`)
	want := api.MemberLeave{DryRun: true, Topic: "orders", Group: "g", Member: "m1", Joined: true, Assignment: []uint32{}} // nothing assigns here
	for range 2 {
		if got := decodeAs[api.MemberLeave](t, h.ok(200, "DELETE", "/v1/topics/orders/groups/g/members/m1?dry_run=true", "")); !reflect.DeepEqual(got, want) {
			t.Errorf("leave: %+v", got)
		}
	}
	if got := decodeAs[api.MemberLeave](t, h.ok(200, "DELETE", "/v1/topics/orders/groups/g/members/m2?dry_run=true", "")); got.Joined {
		t.Errorf("who is no member: %+v", got)
	}
	h.ok(204, "DELETE", "/v1/topics/orders/groups/g/members/m1", "")

	made := decodeAs[api.Webhook](t, h.ok(201, "PUT", "/v1/topics/orders/webhooks/w", `{"url":"https://example.com/"}`))
	rotate := "/v1/topics/orders/webhooks/w/rotate-secret?dry_run=true"
	got := decodeAs[api.Webhook](t, h.ok(200, "POST", rotate, ""))
	if !got.DryRun || got.Secret != "" || len(got.Secrets) != 1 || got.Secrets[0].Fingerprint != made.Secrets[0].Fingerprint || got.Secrets[0].Until.IsZero() {
		t.Errorf("rotation: %+v", got)
	}
	if got := decodeAs[api.Webhook](t, h.ok(200, "POST", rotate, `{"overlap":"0s"}`)); len(got.Secrets) != 0 {
		t.Errorf("a rotation without overlap: %+v", got.Secrets)
	}
	if now := decodeAs[api.Webhook](t, h.ok(200, "GET", "/v1/topics/orders/webhooks/w", "")); !reflect.DeepEqual(now.Secrets, made.Secrets) {
		t.Errorf("a dry run rotated: %+v", now.Secrets)
	}
}

// The sums of a dry run are those of the partitions whose leaders answer, and the others are named.
func TestDryRunOfRetentionNamesWhatIsMissing(t *testing.T) {
	h := startHarness(t)
	logs := h.topic("logs", `{"partitions":3}`)
	h.node.set(func() { // the second one's node says nothing of it
		h.node.removal = map[mq.PartitionID]*mqpb.Removal{{Topic: logs}: {Segments: 1, Messages: 5, Bytes: 500}, {Topic: logs, Number: 2}: {Segments: 2, Messages: 7, Bytes: 700}}
	})
	preview := func() *api.Removal {
		t.Helper()
		return decodeAs[api.ConfigChange](t, h.ok(200, "PATCH", "/v1/topics/logs?dry_run=true", `{"retention":{"bytes":10000}}`)).Removal
	}
	got := preview()
	if got == nil || !got.Partial || got.Segments != 3 || got.Messages != 12 || got.Bytes != 1200 || len(got.Partitions) != 3 || got.Partitions[1].Error == nil ||
		got.Partitions[0].Error != nil || got.Partitions[2].Messages != 7 {
		t.Errorf("one is missing: %+v", got)
	}
	h.node.set(func() { h.node.refuses = mqerr.New(mqerr.NoLeader, "not yet") })
	if got := preview(); got == nil || !got.Partial || got.Messages != 0 || got.Partitions[0].Error == nil || got.Partitions[0].Error.Code != "no_leader" {
		t.Errorf("nobody answers: %+v", got)
	}
}
