package gateway

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// The partitions of all topics together are bounded, by whatever call more would come.
func TestPartitionsOfAllTopicsAreBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *Config) { c.MaxPartitions = 10 })
	partitions := func(n uint32) func(*mq.TopicSettings) { return func(s *mq.TopicSettings) { s.Partitions = n } }
	seen := func(n int) {
		t.Helper()
		e.check(e.g.view.WaitFor(t.Context(), func(v *meta.View) bool { return v.Partitions() == n }))
	}
	full := func(method, path string, body any) {
		t.Helper()
		a := e.call(method, path, body)
		var p api.Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != "/partitions" {
			t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
		}
	}
	full(http.MethodPut, "/v1/topics/a", `{"partitions":11}`)
	e.topic("a", partitions(8))
	seen(8)
	full(http.MethodPut, "/v1/topics/b", `{"partitions":3}`)
	full(http.MethodPut, "/v1/topics/b?dry_run=true", `{"partitions":3}`)
	full(http.MethodPatch, "/v1/topics/a", `{"partitions":11}`)
	full(http.MethodPatch, "/v1/topics/a?dry_run=true", `{"partitions":11}`)
	full(http.MethodPost, "/v1/topics/made-on-first-use/messages", "x") // with four by default
	e.topic("b", partitions(2))
	seen(10)
	if a := e.call(http.MethodPatch, "/v1/topics/a", `{"retention":{"time":"1h"}}`); a.status != 200 {
		t.Errorf("a change of something else: %d %s", a.status, a.body)
	}
	if a := e.call(http.MethodDelete, "/v1/topics/b", nil); a.status/100 != 2 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	seen(8)
	if a := e.call(http.MethodPut, "/v1/topics/c?wait=0s", `{"partitions":2,"replicas":1,"ack_quorum":1}`); a.status/100 != 2 {
		t.Errorf("in the place of one that was deleted: %d %s", a.status, a.body)
	}
}
