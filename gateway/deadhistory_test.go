package gateway

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Each hand-over is paired with what ended it; other groups' events, longer leases and exports are no attempts.
func TestHistoryOf(t *testing.T) {
	t.Parallel()
	at := func(n int64) time.Time { return time.Unix(0, n).UTC() }
	events := []*mqpb.TraceEvent{
		{At: 1, Type: "PUBLISHED"},
		{Type: "REPLICATED"},
		{At: 10, Type: "DELIVERED", Group: 7, Attempt: 1, Consumer: "a", Until: 40},
		{At: 11, Type: "DELIVERED", Group: 8, Attempt: 1, Consumer: "other"},
		{At: 12, Type: "ACKNOWLEDGED", Group: 8},
		{At: 13, Type: "EXTENDED", Group: 7, Until: 60},
		{At: 14, Type: "NACKED", Group: 7, Attempt: 1, Reason: "declined", Until: 20},
		{At: 21, Type: "REDELIVERED", Group: 7, Attempt: 2, Consumer: "b"},
		{At: 31, Type: "EXPIRED", Group: 7, Attempt: 2, Reason: "the lease ran out", Until: 35},
		{At: 36, Type: "REDELIVERED", Group: 7, Attempt: 3, Consumer: "gw"},
		{At: 37, Type: "RETURNED", Group: 7},
		{At: 38, Type: "REDELIVERED", Group: 7, Attempt: 3, Consumer: "c"},
		{At: 39, Type: "DEAD", Group: 7, Attempt: 3, Reason: "again"},
		{At: 50, Type: "DEAD_EXPORTED", Group: 7},
		{At: 51, Type: "REDRIVEN", Group: 7, Until: 55},
		{At: 56, Type: "DELIVERED", Group: 7, Attempt: 1, Consumer: "d"},
		{At: 57, Type: "SEEK", Group: 7, Reason: "to earliest"},
		{At: 58, Type: "DEAD", Group: 7, Attempt: 1, Reason: "its hand-over is gone"},
		{At: 59, Type: "EXPIRED", Group: 7, Reason: "past its TTL"},
		{At: 60, Type: "REDELIVERED", Group: 7, Attempt: 2, Consumer: "e"},
		{At: 61, Type: "RETAINED"},
	}
	want := []api.DeadAttempt{
		{Attempt: 1, DeliveredAt: at(10), Consumer: "a", EndedAt: at(14), Result: "failed", Reason: "declined", RetryAt: at(20)},
		{Attempt: 2, DeliveredAt: at(21), Consumer: "b", EndedAt: at(31), Result: "lease_expired", Reason: "the lease ran out", RetryAt: at(35)},
		{Attempt: 3, DeliveredAt: at(36), Consumer: "gw", EndedAt: at(37), Result: "returned"},
		{Attempt: 3, DeliveredAt: at(38), Consumer: "c", EndedAt: at(39), Result: "dead", Reason: "again"},
		{EndedAt: at(51), Result: "redriven", RetryAt: at(55)},
		{Attempt: 1, DeliveredAt: at(56), Consumer: "d"},
		{EndedAt: at(57), Result: "seek", Reason: "to earliest"},
		{Attempt: 1, EndedAt: at(58), Result: "dead", Reason: "its hand-over is gone"},
		{EndedAt: at(59), Result: "expired", Reason: "past its TTL"},
		{Attempt: 2, DeliveredAt: at(60), Consumer: "e"},
	}
	got := historyOf(events, 7)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%d:\n got %+v\nwant %+v", i, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
		}
	}
	if none := historyOf(events, 9); none == nil || len(none) != 0 {
		t.Errorf("of a group that never had it: %v", none)
	}
}

// A listing with histories is bounded in messages and in attempts; where one history can't be read the others are there.
func TestDeadHistories(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	topic := h.topic("hist", `{"partitions":1}`)
	h.ok(201, "PUT", "/v1/topics/hist/groups/g", "")
	g, _ := h.g.view.Group(topic, "g")
	const letters, attempts = 20, api.MaxHistory + 5
	h.node.set(func() {
		h.node.traces = map[uint64]*mqpb.TraceResponse{}
		for offset := range uint64(letters) {
			h.node.held[part(topic, 0)] = append(h.node.held[part(topic, 0)], &mqpb.HeldMessage{Offset: offset, State: "dead", Attempt: attempts})
			if offset == 3 {
				continue // its trace is not there
			}
			tr := &mqpb.TraceResponse{}
			for n := range int64(attempts) {
				tr.Events = append(tr.Events,
					&mqpb.TraceEvent{At: 10*n + 1, Type: "REDELIVERED", Group: uint64(g.ID), Attempt: uint32(n + 1), Consumer: fmt.Sprint("c", offset)},
					&mqpb.TraceEvent{At: 10*n + 2, Type: "NACKED", Group: uint64(g.ID), Attempt: uint32(n + 1), Until: 10*n + 9})
			}
			h.node.traces[offset] = tr
		}
	})
	path := "/v1/topics/hist/groups/g/dead"
	got := decodeAs[api.HeldList](t, h.ok(200, "GET", path+"?history=true", ""))
	if len(got.Messages) != letters || got.NextCursor != "" {
		t.Fatalf("%d letters, cursor %q", len(got.Messages), got.NextCursor)
	}
	for i, m := range got.Messages {
		if i == 3 {
			if m.History != nil || m.HistoryError == nil || m.HistoryError.Code != "message_not_found" {
				t.Errorf("without a trace: %+v", m)
			}
			continue
		}
		if len(m.History) != api.MaxHistory || m.HistoryLeftOut != 5 || m.History[0].Attempt != 6 || m.History[0].Consumer != fmt.Sprint("c", i) || m.HistoryError != nil {
			t.Errorf("letter %d: %d attempts, %d left out, %+v", i, len(m.History), m.HistoryLeftOut, m.HistoryError)
		}
	}
	if plain := h.ok(200, "GET", path, ""); strings.Contains(string(plain.body), "history") {
		t.Errorf("nobody asked for histories: %s", plain.body)
	}
	page := decodeAs[api.HeldList](t, h.ok(200, "GET", path+"?history=true&limit=9", ""))
	if len(page.Messages) != 9 || page.NextCursor == "" {
		t.Fatalf("%d letters of 9", len(page.Messages))
	}
	rest := decodeAs[api.HeldList](t, h.ok(200, "GET", path+"?history=true&cursor="+page.NextCursor, ""))
	if len(rest.Messages) != letters-9 || rest.Messages[0].Offset != 9 {
		t.Errorf("the next page: %d letters", len(rest.Messages))
	}
	h.fails("invalid_parameter", "query/limit", "GET", path+"?history=true&limit=101", "")
	h.fails("invalid_parameter", "query/history", "GET", path+"?history=maybe", "")
}
