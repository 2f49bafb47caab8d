package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

func TestReads(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	id := h.topic("log", `{"partitions":2}`)
	h.node.set(func() { h.node.first[part(id, 1)] = 5 })
	h.node.put(part(id, 0), 1000e9, values("a", "b", "c")...)      // stamps 1000 s and on, a nanosecond apart
	h.node.put(part(id, 1), 1000e9+1, values("x", "y")...)         // x is as old as b
	h.node.put(part(id, 0), 2000e9, values("d")...)                // offset 3
	h.node.put(part(id, 1), 3000e9, values("\xff\x00\xfe", "")...) // offsets 7 and 8
	t.Run("one partition", func(t *testing.T) { testReadOne(t, h) })
	t.Run("merged", func(t *testing.T) { testReadMerged(t, h) })
	t.Run("messages", func(t *testing.T) { testReadMessage(t, h, id) })
	t.Run("waiting", func(t *testing.T) { testReadWaits(t, h) })
	t.Run("streams", func(t *testing.T) { testReadStreams(t, h) })
	t.Run("bad input", func(t *testing.T) { testReadBadInput(t, h) })
}

// read gives the values of one answer.
func (h *harness) read(query string) ([]string, api.ReadAnswer) {
	h.t.Helper()
	got := decodeAs[api.ReadAnswer](h.t, h.ok(200, "GET", "/v1/topics/log/messages?"+query, ""))
	return messageValues(h.t, got.Messages), got
}

func messageValues(t *testing.T, messages []api.Message) []string {
	t.Helper()
	out := []string{}
	for _, m := range messages {
		b, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

func testReadOne(t *testing.T, h *harness) {
	for query, want := range map[string]string{
		"partition=0":                                   "a b c d",
		"partition=0&from=earliest&to=latest":           "a b c d",
		"partition=0&from=1&to=3":                       "b c",
		"partition=0&from=2":                            "c d",
		"partition=0&from=4":                            "",
		"partition=0&from=0&to=1000":                    "a b c d",
		"partition=0&from=latest":                       "",
		"partition=0&limit=2":                           "a b",
		"partition=0&direction=backward":                "d c b a",
		"partition=0&direction=backward&limit=3":        "d c b",
		"partition=0&direction=backward&to=3":           "c b a",
		"partition=0&direction=backward&from=1&to=3":    "c b",
		"partition=0&direction=backward&from=latest":    "d c b a",
		"partition=0&from=1970-01-01T00:20:00Z":         "d", // 1200 s
		"partition=0&to=1970-01-01T00:20:00Z":           "a b c",
		"partition=0&from=1970-01-01T00:16:40Z&limit=1": "a", // exactly 1000 s
		"partition=1&limit=1":                           "x",
	} {
		got, _ := h.read(query)
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %q, want %q", query, s, want)
		}
	}
	_, all := h.read("partition=0&to=latest")
	if all.NextCursor != "" || !all.AtEnd {
		t.Errorf("a range that is done: %+v", all)
	}
	_, open := h.read("partition=0")
	if open.NextCursor == "" || !open.AtEnd {
		t.Errorf("a read without an upper end: %+v", open)
	}
	_, empty := h.read("partition=0&from=latest")
	if empty.NextCursor == "" || !empty.AtEnd || empty.Messages == nil {
		t.Errorf("nothing yet: %+v", empty)
	}
	m := all.Messages[0]
	want := api.Message{ID: m.ID, Partition: 0, Offset: 0, Value: "a", Encoding: "utf8", Lane: "normal", Timestamp: time.Unix(1000, 0).UTC()}
	if m.ID == "" || m.Value != want.Value || m.Encoding != want.Encoding || m.Lane != want.Lane || !m.Timestamp.Equal(want.Timestamp) || m.Key != nil {
		t.Errorf("message %+v, want %+v", m, want)
	}
}

func testReadMerged(t *testing.T, h *harness) {
	want := []string{"a", "b", "x", "c", "y", "d", "\xff\x00\xfe", ""}
	for limit := range 9 {
		for _, direction := range []string{"forward", "backward"} {
			query := "direction=" + direction + "&to=latest&limit=" + string(rune('1'+limit))
			var got []string
			next := query
			for pages := 0; pages < 10; pages++ {
				values, a := h.read(next)
				got = append(got, values...)
				if a.NextCursor == "" {
					break
				}
				next = query + "&cursor=" + a.NextCursor
			}
			expected := slices.Clone(want)
			if direction == "backward" {
				slices.Reverse(expected)
			}
			if !slices.Equal(got, expected) {
				t.Errorf("%s: %q, want %q", query, got, expected)
			}
		}
	}
	_, all := h.read("encoding=base64")
	for _, m := range all.Messages {
		if m.Encoding != "base64" {
			t.Errorf("%+v", m)
		}
	}
	_, plain := h.read("")
	if m := plain.Messages[6]; m.Encoding != "base64" || m.Value != "/wD+" || m.Offset != 7 {
		t.Errorf("a value that is no text: %+v", m)
	}
}

func testReadMessage(t *testing.T, h *harness, id mq.TopicID) {
	h.node.put(part(id, 0), 4000e9, mq.Message{Lane: mq.LaneNormal, Key: []byte("k\xff"), HasKey: true, ContentType: "text/html",
		Headers: []mq.Header{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}, {Name: "b", Value: "\"\n"}}, Value: []byte("<p>")})
	path := "/v1/messages/" + mq.MessageID{Partition: part(id, 0), Number: 4}.String()
	m := decodeAs[api.Message](t, h.ok(200, "GET", path, ""))
	key, err := m.KeyBytes()
	if m.Topic != "log" || m.Offset != 4 || m.Value != "<p>" || string(key) != "k\xff" || err != nil || m.ContentType != "text/html" {
		t.Errorf("%+v", m)
	}
	if len(m.Headers) != 2 || m.Headers["a"] != "2" || m.Headers["b"] != "\"\n" {
		t.Errorf("headers %v", m.Headers)
	}
	raw := h.ok(200, "GET", path+"?raw=true", "")
	if string(raw.body) != "<p>" || raw.header.Get("Content-Type") != "text/html" || raw.header.Get("Mq-Offset") != "4" || raw.header.Get("Mq-Header-a") != "2" {
		t.Errorf("raw: %q %v", raw.body, raw.header)
	}
	if raw.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(raw.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("a browser would run it: %v", raw.header)
	}
	expired := mq.MessageID{Partition: part(id, 1), Number: 4}
	for _, missing := range []mq.MessageID{expired, {Partition: part(id, 0), Number: 99}, {Partition: part(id, 7), Number: 0},
		{Partition: part(id+1000, 0), Number: 0}, {Partition: part(id, 0), Scheduled: true, Number: 1}, {Partition: part(id, 0), Number: 1<<64 - 1}} {
		h.fails("message_not_found", "", "GET", "/v1/messages/"+missing.String(), "")
	}
	for _, bad := range []string{"x", "EAEAAA==", "....", strings.Repeat("A", 65), "EAEAAAA"} {
		h.fails("invalid_parameter", "path/id", "GET", "/v1/messages/"+bad, "")
		h.fails("invalid_parameter", "path/id", "GET", "/v1/messages/"+bad+"/trace", "")
	}
	h.node.set(func() { h.node.logs[part(id, 0)] = h.node.logs[part(id, 0)][:4] })
}

