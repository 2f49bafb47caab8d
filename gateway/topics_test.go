package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

func TestTopics(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	t.Run("life", func(t *testing.T) { testTopicLife(t, h) })
	t.Run("conditions", func(t *testing.T) { testTopicConditions(t, h) })
	t.Run("figures", func(t *testing.T) { testTopicFigures(t, h) })
	t.Run("no leader", func(t *testing.T) { testTopicWithoutLeader(t, h) })
	t.Run("take over", func(t *testing.T) { testTopicTakeOver(t, h) })
	t.Run("list", func(t *testing.T) { testTopicList(t, h) })
	t.Run("bad input", func(t *testing.T) { testTopicBadInput(t, h) })
}

func testTopicLife(t *testing.T, h *harness) {
	made := decodeAs[api.Topic](t, h.ok(201, "PUT", "/v1/topics/life", ""))
	if made.Name != "life" || made.State != api.StateReady || made.Settings.Partitions != 4 || len(made.Partitions) != 4 || made.Partial {
		t.Errorf("made: %+v", made)
	}
	if made.Settings.Replicas != 1 || made.Settings.Quorum != 1 || made.Settings.Retention.Time != mq.Duration(168*time.Hour) {
		t.Errorf("settings: %+v", made.Settings)
	}
	again := decodeAs[api.Topic](t, h.ok(200, "PUT", "/v1/topics/life", `{"partitions":6,"retention":{"time":"1h"},"replicas":null}`))
	if again.Settings.Partitions != 6 || len(again.Partitions) != 6 || again.State != api.StateReady || !again.Settings.Retention.KeepUnsettled {
		t.Errorf("replaced: %+v", again)
	}
	patched := decodeAs[api.Topic](t, h.ok(200, "PATCH", "/v1/topics/life", `{"compression":"zstd"}`, "Content-Type", "application/merge-patch+json"))
	if patched.Settings.Compression != "zstd" || patched.Settings.Partitions != 6 || patched.Settings.Retention.Time != again.Settings.Retention.Time {
		t.Errorf("patched: %+v", patched.Settings)
	}
	nulled := decodeAs[api.Topic](t, h.ok(200, "PATCH", "/v1/topics/life", `{"retention":{"time":null}}`))
	if nulled.Settings.Retention.Time != made.Settings.Retention.Time || nulled.Settings.Compression != "zstd" {
		t.Errorf("null is the default: %+v", nulled.Settings)
	}
	dry := decodeAs[api.Deletion](t, h.ok(200, "DELETE", "/v1/topics/life?dry_run=true", ""))
	if !dry.DryRun || dry.Topic != "life" {
		t.Errorf("dry run: %+v", dry)
	}
	h.ok(200, "GET", "/v1/topics/life", "")
	h.ok(200, "DELETE", "/v1/topics/life", "")
	h.fails("topic_not_found", "", "GET", "/v1/topics/life", "")
	h.fails("topic_not_found", "", "DELETE", "/v1/topics/life", "")
	h.ok(201, "PUT", "/v1/topics/life", "")
}

func (d *harness) etag(path string) string { return d.ok(200, "GET", path, "").header.Get("ETag") }

func testTopicConditions(t *testing.T, h *harness) {
	const path = "/v1/topics/conditions"
	h.fails("precondition_failed", "", "PUT", path, "", "If-Match", "*")
	h.fails("topic_not_found", "", "GET", path, "")
	h.ok(201, "PUT", path, "", "If-None-Match", "*")
	h.fails("already_exists", "", "PUT", path, "", "If-None-Match", "*")
	first := h.etag(path)
	h.ok(200, "PUT", path, `{"max_message_bytes":1000}`, "If-Match", first)
	second := h.etag(path)
	if first == second || first == "" {
		t.Errorf("entity tags %s and %s", first, second)
	}
	h.fails("precondition_failed", "", "PUT", path, `{}`, "If-Match", first)
	h.fails("precondition_failed", "", "PATCH", path, `{"compression":"s2"}`, "If-Match", first)
	h.fails("precondition_failed", "", "DELETE", path, "", "If-Match", first)
	h.ok(200, "PATCH", path, `{"compression":"s2"}`, "If-Match", "*")
	h.ok(200, "DELETE", path, "", "If-Match", h.etag(path))
}

