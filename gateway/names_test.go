package gateway

import (
	"strings"
	"testing"
)

// What is wrong with a field is said with its name in the detail, too, as that is all that many clients show.
func TestDetailsNameTheField(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	for _, c := range []struct {
		path, body   string
		status       int
		code, detail string
	}{
		{"/v1/nack", `{"receipt":"AQEB","delay":"48h"}`, 422, "validation_failed", "/delay: must be a duration from 0s to 24h"},
		{"/v1/ack", `{}`, 422, "validation_failed", "/receipts: one of receipt and receipts"},
		{"/v1/ack", `[]`, 422, "validation_failed", "the body is an object"},
		{"/v1/ack", ``, 400, "invalid_json", "at byte 0: the text is empty"},
		{"/v1/ack", ` `, 400, "invalid_json", "the text is empty"},
		{"/v1/ack", ` {`, 400, "invalid_json", "the text ends where"},
		{"/v1/settle", ``, 400, "invalid_json", "at byte 0: the text is empty"},
		{"/v1/topics/t/messages/batch", ``, 400, "invalid_json", "at byte 0: the text is empty"},
		{"/v1/topics/t/messages/batch", `{"messages":[]}`, 422, "validation_failed", "/messages: a batch has at least one message"},
		{"/v1/topics/t/partitions/0/force-recover", `{}`, 422, "validation_failed", "/accept_loss: must be true: forcing a partition gives up messages"},
		{"/v1/topics/t/partitions/0/force-recover", `{"accept_loss":true,"by":"` + strings.Repeat("x", 201) + `"}`, 422, "validation_failed", "/by: must be at most 200 bytes"},
		// What the call is about comes first: what it would have to say of it is no help where there is no such partition.
		{"/v1/topics/t/partitions/9/force-recover", `{}`, 404, "partition_not_found", "partitions 0 to 0"},
		{"/v1/topics/t/partitions/x/force-recover", `{}`, 404, "partition_not_found", ""},
	} {
		var p struct{ Code, Detail string }
		a := e.call("POST", c.path, c.body, "Content-Type", "application/json")
		if a.into(t, &p); a.status != c.status || p.Code != c.code || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s with %.40q: %d %s", c.path, c.body, a.status, a.body)
		}
	}
}
