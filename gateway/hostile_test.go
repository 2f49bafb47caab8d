package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A name is unescaped once: %2541 is not A.
func TestNamesAreUnescapedOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("A", onePartition)
	if status, body := e.raw("POST /v1/topics/%2541/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"); status != 400 {
		t.Errorf("%%2541: %d %s", status, body)
	}
	if status, body := e.raw("POST /v1/topics/%41/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"); status != 201 {
		t.Errorf("%%41: %d %s", status, body)
	}
	if status, body := e.raw("DELETE /v1/topics/%2541 HTTP/1.1\r\nHost: x\r\n\r\n"); status != 400 {
		t.Errorf("DELETE %%2541: %d %s", status, body)
	}
	if n := e.stored(); n != 1 {
		t.Errorf("%d messages are stored", n)
	}
}

// What is not surely meant is not passed over, least of all beside a delete.
func TestBadQueries(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	for query, pointer := range map[string]string{"dry_run=true;x=1": "query", "dry_run=true&%zz": "query", "dry_run=%zz": "query",
		"dry_run=true&dry_run=false": "query/dry_run", "dry_run=false&dry_run=true": "query/dry_run", "dryrun=true": "query/dryrun", "dry_run=yes": "query/dry_run"} {
		a := e.call(http.MethodDelete, "/v1/topics/t?"+query, nil)
		var p api.Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != 400 || p.Code != "invalid_parameter" || len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	if _, err := e.store.GetTopic(t.Context(), "t"); err != nil {
		t.Errorf("after deletes that were refused: %v", err)
	}
	if a := e.call(http.MethodGet, "/livez?probe=1", nil); a.status != 200 {
		t.Errorf("outside the API: %d %s", a.status, a.body)
	}
}

// What is said and empty is mostly a variable that somebody forgot to set, or a list in which a program found nothing:
// it does not become all partitions, all messages or the default.
func TestEmptyIsNotAll(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	for _, c := range []struct{ method, path, body, named string }{
		{http.MethodPost, "/receive", `{"partitions":[]}`, "/partitions"},
		{http.MethodPost, "/receive?max=", ``, "query/max"},
		{http.MethodPost, "/receive?wait=", ``, "query/wait"},
		{http.MethodGet, "/stream?partitions=", ``, "query/partitions"},
		{http.MethodGet, "/stream?max_in_flight=", ``, "query/max_in_flight"},
		{http.MethodGet, "/messages?state=ready&partition=", ``, "query/partition"},
		{http.MethodGet, "/dead?limit=", ``, "query/limit"},
	} {
		a := e.call(c.method, "/v1/topics/t/groups/g"+c.path, c.body)
		var p api.Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != 400 && a.status != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != c.named {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.status, a.body)
		}
	}
}

// Every query that a route takes is described, and the other way round.
func TestOpenAPIDescribesTheQueries(t *testing.T) {
	doc := readOpenAPI(t)
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range (&Gateway{}).routes() {
		path := param.ReplaceAllString(r.path, "{$1}")
		op := doc["paths"].(map[string]any)[path].(map[string]any)[strings.ToLower(r.method)].(map[string]any)
		var described []string
		params, _ := op["parameters"].([]any)
		for _, p := range params {
			object := p.(map[string]any)
			if ref, ok := object["$ref"].(string); ok {
				object = lookUp(doc, ref).(map[string]any)
			}
			if object["in"] == "query" {
				described = append(described, object["name"].(string))
			}
		}
		taken := slices.Clone(r.query)
		slices.Sort(taken)
		slices.Sort(described)
		if !slices.Equal(taken, described) {
			t.Errorf("%s %s takes %v, described are %v", r.method, path, taken, described)
		}
	}
}

