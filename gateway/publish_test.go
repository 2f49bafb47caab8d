package gateway

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

func onePartition(s *mq.TopicSettings) { s.Partitions = 1 }

func TestPublishReceiveAck(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("orders", onePartition)
	a := e.post("/v1/topics/orders/messages", "hello", "Content-Type", "text/plain", "Mq-Key", "k1", "Mq-Header-Tenant", "acme", "ce-id", "7")
	var p api.Published
	if a.into(t, &p); a.status != 201 || p.Partition != 0 || p.Offset != 0 || p.ID == "" || p.Timestamp.IsZero() {
		t.Fatalf("publish: %d %s", a.status, a.body)
	}
	var got api.ReceiveAnswer
	r := e.post("/v1/topics/orders/groups/billing/receive", nil)
	if r.into(t, &got); r.status != 200 || len(got.Messages) != 1 {
		t.Fatalf("receive: %d %s", r.status, r.body)
	}
	m := got.Messages[0]
	if m.ID != p.ID || m.Value != "hello" || m.Encoding != "utf8" || *m.Key != "k1" || m.ContentType != "text/plain" || m.Attempt != 1 ||
		m.Headers["tenant"] != "acme" || m.Headers["ce-id"] != "7" || m.Lane != "normal" || len(m.Fence) != api.FenceLength || m.LeaseExpiresAt.IsZero() {
		t.Errorf("message %+v", m)
	}
	e.leader.until(t, "the hand-over is confirmed", func() bool { return e.leader.confirms == 1 })
	if a := e.post("/v1/ack", fmt.Sprintf(`{"receipt":%q}`, m.Receipt)); a.status != 200 || a.body != `{"results":[{}],"failed":0}`+"\n" {
		t.Errorf("ack: %d %s", a.status, a.body)
	}
	if a := e.post("/v1/nack", m.Receipt, "Content-Type", "text/plain"); a.status != 409 || a.code(t) != "receipt_stale" {
		t.Errorf("nack after ack: %d %s", a.status, a.body)
	}
	if r := e.post("/v1/topics/orders/groups/billing/receive", "{}"); r.body != `{"messages":[]}`+"\n" {
		t.Errorf("receive again: %d %s", r.status, r.body)
	}
}

func TestAutoCreate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if a := e.post("/v1/topics/new/messages", "x"); a.status != 201 {
		t.Errorf("publish: %d %s", a.status, a.body)
	}
	if a := e.post("/v1/topics/batch/messages/batch", `{"messages":[{"value":"x"}]}`); a.status != 200 {
		t.Errorf("batch: %d %s", a.status, a.body)
	}
	if a := e.post("/v1/topics/none/groups/g/receive", nil); a.status != 404 || a.code(t) != "topic_not_found" {
		t.Errorf("receive: %d %s", a.status, a.body)
	}
	// A refused request leaves no topic behind.
	for _, body := range []string{`{"messages":[{"value":`, `{"messages":[]}`, `{}`} {
		if a := e.post("/v1/topics/refused/messages/batch", body); a.status < 400 {
			t.Errorf("%s: %d", body, a.status)
		}
	}
	if _, err := e.store.GetTopic(t.Context(), "refused"); !mqerr.Is(err, mqerr.TopicNotFound) {
		t.Errorf("topic of refused requests: %v", err)
	}
}

// Every form of the API gives a binary value back byte for byte.
func TestValuesComeBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	values := []string{"", "plain", "\x00\x01\xff\xfe\n\"\\", "é\u2028😀", strings.Repeat("\xfd", 300), `{"a": 1}`}
	for _, compression := range []string{"none", "s2", "zstd"} {
		topic := "t-" + compression
		e.topic(topic, onePartition, func(s *mq.TopicSettings) { s.Compression = compression })
		var items []string
		for _, v := range values {
			if a := e.post("/v1/topics/"+topic+"/messages", v); a.status != 201 {
				t.Fatalf("publish: %d %s", a.status, a.body)
			}
			items = append(items, fmt.Sprintf(`{"value":%q,"encoding":"base64"}`, base64.StdEncoding.EncodeToString([]byte(v))))
		}
		if a := e.post("/v1/topics/"+topic+"/messages/batch", `{"messages":[`+strings.Join(items, ",")+`]}`); a.status != 200 {
			t.Fatalf("batch: %d %s", a.status, a.body)
		}
		lines := e.post("/v1/topics/"+topic+"/messages/batch", strings.Join(items, "\n")+"\n", "Content-Type", "application/x-ndjson")
		if n := strings.Count(lines.body, `{"id":"`); lines.status != 200 || n != len(values) {
			t.Fatalf("lines: %d %s", lines.status, lines.body)
		}
		want := append(append(append([]string(nil), values...), values...), values...)
		for form, query := range map[string]string{"json": "", "base64": "?encoding=base64"} {
			var got api.ReceiveAnswer
			e.post("/v1/topics/"+topic+"/groups/"+form+"/receive"+query, `{"max":100}`).into(t, &got)
			if len(got.Messages) != len(want) {
				t.Fatalf("%s %s: %d messages", compression, form, len(got.Messages))
			}
			for i, m := range got.Messages {
				if b, err := m.Bytes(); err != nil || string(b) != want[i] || query != "" && m.Encoding != "base64" {
					t.Errorf("%s %s %d: %q (%s, %v), want %q", compression, form, i, b, m.Encoding, err, want[i])
				}
			}
		}
		for i := range want {
			a := e.post("/v1/topics/"+topic+"/groups/raw/receive?raw=true", nil)
			if a.status != 200 || a.body != want[i] || a.header.Get("Mq-Receipt") == "" {
				t.Errorf("%s raw %d: %d %q, want %q", compression, i, a.status, a.body, want[i])
			}
		}
		if a := e.post("/v1/topics/"+topic+"/groups/raw/receive?raw=true", nil); a.status != 204 {
			t.Errorf("raw at the end: %d %q", a.status, a.body)
		}
	}
}