func testReadWaits(t *testing.T, h *harness) {
	id := h.topic("waits", `{"partitions":1}`)
	h.node.put(part(id, 0), 5000e9, values("old")...)
	asked := make(chan struct{})
	var once sync.Once
	h.node.set(func() { h.node.onRead = func(*frame.Read) { once.Do(func() { close(asked) }) } })
	defer h.node.set(func() { h.node.onRead = nil })
	answers := make(chan answer, 1)
	go func() {
		a, err := h.try("GET", "/v1/topics/waits/messages?wait=30s&from=latest", "")
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	<-asked // and was answered with nothing: now it waits
	h.node.put(part(id, 0), 5001e9, values("new")...)
	first := decodeAs[api.ReadAnswer](t, <-answers)
	if len(first.Messages) != 1 || first.Messages[0].Value != "new" || first.NextCursor == "" {
		t.Errorf("%+v", first)
	}
	for _, wait := range []string{"", "wait=1ms&"} {
		empty := decodeAs[api.ReadAnswer](t, h.ok(200, "GET", "/v1/topics/waits/messages?"+wait+"from=latest", ""))
		// A wait may end while the leader is asked again, and then it is not known whether this is the end.
		if len(empty.Messages) != 0 || wait == "" && !empty.AtEnd {
			t.Errorf("%+v", empty)
		}
	}
	// A range whose upper end has passed is done: there is nothing to wait for.
	done := decodeAs[api.ReadAnswer](t, h.ok(200, "GET", "/v1/topics/waits/messages?wait=30s&from=1990-01-01T00:00:00Z&to=1991-01-01T00:00:00Z", ""))
	if len(done.Messages) != 0 || done.NextCursor != "" {
		t.Errorf("%+v", done)
	}
}

func testReadStreams(t *testing.T, h *harness) {
	a := h.ok(200, "GET", "/v1/topics/log/messages?partition=0", "", "Accept", "application/x-ndjson")
	var got []api.Message
	for line := range bytes.Lines(a.body) {
		var m api.Message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, m)
	}
	if s := strings.Join(messageValues(t, got), " "); s != "a b c d" || a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("lines: %s", s)
	}
	next := a.header.Get(api.NextCursorTrailer)
	if values, page := h.read("cursor=" + url.QueryEscape(next)); len(values) != 0 || !page.AtEnd {
		t.Errorf("the trailer's cursor goes on at %v", values)
	}
	a = h.ok(200, "GET", "/v1/topics/log/messages?partition=0&limit=1&to=2", "", "Accept", "application/x-ndjson")
	if values, _ := h.read("cursor=" + url.QueryEscape(a.header.Get(api.NextCursorTrailer))); strings.Join(values, " ") != "b" {
		t.Errorf("after one line: %v", values)
	}
	h.fails("offset_out_of_range", "", "GET", "/v1/topics/log/messages?partition=0&from=99", "", "Accept", "application/x-ndjson")
	h.fails("not_acceptable", "", "GET", "/v1/topics/log/messages", "", "Accept", "application/xml")
	testEventStream(t, h)
}

