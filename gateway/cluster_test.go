package gateway

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

func TestTraceClusterAndHealth(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	id := h.topic("traced", `{"partitions":2}`)
	t.Run("trace", func(t *testing.T) { testTrace(t, h, id) })
	t.Run("cluster", func(t *testing.T) { testCluster(t, h) })
	t.Run("health", func(t *testing.T) { testHealth(t, h) })
}

func testTrace(t *testing.T, h *harness, topic mq.TopicID) {
	h.ok(201, "PUT", "/v1/topics/traced/groups/g", "")
	group, _ := h.g.view.Group(topic, "g")
	gid := uint64(group.ID)
	h.node.set(func() {
		h.node.traces[5] = &mqpb.TraceResponse{
			Events: []*mqpb.TraceEvent{
				{At: 10e9, Type: "PUBLISHED", Gateway: "gateway-1", Producer: "10.0.0.1"},
				{At: 12e9, Type: "DELIVERED", Group: gid, Consumer: "c1", Attempt: 1, Until: 42e9},
				{At: 11e9, Type: "REPLICATED", Node: "node-1", Replicas: []string{"node-1"}, Quorum: 1},
				{At: 15e9, Type: "REDELIVERED", Group: gid, Attempt: 2},
				{At: 16e9, Type: "ACKNOWLEDGED", Group: gid},
				{At: 17e9, Type: "DELIVERED", Group: 999, Attempt: 1},
				{At: 18e9, Type: "NACKED", Group: 998},
			},
			Groups: []*mqpb.TraceGroup{{Group: gid, State: "acked", Attempts: 2}, {Group: 999, State: "leased", Attempts: 1, Name: "gone"}},
		}
	})
	got := decodeAs[api.Trace](t, h.ok(200, "GET", "/v1/messages/"+mq.MessageID{Partition: part(topic, 1), Number: 5}.String()+"/trace", ""))
	var types []string
	for _, e := range got.Events {
		types = append(types, e.Type)
	}
	if !slices.Equal(types, []string{"PUBLISHED", "REPLICATED", "DELIVERED", "REDELIVERED", "ACKNOWLEDGED", "DELIVERED", "NACKED"}) || got.Events[6].Group != "#998" {
		t.Errorf("events by time: %v", types)
	}
	if got.Topic != "traced" || got.Partition != 1 || got.Offset == nil || *got.Offset != 5 || got.Events[2].Group != "g" || !got.Events[2].Until.Equal(time.Unix(42, 0)) || got.Events[5].Group != "gone" {
		t.Errorf("%+v", got)
	}
	second := mq.Duration(time.Second)
	if want := (api.TraceLatency{Committed: second, Delivered: 2 * second, Acknowledged: 6 * second}); got.Latency != want {
		t.Errorf("latency %+v, want %+v", got.Latency, want)
	}
	if g := got.Groups[0]; g.Group != "g" || g.State != "acked" || g.Attempts != 2 || g.Delivered != 2*second || g.Acknowledged != 6*second {
		t.Errorf("group: %+v", g)
	}
	if g := got.Groups[1]; g.Group != "gone" || g.Delivered != 7*second || g.Acknowledged != 0 {
		t.Errorf("a group that is deleted: %+v", g)
	}
	untimed := mq.MessageID{Partition: part(topic, 1), Number: 7}
	h.node.set(func() {
		h.node.traces[7] = &mqpb.TraceResponse{Events: []*mqpb.TraceEvent{{At: 10e9, Type: "PUBLISHED"},
			{Type: "REPLICATED", AtLatest: 30e9, Quorum: 1}, {At: 30e9, Type: "DELIVERED", Group: gid, Attempt: 1}}}
	})
	got = decodeAs[api.Trace](t, h.ok(200, "GET", "/v1/messages/"+untimed.String()+"/trace", ""))
	if e := got.Events[1]; e.Type != "REPLICATED" || !e.At.IsZero() || !e.AtLatest.Equal(time.Unix(30, 0)) || got.Latency != (api.TraceLatency{Delivered: 20 * second}) {
		t.Errorf("a commit without a time: %+v", got)
	}
	h.fails("message_not_found", "", "GET", "/v1/messages/"+mq.MessageID{Partition: part(topic, 1), Number: 6}.String()+"/trace", "")
}

func testCluster(t *testing.T, h *harness) {
	h.ok(201, "PUT", "/v1/topics/closed-2?wait=1ms", `{"partitions":3}`)
	got := decodeAs[api.Cluster](t, h.ok(200, "GET", "/v1/cluster", ""))
	if len(got.ID) != 32 || got.Gateway != "gateway-1" || got.Topics != 2 {
		t.Errorf("%+v", got)
	}
	if want := (api.PartitionCounts{Total: 5, WithLeader: 2, UnderReplicated: 3}); got.Partitions != want {
		t.Errorf("partitions %+v, want %+v", got.Partitions, want)
	}
	want := api.NodeInfo{Name: "node-1", Alive: true, Store: string(fakeStore), Boot: 3, Address: h.node.addr, Zone: "a", Leads: 2, Replicas: 2}
	if len(got.Nodes) != 1 || got.Nodes[0] != want {
		t.Errorf("nodes %+v, want %+v", got.Nodes, want)
	}
	if len(got.Gateways) != 1 || "http://"+got.Gateways[0].Address != h.g.URL() {
		t.Errorf("gateways %+v", got.Gateways)
	}
}

func testHealth(t *testing.T, h *harness) {
	for _, path := range []string{"/livez", "/readyz"} {
		if got := decodeAs[api.Health](t, h.ok(200, "GET", path, "")); got.Status != "ok" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	h.g.ready.Store(false)
	h.fails("metadata_unavailable", "", "GET", "/readyz", "")
	h.g.ready.Store(true)
	if a := h.ok(200, "GET", "/metrics", ""); !strings.Contains(string(a.body), "splashdam_gateway_requests_total") {
		t.Errorf("metrics: %.200s", a.body)
	}
	a := h.ok(200, "GET", "/openapi.json", "")
	var doc struct{ OpenAPI string }
	if err := json.Unmarshal(a.body, &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Errorf("%+v, %v", doc, err)
	}
}