// A refused body of any size is read to its end: a client that sends all before it reads gets the answer, and the
// connection is usable.
func TestConnectionLivesAfterRefusals(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.g.URL(), "http://"))
	e.check(err)
	defer conn.Close()
	in := bufio.NewReader(conn)
	big := strings.Repeat("x", 3<<20)
	chunked := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(big), big)
	whole := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(big), big)
	for _, c := range []struct{ path, rest, status string }{
		{"/v1/topics/t/messages", whole, "413"}, {"/v1/topics/t/messages", chunked, "413"}, {"/v1/topics/../messages", whole, "400"},
		{"/v1/topics/t/groups/g/receive", whole, "413"},
		{"/v1/nothing", chunked, "404"}, {"/v1/topics/t/messages", "Content-Length: 1\r\n\r\nx", "201"},
	} {
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s", c.path, c.rest)
		e.check(err)
		resp, err := http.ReadResponse(in, nil)
		e.check(err)
		_, _ = io.Copy(io.Discard, resp.Body)
		if !strings.HasPrefix(resp.Status, c.status) || resp.Close {
			t.Errorf("%s %.40q: %s, closes %v", c.path, c.rest, resp.Status, resp.Close)
		}
	}
	if n := e.stored(); n != 1 {
		t.Errorf("%d messages are stored", n)
	}
}

func TestContentEncodings(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	twice := gzipped(t, 1, string(gzipped(t, 1, "hello")))
	post := func(headers string) (int, string) {
		return e.raw(fmt.Sprintf("POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(twice), twice))
	}
	if status, body := post("Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n"); status != 415 {
		t.Errorf("packed twice: %d %s", status, body)
	}
	if status, body := post("Content-Encoding: GZip\r\n"); status != 201 {
		t.Errorf("codings have no case: %d %s", status, body)
	}
}

// A client that wants to be told to go on before it sends lines is told.
func TestStreamContinues(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.g.URL(), "http://"))
	e.check(err)
	defer conn.Close()
	const line = `{"value":"x"}` + "\n"
	_, err = fmt.Fprintf(conn, "POST /v1/topics/t/messages/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(line))
	e.check(err)
	in := bufio.NewReader(conn)
	if first, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(first, "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", first, err)
	}
	for header := ""; header != "\r\n"; {
		header, err = in.ReadString('\n')
		e.check(err)
	}
	_, err = io.WriteString(conn, line)
	e.check(err)
	resp, err := http.ReadResponse(in, nil)
	e.check(err)
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || !strings.Contains(string(b), `"offset":0`) {
		t.Errorf("%s %s", resp.Status, b)
	}
}

// What HTTP can't carry arrives all the same, marked, and adds no header.
func TestRawAnswersKeepHeaders(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	want := map[string]string{"a": "x\r\nInjected: 1", "b": "\x00\x7f", "c": " 100% ", "d": "100%", "e": "é"}
	key := "k\nEvil: 1"
	item, err := json.Marshal(api.PublishBatch{Messages: []api.PublishItem{{Value: json.RawMessage(`"v"`), Key: &key, Headers: want}}})
	e.check(err)
	if a := e.post("/v1/topics/t/messages/batch", item); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a := e.post("/v1/topics/t/groups/g/receive?raw=true", nil)
	escaped := a.header.Values("Mq-Escaped")
	value := func(name string) string {
		v := a.header.Get(name)
		if slices.Contains(escaped, name) {
			v, err = url.PathUnescape(v)
			e.check(err)
		}
		return v
	}
	for name, v := range want {
		if got := value("Mq-Header-" + strings.ToUpper(name)); got != v {
			t.Errorf("%s: %q, want %q", name, got, v)
		}
	}
	if got := value("Mq-Key"); got != "k\nEvil: 1" || len(escaped) != 4 || a.header.Get("Evil") != "" || a.header.Get("Injected") != "" {
		t.Errorf("key %q, escaped %v, %v", got, escaped, a.header)
	}
}

// What is given twice, or in numbers beyond the limit, is refused before anything is settled.
func TestBadSettles(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for body, pointer := range map[string]string{
		`{"nack":[{"receipt":"x","receipt":"y"}]}`:                          "/nack/0/receipt",
		`{"nack":[{"receipt":"x","delay":"1s","delay":"2s"}]}`:              "/nack/0/delay",
		`{"reject":[{"receipt":"x","reason":"a","reason":"b"}]}`:            "/reject/0/reason",
		`{"extend":[{"receipt":"x","lease":"1s"},{"receipt":"y","a/b":1}]}`: "/extend/1/a~1b",
	} {
		a := e.post("/v1/settle", body)
		var p api.Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.body, pointer)
		}
	}
	if a := e.post("/v1/nack", `{"receipt":"x","delay":"1s","delay":"2s"}`); a.status != 422 {
		t.Errorf("an option twice: %d %s", a.status, a.body)
	}
	many := `["x"` + strings.Repeat(`,""`, maxSettle) + `]`
	for path, body := range map[string]string{"/v1/ack": `{"receipts":` + many + `}`, "/v1/settle": `{"ack":` + many + `}`} {
		if a := e.post(path, body); a.status != 413 || a.code(t) != "batch_too_large" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	// The text is not read beyond the limit: what follows may be anything.
	if a := e.post("/v1/ack", `{"receipts":`+many[:len(many)-1]+`}}}`); a.status != 413 {
		t.Errorf("beyond the limit: %d %s", a.status, a.body)
	}
}

