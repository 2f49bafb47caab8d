package gateway

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// fakeNow is the clock of the fake leaders.
const fakeNow = int64(1_900_000_000_000_000_000)

// schedule of the fake keeps due times by number, in the log's dues.
func (l *leader) schedule(f *frame.Schedule) (*frame.Scheduled, error) {
	b, err := mq.ParseBatch(f.Batch)
	if err == nil {
		err = b.CheckIndex()
	}
	if err != nil || b.Count != len(f.Times) || b.Codec != mq.CodecNone {
		return nil, mqerr.New(mqerr.InvalidRequest, "codec %d, %d times for %d messages: %v", b.Codec, len(f.Times), b.Count, err)
	}
	x := l.part(f.Partition)
	out := &frame.Scheduled{First: uint64(len(x.dues)), Stamp: fakeNow}
	for _, t := range f.Times {
		if t < 0 {
			t = fakeNow - t
		}
		x.dues = append(x.dues, t)
		out.Dues = append(out.Dues, t)
	}
	return out, nil
}

// ListScheduled of the fake.
func (l *leader) ListScheduled(_ context.Context, r *mqpb.ListScheduledRequest) (*mqpb.ListScheduledResponse, error) {
	out := &mqpb.ListScheduledResponse{}
	l.with(func() {
		for n, due := range l.part(r.Partition.MQ()).dues {
			if due > r.AfterDue || due == r.AfterDue && uint64(n) > r.AfterNumber {
				out.Pending = append(out.Pending, &mqpb.PendingSchedule{Number: uint64(n), Due: due})
			}
		}
	})
	slices.SortFunc(out.Pending, func(a, b *mqpb.PendingSchedule) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Number, b.Number))
	})
	out.Pending = out.Pending[:min(len(out.Pending), int(r.Limit))]
	return out, nil
}

// ChangeScheduled of the fake: number 0 was released, the others may be changed.
func (l *leader) ChangeScheduled(_ context.Context, r *mqpb.ChangeScheduledRequest) (*mqpb.ChangeScheduledResponse, error) {
	deposed := false
	l.with(func() {
		if deposed = l.deposed > 0; deposed {
			l.deposed--
		}
	})
	if deposed {
		return nil, mqpb.Status(mqerr.New(mqerr.NotLeader, "sealed"))
	}
	if r.Number == 0 {
		return nil, mqpb.Status(mqerr.New(mqerr.AlreadyReleased, "schedule 0"))
	}
	at := r.Time
	if at < 0 {
		at = fakeNow - at
	}
	return &mqpb.ChangeScheduledResponse{Due: at}, nil
}