func testTopicFigures(t *testing.T, h *harness) {
	id := h.topic("figures", `{"partitions":2}`)
	h.node.set(func() { h.node.first[part(id, 0)] = 100 })
	h.node.put(part(id, 0), 1e9, numbered(3)...)
	h.node.put(part(id, 1), 1e9, numbered(4)...)
	got := decodeAs[api.Topic](t, h.ok(200, "GET", "/v1/topics/figures", ""))
	if got.Messages != 7 || got.Bytes != 700 || got.PublishRate != 3 || got.DeliverRate != 1 || got.Partial {
		t.Errorf("sums: %+v", got.TopicSummary)
	}
	p := got.Partitions[0]
	if p.FirstOffset != 100 || p.NextOffset != 103 || p.Messages != 3 || p.Leader != "node-1" || p.State != api.StateReady || p.AckQuorum != 1 {
		t.Errorf("partition 0: %+v", p)
	}
	if want := []api.Replica{{Node: "node-1", Leader: true, Alive: true, BehindBytes: new(uint64)}}; !reflect.DeepEqual(p.Replicas, want) {
		t.Errorf("replicas: %+v", p.Replicas)
	}
	h.node.set(func() { h.node.refuses = mqerr.New(mqerr.Overloaded, "busy") })
	defer h.node.set(func() { h.node.refuses = nil })
	got = decodeAs[api.Topic](t, h.ok(200, "GET", "/v1/topics/figures", ""))
	if !got.Partial || got.Partitions[0].Error == nil || got.Partitions[0].Error.Code != "overloaded" || got.Partitions[0].Leader != "node-1" {
		t.Errorf("with a leader that refuses: %+v", got)
	}
	if p := got.Partitions[0]; p.PartitionFigures != nil || len(p.Replicas) != 1 || p.Replicas[0].BehindBytes != nil {
		t.Errorf("figures that nobody knows: %+v", p)
	}
	h.impatient().ok(201, "PUT", "/v1/topics/figures/groups/g", "")
	if g := decodeAs[api.Group](t, h.ok(200, "GET", "/v1/topics/figures/groups/g", "")); !g.Partial || g.Partitions[1].GroupPartitionFigures != nil || g.Partitions[1].Error == nil {
		t.Errorf("figures of a group that nobody knows: %+v", g)
	}
}

// A leader that etcd names and that has not begun to lead: a change waits for it, a look says so.
func testTopicTakeOver(t *testing.T, h *harness) {
	h.node.set(func() { h.node.takingOver = 2 })
	made := decodeAs[api.Topic](t, h.ok(201, "PUT", "/v1/topics/taken-over", ""))
	if made.State != api.StateReady || made.Partial || made.Partitions[0].Error != nil {
		t.Errorf("made: %+v", made)
	}
	h.node.set(func() { h.node.takingOver = 1 })
	got := decodeAs[api.Topic](t, h.ok(200, "GET", "/v1/topics/taken-over", ""))
	if got.State != api.StateOpening || !got.Partial || got.Partitions[0].State != api.StateOpening {
		t.Errorf("looked at: %+v", got)
	}
	h.node.set(func() { h.node.refuses = mqerr.New(mqerr.NoQuorum, "fewer than 2 of 3 replicas answer") })
	defer h.node.set(func() { h.node.refuses = nil })
	got = decodeAs[api.Topic](t, h.ok(200, "GET", "/v1/topics/taken-over", ""))
	if got.State != api.StateOpening || got.Partitions[0].State != api.StateOpening || got.Partitions[0].Error.Code != "no_quorum" {
		t.Errorf("without a quorum it takes nothing: %+v", got)
	}
}

func testTopicWithoutLeader(t *testing.T, h *harness) {
	made := decodeAs[api.Topic](t, h.ok(201, "PUT", "/v1/topics/closed-1?wait=1ms", ""))
	if made.State != api.StateOpening || !made.Partial || made.Partitions[3].State != api.StateOpening || made.Partitions[3].Error.Code != "no_leader" {
		t.Errorf("%+v", made)
	}
	h.impatient().fails("no_leader", "", "GET", "/v1/topics/closed-1/messages?partition=0", "")

	// With fewer nodes than it needs it is made all the same: they may be starting. It says what it waits for.
	made = decodeAs[api.Topic](t, h.ok(201, "PUT", "/v1/topics/closed-wide?wait=30s", `{"partitions":2,"replicas":5}`))
	for _, p := range made.Partitions {
		if p.Error == nil || p.Error.Code != "not_enough_replicas" || !strings.Contains(p.Error.Detail, "5 replicas, of which 3 (ack_quorum) must be there") ||
			!strings.Contains(p.Error.Detail, "1 are registered") || p.State != api.StateOpening || p.PartitionFigures != nil {
			t.Errorf("fewer nodes than it needs: %+v", p.Error)
		}
	}
	h.fails("not_enough_replicas", "", "POST", "/v1/topics/closed-wide/messages", "x")
	h.fails("not_enough_replicas", "", "GET", "/v1/topics/closed-wide/messages?partition=0", "")
}

