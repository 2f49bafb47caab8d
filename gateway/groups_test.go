package gateway

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	id := h.topic("orders", `{"partitions":3,"group_defaults":{"lease":"7s"}}`)
	t.Run("life", func(t *testing.T) { testGroupLife(t, h, id) })
	t.Run("figures", func(t *testing.T) { testGroupFigures(t, h) })
	t.Run("held", func(t *testing.T) { testHeld(t, h, id) })
	t.Run("starting", func(t *testing.T) { testGroupStarting(t, h) })
	t.Run("bad input", func(t *testing.T) { testGroupBadInput(t, h) })
}

func testGroupLife(t *testing.T, h *harness, topic mq.TopicID) {
	const path = "/v1/topics/orders/groups/billing"
	h.fails("group_not_found", "", "GET", path, "")
	made := decodeAs[api.Group](t, h.ok(201, "PUT", path, `{"max_attempts":3}`, "If-None-Match", "*"))
	if made.State != api.StateReady || made.Settings.Lease != mq.Duration(7*time.Second) || made.Settings.MaxAttempts != 3 || made.Partial {
		t.Errorf("made: %+v", made)
	}
	h.fails("already_exists", "", "PUT", path, "", "If-None-Match", "*")
	m, ok := h.g.view.Group(topic, "billing")
	if !ok || !m.Started {
		t.Fatalf("in the view: %+v, %v", m, ok)
	}
	told := func() *mqpb.Group {
		var g *mqpb.Group
		h.node.set(func() { g = h.node.groups[uint64(m.ID)] })
		return g
	}
	if g := told(); g.GetName() != "billing" || g.GetVersion() != 1 || g.GetPaused() {
		t.Errorf("the leader knows %v", g)
	}
	h.ok(200, "PUT", path, `{"max_attempts":4,"start":{"at":"earliest"}}`)
	if g := told(); g.GetVersion() != 2 {
		t.Errorf("after a change the leader knows %v", g)
	}
	paused := decodeAs[api.Group](t, h.ok(200, "POST", path+"/pause", ""))
	if g := told(); !paused.Paused || paused.State != api.StatePaused || !g.GetPaused() {
		t.Errorf("paused: %+v, leader: %v", paused, g)
	}
	resumed := decodeAs[api.Group](t, h.ok(200, "POST", path+"/resume", ""))
	if g := told(); resumed.Paused || resumed.Settings.MaxAttempts != 4 || g.GetPaused() {
		t.Errorf("resumed: %+v, leader: %v", resumed, g)
	}
	h.fails("precondition_failed", "", "DELETE", path, "", "If-Match", `"1"`)
	dry := decodeAs[api.Deletion](t, h.ok(200, "DELETE", path+"?dry_run", ""))
	if !dry.DryRun || dry.Group != "billing" || dry.Messages != 1+2+3 || dry.Dead != 6 || dry.InFlight != 3 {
		t.Errorf("dry run: %+v", dry)
	}
	h.ok(200, "GET", path, "")
	h.ok(200, "DELETE", path, "")
	if told() != nil {
		t.Error("the leader still knows the group")
	}
	h.fails("group_not_found", "", "GET", path, "")
	h.fails("group_not_found", "", "POST", path+"/pause", "")
}

func testGroupFigures(t *testing.T, h *harness) {
	h.ok(201, "PUT", "/v1/topics/orders/groups/figures", "")
	got := decodeAs[api.Group](t, h.ok(200, "GET", "/v1/topics/orders/groups/figures", ""))
	if got.Lag != 6 || got.Ready != 3 || got.InFlight != 3 || got.Dead != 6 || len(got.Partitions) != 3 {
		t.Errorf("sums: %+v", got.GroupFigures)
	}
	// The oldest is the message of partition 0, one second after 1970.
	if age := time.Since(time.Unix(1, 0)) - time.Duration(got.OldestAge); age < 0 || age > time.Hour {
		t.Errorf("oldest age %v", time.Duration(got.OldestAge))
	}
	if p := got.Partitions[2]; p.Partition != 2 || p.Cursor != 10 || p.NextOffset != 13 || p.Lag != 3 || p.Error != nil {
		t.Errorf("partition 2: %+v", p)
	}
	h.ok(201, "PUT", "/v1/topics/orders/groups/another", "")
	list := decodeAs[api.GroupList](t, h.ok(200, "GET", "/v1/topics/orders/groups?limit=1", ""))
	if len(list.Groups) != 1 || list.Groups[0].Name != "another" || list.NextCursor == "" {
		t.Fatalf("first page: %+v", list)
	}
	list = decodeAs[api.GroupList](t, h.ok(200, "GET", "/v1/topics/orders/groups?cursor="+list.NextCursor, ""))
	if len(list.Groups) != 1 || list.Groups[0].Name != "figures" || list.Groups[0].Lag != 6 || list.NextCursor != "" {
		t.Errorf("second page: %+v", list)
	}
}