func TestPublishLater(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition, func(s *mq.TopicSettings) { s.Compression = "zstd" })
	var one api.Published
	a := e.post("/v1/topics/t/messages", strings.Repeat("x", 1000), "Mq-Delay", "90s")
	if a.into(t, &one); a.status != 202 || one.DeliverAt.UnixNano() != fakeNow+90e9 || strings.Contains(a.body, "offset") {
		t.Fatalf("a delay: %d %s", a.status, a.body)
	}
	id, err := mq.ParseMessageID(one.ID)
	if err != nil || !id.Scheduled || id.Number != 0 {
		t.Errorf("id %+v: %v", id, err)
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	if a := e.post("/v1/topics/t/messages", "x", "Mq-Deliver-At", at.Format(time.RFC3339)); a.status != 202 || !strings.Contains(a.body, at.Format(time.RFC3339)) {
		t.Errorf("a time: %d %s", a.status, a.body)
	}
	for _, header := range [][]string{{"Mq-Delay", "0s"}, {"Mq-Deliver-At", "2001-01-01T00:00:00Z"}} {
		if a := e.post("/v1/topics/t/messages", "x", header...); a.status != 201 {
			t.Errorf("%v: %d %s", header, a.status, a.body)
		}
	}
	var got api.PublishBatchAnswer
	a = e.post("/v1/topics/t/messages/batch", `{"messages":[{"value":"a","delay":"1s"},{"value":"b"},{"value":"c","deliver_at":"2001-01-01T00:00:00Z"},
		{"value":"d","delay":"2s","partition":0},{"value":"e","delay":null}]}`)
	if a.into(t, &got); a.status != 200 || got.Failed != 0 {
		t.Fatalf("batch: %d %s", a.status, a.body)
	}
	for i, later := range []int64{1e9, 0, 0, 2e9, 0} {
		if r := got.Results[i]; later == 0 != r.DeliverAt.IsZero() || later > 0 && r.DeliverAt.UnixNano() != fakeNow+later {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	if got.Results[4].Offset != got.Results[1].Offset+2 {
		t.Errorf("offsets of what does not wait: %+v", got.Results)
	}
	var runs api.PublishRunsAnswer
	e.post("/v1/topics/t/messages/batch?results=runs", `{"messages":[{"value":"a"},{"value":"b"},{"value":"c","delay":"1s"},{"value":"d","delay":"1s"}]}`).into(t, &runs)
	if r := runs.Runs; len(r) != 3 || r[0].Count != 2 || r[0].ID != "" || r[1].Count != 1 || r[1].ID == "" || r[2].ID == r[1].ID {
		t.Errorf("runs: %+v", runs)
	}
	if r := runs.Runs; *r[0].FirstOffset == 0 || r[1].FirstOffset != nil || r[1].Partition == nil || r[2].FirstOffset != nil {
		t.Errorf("a message that waits has no offset: %+v", runs)
	}
	runs = api.PublishRunsAnswer{}
	e.post("/v1/topics/t/messages/batch?results=runs", `{"messages":[{"value":"a","ttl":"x"},{"value":"b","partition":9}]}`).into(t, &runs)
	if r := runs.Runs; len(r) != 2 || r[0].Partition != nil || r[0].FirstOffset != nil || r[1].Partition != nil || r[1].Error == nil {
		t.Errorf("what is refused has no place: %+v", runs)
	}
	lines := e.post("/v1/topics/t/messages/batch", "{\"value\":\"a\",\"delay\":\"1s\"}\n{\"value\":\"b\"}\n{\"value\":\"c\",\"delay\":\"x\"}\n", "Content-Type", ndjson)
	if l := strings.Split(strings.TrimSpace(lines.body), "\n"); len(l) != 3 || !strings.Contains(l[0], "deliver_at") || !strings.Contains(l[1], "offset") || !strings.Contains(l[2], "/delay") {
		t.Errorf("lines: %s", lines.body)
	}
}

func TestBadTimes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	far := time.Now().Add(9000 * time.Hour).Format(time.RFC3339)
	for _, header := range [][]string{{"Mq-Delay", "5"}, {"Mq-Delay", "-5s"}, {"Mq-Delay", "8785h"}, {"Mq-Deliver-At", "tomorrow"}, {"Mq-Deliver-At", far},
		{"Mq-Deliver-At", "9999-01-01T00:00:00Z"}, {"Mq-Delay", "1s", "Mq-Deliver-At", "2001-01-01T00:00:00Z"}} {
		if a := e.post("/v1/topics/t/messages", "x", header...); a.status != 422 || a.code(t) != "validation_failed" {
			t.Errorf("%v: %d %s", header, a.status, a.body)
		}
	}
	for _, item := range []string{`"delay":5`, `"delay":"-1ns"`, `"delay":"1s","delay":"1s"`, `"delay":"1s","deliver_at":"2001-01-01T00:00:00Z"`,
		`"deliver_at":"2001-01-01"`, `"deliver_at":"` + far + `"`} {
		if a := e.post("/v1/topics/t/messages/batch", `{"messages":[{"value":"x",`+item+`}]}`); a.status != 207 || !strings.Contains(a.body, "validation_failed") {
			t.Errorf("%s: %d %s", item, a.status, a.body)
		}
	}
}

// A listing merges the partitions by due time, page by page, whatever the limit.
func TestListScheduled(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", func(s *mq.TopicSettings) { s.Partitions = 3 })
	var items []string
	for i := range 20 {
		items = append(items, `{"value":"x","partition":`+string(rune('0'+i%3))+`,"delay":"`+string(rune('1'+i*7%5))+`s"}`)
	}
	if a := e.post("/v1/topics/t/messages/batch", `{"messages":[`+strings.Join(items, ",")+`]}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, limit := range []string{"1", "3", "19", "20", "1000"} {
		seen, last, path := map[string]bool{}, time.Time{}, "/v1/topics/t/scheduled?limit="+limit
		for next := ""; ; {
			var page api.ScheduledList
			a := e.call("GET", path+next, nil)
			if a.into(t, &page); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			for _, s := range page.Scheduled {
				if seen[s.ID] || s.DeliverAt.Before(last) || s.State != "scheduled" {
					t.Fatalf("limit %s: %+v after %s", limit, s, last)
				}
				seen[s.ID], last = true, s.DeliverAt
			}
			if page.NextCursor == "" {
				break
			}
			next = "&cursor=" + page.NextCursor
		}
		if len(seen) != 20 {
			t.Errorf("limit %s: %d of 20", limit, len(seen))
		}
	}
	if a := e.call("GET", "/v1/topics/t/scheduled?partition=3", nil); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestChangeScheduled(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	topic := e.topic("t", onePartition)
	path := func(n uint64, scheduled bool) string {
		return "/v1/scheduled/" + mq.MessageID{Partition: mq.PartitionID{Topic: topic.ID}, Scheduled: scheduled, Number: n}.String()
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		has                string
	}{
		{"DELETE", path(1, true), "", 200, `"state":"cancelled"`},
		{"DELETE", path(0, true), "", 409, "already_released"},
		{"DELETE", path(1, false), "", 404, "message_not_found"},
		{"DELETE", "/v1/scheduled/nonsense", "", 400, "invalid_parameter"},
		{"PATCH", path(1, true), `{"delay":"1h"}`, 200, `"deliver_at":"` + time.Unix(0, fakeNow).Add(time.Hour).UTC().Format(time.RFC3339Nano)},
		{"PATCH", path(1, true), `{"deliver_at":"now"}`, 200, `"state":"scheduled"`},
		{"PATCH", path(1, true), `{"deliver_at":"2001-01-01T00:00:00Z"}`, 200, `"state":"scheduled"`},
		{"PATCH", path(0, true), `{"deliver_at":"now"}`, 409, "already_released"},
		{"PATCH", path(1, true), `{}`, 422, "validation_failed"},
		{"PATCH", path(1, true), `{"delay":"1h","deliver_at":"now"}`, 422, "validation_failed"},
		{"PATCH", path(1, true), `{"delay":"9000h"}`, 422, "/delay"},
		{"PATCH", path(1, true), `{"deliver_at":"later"}`, 422, "/deliver_at"},
		{"PATCH", path(1, true), `{"at":"now"}`, 422, "/at"},
	} {
		if a := e.call(c.method, c.path, c.body); a.status != c.status || !strings.Contains(a.body, c.has) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.body, a.status, a.body, c.status, c.has)
		}
	}
}

// FindScheduled of the fake node knows no schedules.
func (n *fakeNode) FindScheduled(context.Context, *mqpb.FindScheduledRequest) (*mqpb.FindScheduledResponse, error) {
	return nil, mqpb.Status(mqerr.New(mqerr.MessageNotFound, "no schedules"))
}

// TestChangeScheduledWaitsForALeader: a change asks again while its partition has no leader, as a publish does.
func TestChangeScheduledWaitsForALeader(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	var published api.Published
	for range 2 {
		e.post("/v1/topics/t/messages", "x", "Mq-Delay", "1h").into(t, &published)
	}
	for _, c := range []struct{ method, body string }{{"PATCH", `{"delay":"2h"}`}, {"DELETE", ""}} {
		e.leader.with(func() { e.leader.deposed = 3 })
		if a := e.call(c.method, "/v1/scheduled/"+published.ID, c.body); a.status != 200 {
			t.Errorf("%s: %d %s", c.method, a.status, a.body)
		}
		e.leader.with(func() {
			if e.leader.deposed != 0 {
				t.Errorf("%s: it was not asked again, %d times", c.method, e.leader.deposed)
			}
		})
	}
}