func TestBadItems(t *testing.T) {
	for line, pointer := range map[string]string{
		`{"value":"","a/b~c":1}`:                            "/a~1b~0c",
		`{"value":"","headers":{"x/y":1}}`:                  "/headers/x~1y",
		`{"value":"","headers":{"x":"1","x":"2"}}`:          "/headers/x",
		`{"value":"","` + strings.Repeat("é", 40) + `x":1}`: "/" + strings.Repeat("é", 32),
	} {
		r := itemReader{maxValue: mq.DefaultMaxMessageBytes, index: -1}
		r.scan.Reset([]byte(line))
		if err := r.read(); err != nil || r.err == nil || r.err.Fields[0].Pointer != pointer {
			t.Errorf("%s: %v, %+v; want %s", line, err, r.err, pointer)
		}
	}
}

// A topic that is deleted under a stream and under a read is not there any more; nobody waits for its leader.
func TestDeletedUnderway(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *Config) { c.RequestTimeout = time.Hour })
	id := e.topic("t", onePartition).ID
	s := e.lines(t, "t")
	s.send(`{"value":"1"}` + "\n")
	if r := s.result(); r.Error != nil {
		t.Fatalf("%+v", r)
	}
	if a := e.call(http.MethodDelete, "/v1/topics/t", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	s.send(`{"value":"2"}` + "\n")
	if r := s.result(); r.Error == nil || r.Error.Code != "topic_not_found" || r.Error.Retryable {
		t.Errorf("a line: %+v", r)
	}
	_, err := e.g.fetchRead(t.Context(), &frame.Read{Partition: mq.PartitionID{Topic: id}})
	if !mqerr.Is(err, mqerr.TopicNotFound) {
		t.Errorf("a read: %v", err)
	}
}

// Times that can't be told as nanoseconds since 1970 would be other times.
func TestStartTimes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	for at, status := range map[string]int{"0001-01-02T00:00:00Z": 422, "1969-12-31T23:59:59Z": 422, "1970-01-01T00:00:00Z": 0,
		"2262-04-11T23:47:16Z": 0, "2262-04-11T23:47:17Z": 422, "9999-12-31T00:00:00Z": 422} {
		_, _, err := groupSettings(mq.DefaultGroupSettings(), []byte(`{"start":{"at":"time","time":"`+at+`"}}`))
		if got := mqerr.Of(err); (got == nil) != (status == 0) || got != nil && (got.Code.Status() != status || got.Fields[0].Pointer != "/start/time") {
			t.Errorf("%s: %v", at, err)
		}
	}
	a := e.call(http.MethodPut, "/v1/topics/u", `{"group_defaults":{"start":{"at":"time","time":"9999-12-31T00:00:00Z"}}}`)
	if a.status != 422 || !strings.Contains(a.body, "/group_defaults/start/time") {
		t.Errorf("a topic's defaults: %d %s", a.status, a.body)
	}
}

func TestUnwantedTypes(t *testing.T) {
	for accept, want := range map[string]readForm{"application/json;q=0, text/event-stream": formSSE, "*/*; q=0.000, application/x-ndjson": formNDJSON,
		"application/json;q=0.1": formJSON, "application/json; charset=utf-8; q=0 , text/event-stream;q=1": formSSE} {
		if got, err := acceptedForm(accept); err != nil || got != want {
			t.Errorf("%s: %v, %v", accept, got, err)
		}
	}
	if _, err := acceptedForm("*/*;q=0"); !mqerr.Is(err, mqerr.NotAcceptable) {
		t.Errorf("nothing is wanted: %v", err)
	}
}