func testEventStream(t *testing.T, h *harness) {
	open := func(last string) (*bufio.Scanner, func() error) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", h.g.URL()+"/v1/topics/log/messages?partition=0", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(res, err)
		}
		return bufio.NewScanner(res.Body), res.Body.Close
	}
	lines, end := open("")
	var got []string
	last := ""
	for len(got) < 4 && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var m api.Message
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Value)
		}
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			last = id
		}
	}
	_ = end()
	if !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("events %v", got)
	}
	topic, _ := h.g.view.Topic("log")
	h.node.put(part(topic.ID, 0), 6000e9, values("e")...)
	lines, end = open(last)
	defer func() { _ = end() }()
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if !strings.Contains(data, `"value":"e"`) {
				t.Errorf("after Last-Event-ID comes %s", data)
			}
			return
		}
	}
	t.Error("the stream ended")
}

func testReadBadInput(t *testing.T, h *harness) {
	for query, want := range map[string][2]string{
		"partition=2":                         {"partition_not_found", ""},
		"partition=-1":                        {"invalid_parameter", "query/partition"},
		"partition=x":                         {"invalid_parameter", "query/partition"},
		"partition=1&from=4":                  {"offset_expired", ""},
		"partition=1&from=10":                 {"offset_out_of_range", ""},
		"from=3":                              {"invalid_parameter", "query/from"}, // of which partition?
		"to=3":                                {"invalid_parameter", "query/to"},
		"partition=0&from=3&to=1":             {"invalid_parameter", "query/to"},
		"partition=0&from=-1":                 {"invalid_parameter", "query/from"},
		"partition=0&from=yesterday":          {"invalid_parameter", "query/from"},
		"partition=0&to=18446744073709551616": {"invalid_parameter", "query/to"},
		"from=latest&to=earliest":             {"invalid_parameter", "query/to"},
		"direction=sideways":                  {"invalid_parameter", "query/direction"},
		"encoding=hex":                        {"invalid_parameter", "query/encoding"},
		"wait=31s":                            {"invalid_parameter", "query/wait"},
		"wait=-1s":                            {"invalid_parameter", "query/wait"},
		"wait=5":                              {"invalid_parameter", "query/wait"},
		"limit=0":                             {"invalid_parameter", "query/limit"},
		"limit=-5":                            {"invalid_parameter", "query/limit"},
		"limit=10001":                         {"invalid_parameter", "query/limit"},
		"limit=1e3":                           {"invalid_parameter", "query/limit"},
		"limit=99999999999999999999":          {"invalid_parameter", "query/limit"},
		"cursor=nonsense":                     {"invalid_cursor", ""},
	} {
		h.fails(want[0], want[1], "GET", "/v1/topics/log/messages?"+query, "")
	}
	h.fails("topic_not_found", "", "GET", "/v1/topics/nowhere/messages", "")
	_, page := h.read("limit=1")
	h.topic("other", `{"partitions":1}`)
	h.fails("invalid_cursor", "", "GET", "/v1/topics/other/messages?cursor="+page.NextCursor, "")
}
