package cluster

import (
	"strings"
	"testing"
)

type explained struct {
	State, Because, Until, Since, Consumer, Reason string
	Attempt                                        int
	Ahead                                          map[string]int
}

// TestEndExplain asks why messages are not delivered, also after the leader was killed.
func TestEndExplain(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	one := via(t, c, 1)
	one.topic("explain", `{"partitions":1}`)
	one.call(201, "PUT", "/v1/topics/explain/groups/g", `{"max_attempts":1}`, nil)
	one.call(201, "PUT", "/v1/topics/explain/groups/idle", "", nil)
	one.publishMany("explain", "v", 4)
	got := one.receiveN("explain", "g", 3, "")
	one.settle("ack", got[:1], "")
	one.settle("reject", got[1:2], `,"reason":"card declined"`)

	ask := func(id, group string) (e explained) {
		t.Helper()
		one.call(200, "GET", "/v1/messages/"+id+"/explain?group="+group, "", &e)
		return e
	}
	check := func() {
		t.Helper()
		if e := ask(got[0].ID, "g"); e.State != "acked" || !strings.Contains(e.Because, " acknowledged it at ") || e.Since == "" || e.Attempt != 1 {
			t.Errorf("acked: %+v", e)
		}
		if e := ask(got[1].ID, "g"); e.State != "dead" || !strings.HasSuffix(e.Because, ", after 1 attempt: card declined") || e.Reason != "card declined" {
			t.Errorf("dead: %+v", e)
		}
		if e := ask(got[2].ID, "g"); e.State != "leased" || !strings.HasPrefix(e.Because, e.Consumer+" has it until ") || e.Until == "" {
			t.Errorf("leased: %+v", e)
		}
		if e := ask(got[2].ID, "idle"); e.State != "ready" || e.Ahead["normal"] != 2 || !strings.Contains(e.Because, "2 messages go first (normal)") {
			t.Errorf("ready: %+v", e)
		}
	}
	check()
	crash(t, c, "explain")
	check()
	one.call(200, "POST", "/v1/topics/explain/groups/idle/pause", "", nil)
	eventually(t, "the leader knows of the pause", func() bool {
		return strings.HasPrefix(ask(got[2].ID, "idle").Because, "the group is paused; ")
	})

	var later struct{ Results []struct{ ID string } }
	one.call(200, "POST", "/v1/topics/explain/messages/batch", `{"messages":[{"value":"v","delay":"1h"}]}`, &later)
	if e := ask(later.Results[0].ID, "g"); e.State != "scheduled" || !strings.HasPrefix(e.Because, "it is not due until ") || e.Until == "" {
		t.Errorf("scheduled: %+v", e)
	}
	one.call(404, "GET", "/v1/messages/"+got[0].ID+"/explain?group=none", "", nil)
	one.call(400, "GET", "/v1/messages/"+got[0].ID+"/explain", "", nil)
}