func TestBatchReportsEachItem(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", func(s *mq.TopicSettings) { s.Partitions, s.MaxMessageBytes = 3, 10 })
	body := `{"messages":[
		{"value":"a","partition":2}, {"value":{"x": [1]},"encoding":"json","partition":2}, {"value":"12345678901"}, {"value":"?","encoding":"base64"},
		{"value":1}, {"value":"a","key":7}, {}, {"value":"a","partition":3}, {"value":"a","ttl":"-5s"}, {"value":"a","colour":"red"},
		{"value":"a","headers":{"bad name":"x"}}, 5, {"value":"b","partition":2,"headers":null,"lane":"normal"}]}`
	a := e.post("/v1/topics/t/messages/batch", body)
	var got api.PublishBatchAnswer
	if a.into(t, &got); a.status != 207 || got.Failed != 10 || len(got.Results) != 13 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	want := []string{"", "", "message_too_large", "validation_failed", "validation_failed", "validation_failed", "validation_failed", "partition_not_found",
		"validation_failed", "validation_failed", "validation_failed", "validation_failed", ""}
	for i, r := range got.Results {
		code := ""
		if r.Error != nil {
			code = r.Error.Code
		}
		if code != want[i] {
			t.Errorf("item %d: %q, want %q (%+v)", i, code, want[i], r.Error)
		}
	}
	if got.Results[0].Offset != 0 || got.Results[1].Offset != 1 || got.Results[12].Offset != 2 {
		t.Errorf("offsets: %s", a.body)
	}
	if p := got.Results[8].Error.Errors; len(p) != 1 || p[0].Pointer != "/messages/8/ttl" {
		t.Errorf("ttl: %+v", p)
	}
	if a := e.post("/v1/topics/t/messages/batch?strict=true", body); a.status != 422 || a.code(t) != "validation_failed" || !strings.Contains(a.body, `"offset":3`) {
		t.Errorf("strict: %d %s", a.status, a.body)
	}
	runs := e.post("/v1/topics/t/messages/batch?results=runs", `{"messages":[{"value":"a","partition":1},{"value":"b","partition":1},{"value":"c","partition":0}]}`)
	if want := `{"runs":[{"partition":1,"first_offset":0,"count":2},{"partition":0,"first_offset":0,"count":1}],"failed":0}` + "\n"; runs.body != want {
		t.Errorf("runs: %s, want %s", runs.body, want)
	}
}

// Keys keep their partition whichever form they come in, and a keyless batch stays in one.
func TestPartitionChoice(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t")
	var single api.Published
	e.post("/v1/topics/t/messages", "x", "Mq-Key", "customer-1").into(t, &single)
	var batch api.PublishBatchAnswer
	e.post("/v1/topics/t/messages/batch", `{"messages":[{"value":"x","key":"customer-1"},{"value":"x"},{"value":"y"},{"value":"z"}]}`).into(t, &batch)
	if r := batch.Results; r[0].Partition != single.Partition || r[1].Partition != r[2].Partition || r[2].Partition != r[3].Partition {
		t.Errorf("single in %d, batch %+v", single.Partition, r)
	}
}

// What the gateway makes of a leader's trouble.
func TestPublishThroughTrouble(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	tries := 0
	e.leader.with(func() {
		e.leader.refuse = func(frame.Type, mq.PartitionID) error {
			if tries++; tries < 4 {
				return mqerr.New(mqerr.NotLeader, "not me")
			}
			return nil
		}
	})
	if a := e.post("/v1/topics/t/messages", "x"); a.status != 201 || tries != 4 {
		t.Errorf("a leader that moves: %d %s after %d tries", a.status, a.body, tries)
	}
	e.leader.with(func() {
		e.leader.refuse = func(frame.Type, mq.PartitionID) error { return mqerr.New(mqerr.StorageFull, "full") }
	})
	if a := e.post("/v1/topics/t/messages", "x"); a.status != 507 || a.code(t) != "storage_full" || a.header.Get("Retry-After") == "" {
		t.Errorf("a full disk: %d %s", a.status, a.body)
	}
	e.leader.with(func() {
		e.leader.refuse = nil
		e.leader.cut = func(frame.Type, mq.PartitionID) bool { return true }
	})
	if a := e.post("/v1/topics/t/messages", "x"); a.status != 504 || a.code(t) != "outcome_unknown" {
		t.Errorf("a stream that breaks: %d %s", a.status, a.body)
	}
	e.leader.with(func() { e.leader.cut = nil })
	if a := e.post("/v1/topics/t/messages", "x"); a.status != 201 {
		t.Errorf("after it: %d %s", a.status, a.body)
	}
	var p api.Published
	e.post("/v1/topics/t/messages", "x").into(t, &p)
	if p.Offset != 3 { // 0 moved, 1 unknown but stored once, 2 after it
		t.Errorf("offset %d: something was stored twice or not at all", p.Offset)
	}
}