func testTopicList(t *testing.T, h *harness) {
	var want []string
	for i := range 5 {
		name := fmt.Sprintf("list-%d", i)
		h.topic(name, `{"partitions":1}`)
		want = append(want, name)
	}
	var got []string
	cursor := ""
	for pages := 0; ; pages++ {
		page := decodeAs[api.TopicList](t, h.ok(200, "GET", "/v1/topics?limit=2&cursor="+cursor, ""))
		if len(page.Topics) > 2 || pages > 20 {
			t.Fatalf("page %d: %+v", pages, page)
		}
		for _, s := range page.Topics {
			if strings.HasPrefix(s.Name, "list-") {
				got = append(got, s.Name)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	h.fails("invalid_cursor", "", "GET", "/v1/topics?cursor=AQQD", "")
}

func testTopicBadInput(t *testing.T, h *harness) {
	for _, name := range []string{"..", ".hidden", "-x", "a b", "größe", "a/../b", "../../etc", strings.Repeat("x", 250), "a\x00b", "%"} {
		h.fails("invalid_parameter", "path/topic", "PUT", "/v1/topics/"+url.PathEscape(name), "")
		h.fails("invalid_parameter", "path/topic", "GET", "/v1/topics/"+url.PathEscape(name), "")
	}
	h.ok(201, "PUT", "/v1/topics/"+strings.Repeat("x", 249), `{"partitions":1}`)
	const path = "/v1/topics/bad"
	for _, c := range []struct{ code, pointer, body string }{
		{"invalid_json", "", `{`},
		{"invalid_json", "", `{"partitions":4}}`},
		{"invalid_json", "", strings.Repeat(`{"retention":`, 20_000)[:60_000]},
		{"validation_failed", "", `[]`},
		{"validation_failed", "/partitons", `{"partitons":4}`},
		{"validation_failed", "/partitions", `{"partitions":"4"}`},
		{"validation_failed", "/partitions", `{"partitions":0}`},
		{"validation_failed", "/partitions", `{"partitions":1025}`},
		{"validation_failed", "/partitions", `{"partitions":-1}`},
		{"validation_failed", "/partitions", `{"partitions":1e3}`},
		{"validation_failed", "/replicas", `{"replicas":8}`},
		{"validation_failed", "/ack_quorum", `{"replicas":3,"ack_quorum":1}`},
		{"validation_failed", "/retention/time", `{"retention":{"time":"1 week"}}`},
		{"validation_failed", "/retention/time", `{"retention":{"time":"1s"}}`},
		{"validation_failed", "/retention/bytes", `{"retention":{"bytes":-1}}`},
		{"validation_failed", "/max_message_bytes", `{"max_message_bytes":16777217}`},
		{"validation_failed", "/compression", `{"compression":"lzma"}`},
		{"validation_failed", "/archive", `{"archive":true}`}, // the node has no bucket
		{"validation_failed", "/group_defaults/lease", `{"group_defaults":{"lease":"1ms"}}`},
		{"validation_failed", "/group_defaults/backoff/jitter", `{"group_defaults":{"backoff":{"jitter":2}}}`},
		{"body_too_large", "", `{"x":"` + strings.Repeat("x", maxConfigBytes) + `"}`},
	} {
		h.fails(c.code, c.pointer, "PUT", path, c.body)
	}
	h.fails("topic_not_found", "", "GET", path, "") // none of them made it
	h.fails("unsupported_media_type", "", "PUT", path, `{}`, "Content-Type", "text/xml")
	h.fails("invalid_parameter", "query/wait", "PUT", path+"?wait=31s", "")
	h.fails("invalid_parameter", "query/dry_run", "DELETE", "/v1/topics/life?dry_run=perhaps", "")
	h.fails("invalid_json", "", "PATCH", "/v1/topics/life", "")
	h.fails("validation_failed", "/partitions", "PATCH", "/v1/topics/life", `{"partitions":3}`)
	h.fails("validation_failed", "/replicas", "PATCH", "/v1/topics/life", `{"replicas":3}`)
	for _, limit := range []string{"-1", "0", "1001", "99999999999999999999", "ten", "1.5"} {
		h.fails("invalid_parameter", "query/limit", "GET", "/v1/topics?limit="+limit, "")
	}
	h.fails("method_not_allowed", "", "POST", "/v1/topics/life", "")
	h.fails("route_not_found", "", "GET", "/v1/topic", "")
	if a := h.call(http.MethodGet, "/v1/topics/life", "", "X-Request-Id", "mine-1"); a.header.Get("X-Request-Id") != "mine-1" {
		t.Errorf("request id %q", a.header.Get("X-Request-Id"))
	}
}