func testHeld(t *testing.T, h *harness, topic mq.TopicID) {
	h.ok(201, "PUT", "/v1/topics/orders/groups/held", "")
	h.node.set(func() {
		for n, offsets := range [][]uint64{{3, 5}, {}, {1, 2, 9}} {
			for _, o := range offsets {
				h.node.held[part(topic, uint32(n))] = append(h.node.held[part(topic, uint32(n))],
					&mqpb.HeldMessage{Offset: o, State: "dead", Attempt: 5, Reason: "bad", Stamp: 1e9})
			}
		}
	})
	const path = "/v1/topics/orders/groups/held"
	for limit := range 6 {
		var got []string
		cursor := ""
		for pages := 0; ; pages++ {
			page := decodeAs[api.HeldList](t, h.ok(200, "GET", path+"/dead?limit="+string(rune('1'+limit))+"&cursor="+cursor, ""))
			for _, m := range page.Messages {
				want := mq.MessageID{Partition: part(topic, m.Partition), Number: m.Offset}.String()
				if m.ID != want || m.State != "dead" || m.Attempt != 5 || m.Reason != "bad" || !m.Timestamp.Equal(time.Unix(1, 0)) {
					t.Errorf("message: %+v", m)
				}
				got = append(got, string(rune('0'+m.Partition))+"/"+string(rune('0'+m.Offset)))
			}
			if cursor = page.NextCursor; cursor == "" || pages > 10 {
				break
			}
		}
		if want := []string{"0/3", "0/5", "2/1", "2/2", "2/9"}; !slices.Equal(got, want) {
			t.Errorf("limit %d: %v, want %v", limit+1, got, want)
		}
	}
	one := decodeAs[api.HeldList](t, h.ok(200, "GET", path+"/messages?state=dead&partition=2&limit=2", ""))
	if len(one.Messages) != 2 || one.NextCursor == "" {
		t.Errorf("one partition: %+v", one)
	}
	h.fails("invalid_cursor", "", "GET", path+"/messages?state=ready&partition=2&cursor="+one.NextCursor, "")
	h.fails("invalid_cursor", "", "GET", path+"/dead?cursor="+one.NextCursor, "")
	if none := decodeAs[api.HeldList](t, h.ok(200, "GET", path+"/messages?state=leased", "")); none.Messages == nil || len(none.Messages) != 0 {
		t.Errorf("leased: %+v", none)
	}
	h.fails("invalid_parameter", "query/state", "GET", path+"/messages", "")
	h.fails("invalid_parameter", "query/state", "GET", path+"/messages?state=sleeping", "")
	h.fails("partition_not_found", "", "GET", path+"/dead?partition=3", "")
	h.fails("invalid_parameter", "query/partition", "GET", path+"/dead?partition=-1", "")
	for _, limit := range []string{"-1", "0", "1001", "99999999999999999999", "ten"} {
		h.fails("invalid_parameter", "query/limit", "GET", path+"/dead?limit="+limit, "")
	}
}

func testGroupStarting(t *testing.T, h *harness) {
	h.node.set(func() { h.node.refuses = mqerr.New(mqerr.NoLeader, "not yet") })
	in := h.impatient()
	together(func() {
		made := in.call("PUT", "/v1/topics/orders/groups/starting", "")
		if made.status != 201 || !strings.Contains(string(made.body), `"state":"starting"`) {
			t.Errorf("made while no leader takes it: %d %s", made.status, made.body)
		}
	}, func() {
		in.fails("no_leader", "", "POST", "/v1/topics/orders/groups/starting-too/receive?max=1", "")
	})
	in.fails("no_leader", "", "PUT", "/v1/topics/orders/groups/starting", "")
	h.node.set(func() { h.node.refuses = nil })
	again := decodeAs[api.Group](t, h.ok(200, "PUT", "/v1/topics/orders/groups/starting", ""))
	if again.State != api.StateReady {
		t.Errorf("made again: %+v", again)
	}
}

func testGroupBadInput(t *testing.T, h *harness) {
	h.fails("topic_not_found", "", "PUT", "/v1/topics/nowhere/groups/g", "")
	h.fails("topic_not_found", "", "GET", "/v1/topics/nowhere/groups", "")
	for _, name := range []string{"..", ".a", "a b", "é", "a/b"} {
		h.fails("invalid_parameter", "path/group", "PUT", "/v1/topics/orders/groups/"+url.PathEscape(name), "")
	}
	for _, c := range []struct{ code, pointer, body string }{
		{"invalid_json", "", `{"lease":`},
		{"validation_failed", "", `"x"`},
		{"validation_failed", "/leese", `{"leese":"1s"}`},
		{"validation_failed", "/lease", `{"lease":30}`},
		{"validation_failed", "/lease", `{"lease":"13h"}`},
		{"validation_failed", "/ordering", `{"ordering":"offset"}`},
		{"validation_failed", "/mode", `{"mode":"push"}`},
		{"validation_failed", "/start/at", `{"start":{"at":"tomorrow"}}`},
		{"validation_failed", "/start/time", `{"start":{"at":"time"}}`},
		{"validation_failed", "/start/time", `{"start":{"at":"time","time":"noon"}}`},
		{"validation_failed", "/max_in_flight", `{"max_in_flight":0}`},
		{"validation_failed", "/backoff/max", `{"backoff":{"initial":"2s","max":"1s"}}`},
	} {
		h.fails(c.code, c.pointer, "PUT", "/v1/topics/orders/groups/bad", c.body)
	}
	h.fails("group_not_found", "", "GET", "/v1/topics/orders/groups/bad", "")
	h.ok(201, "PUT", "/v1/topics/orders/groups/late", `{"start":{"at":"time","time":"2026-01-01T00:00:00Z"}}`)
	h.ok(200, "PUT", "/v1/topics/orders/groups/late", `{"start":{"at":"time","time":"2026-01-01T01:00:00+01:00"}}`)
	h.ok(200, "PUT", "/v1/topics/orders/groups/late", `{}`)
	h.fails("validation_failed", "/start", "PUT", "/v1/topics/orders/groups/late", `{"start":{"at":"latest"}}`)
}
