package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/splashdam/splashdam/shared/mq"
)

func gzipped(t testing.TB, n int, b string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	for range n {
		if _, err := io.WriteString(w, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// stored is how many messages the leader has.
func (e *env) stored() (n uint64) {
	e.leader.with(func() {
		for _, p := range e.leader.parts {
			n += p.next
		}
	})
	return n
}

func TestBadNames(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, name := range []string{"..", "%2e%2e", "..%2F..%2Fx", ".hidden", "-x", "%C3%A9", "a%20b", "a%00", strings.Repeat("a", 300), "a%2Fb", "a%", "%"} {
		for _, path := range []string{"/v1/topics/" + name + "/messages", "/v1/topics/" + name + "/messages/batch",
			"/v1/topics/" + name + "/groups/g/receive", "/v1/topics/t/groups/" + name + "/receive"} {
			status, head := e.raw("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
			if status != 400 && status != 404 {
				t.Errorf("%s: %d %s", path, status, head)
			}
		}
	}
	for _, path := range []string{"/v1/topics//messages", "/v1/topics/../../x/messages", "/../../x", "/v1/topics/t/groups//receive"} {
		if status, head := e.raw("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"); status != 400 && status != 404 {
			t.Errorf("%s: %d %s", path, status, head)
		}
	}
	if topics := e.view.Topics(); len(topics) != 0 {
		t.Errorf("topics were made: %v", topics)
	}
}

// raw sends bytes on a connection of its own and reads one answer.
func (e *env) raw(request string) (status int, body string) {
	e.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.g.URL(), "http://"))
	e.check(err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	e.check(err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	e.check(err)
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestBadPublishes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *Config) { c.MaxBodyBytes = 1 << 20 })
	e.topic("t", onePartition)
	const single, batch = "/v1/topics/t/messages", "/v1/topics/t/messages/batch"
	bomb := gzipped(t, 64, strings.Repeat("\x00", 1<<20))
	for _, c := range []struct {
		path   string
		body   any
		header []string
		status int
		code   string
	}{
		{single, "x", []string{"Mq-Lane", "urgent"}, 422, "validation_failed"},
		{single, "x", []string{"Mq-Ttl", "-5m"}, 422, "validation_failed"},
		{single, "x", []string{"Mq-Ttl", "soon"}, 422, "validation_failed"},
		{single, "x", []string{"Idempotency-Key", ""}, 422, "validation_failed"},
		{single, "x", []string{"Idempotency-Key", strings.Repeat("k", mq.MaxIdempotencyBytes+1)}, 422, "validation_failed"},
		{single, "x", []string{"Mq-Partition", "-1"}, 400, "invalid_parameter"},
		{single, "x", []string{"Mq-Partition", "1"}, 404, "partition_not_found"},
		{single, "x", []string{"Mq-Key", strings.Repeat("k", mq.MaxKeyBytes+1)}, 422, "validation_failed"},
		{single, "x", []string{"Mq-Header-Big", strings.Repeat("v", mq.MaxHeaderBytes)}, 431, "headers_too_large"},
		{single, "x", []string{"Content-Type", strings.Repeat("t", 256)}, 422, "validation_failed"},
		{single, "x", []string{"Content-Encoding", "br"}, 415, "unsupported_media_type"},
		{single, "not gzip", []string{"Content-Encoding", "gzip"}, 400, "invalid_request"},
		{single, gzipped(t, 1, "cut short")[:10], []string{"Content-Encoding", "gzip"}, 400, "invalid_request"},
		{single, "not zstd", []string{"Content-Encoding", "zstd"}, 400, "invalid_request"},
		{single, strings.Repeat("x", 1<<20+1), nil, 413, "message_too_large"},
		{single, bomb, []string{"Content-Encoding", "gzip"}, 413, "message_too_large"},
		{batch, bomb, []string{"Content-Encoding", "gzip"}, 413, "batch_too_large"},
		{batch, io.MultiReader(strings.NewReader(strings.Repeat(" ", 1<<20)), strings.NewReader("x")), nil, 413, "batch_too_large"},
		{batch, `{"messages":[` + strings.Repeat(`{"value":""},`, mq.MaxBatchMessages) + `{"value":""}]}`, nil, 413, "batch_too_large"},
		{batch, `{"messages":[{"value":"x"}]}`, []string{"Content-Type", "text/xml"}, 415, "unsupported_media_type"},
		{batch, ``, nil, 400, "invalid_json"},
		{batch, `{`, nil, 400, "invalid_json"},
		{batch, `{"messages":[{"value":"x"}`, nil, 400, "invalid_json"},
		{batch, `{"messages":[{"value":"x"}]}}`, nil, 400, "invalid_json"},
		{batch, `{"messages":[{"value":{"a":[{"b":tru}]},"encoding":"json"}]}`, nil, 400, "invalid_json"},
		{batch, `{"messages":[{"value":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `,"encoding":"json"}]}`, nil, 400, "invalid_json"},
		{batch, "{\"messages\":[{\"value\":\"\xff\"}]}", nil, 400, "invalid_json"},
		{batch, `[]`, nil, 422, "validation_failed"},
		{batch, `{"messages":{}}`, nil, 422, "validation_failed"},
		{batch, `{"messages":[]}`, nil, 422, "validation_failed"},
		{batch, `{"messages":[{"value":"x"}],"more":1}`, nil, 422, "validation_failed"},
		{batch + "?results=all", `{"messages":[{"value":"x"}]}`, nil, 400, "invalid_parameter"},
		{batch + "?strict=maybe", `{"messages":[{"value":"x"}]}`, nil, 400, "invalid_parameter"},
		{"/v1/topics/t/nothing", "x", nil, 404, "route_not_found"},
	} {
		a := e.post(c.path, c.body, c.header...)
		if a.status != c.status || a.code(t) != c.code {
			t.Errorf("%s %.40v %.60v: %d %.300s, want %d %s", c.path, c.header, c.body, a.status, a.body, c.status, c.code)
		}
		for _, jargon := range []string{"EOF", "gzip: invalid", "zstd: invalid", "http: ", "context ", "rpc error"} {
			if strings.Contains(a.body, jargon) {
				t.Errorf("%s %.40v %.60v: %q is nobody's language: %s", c.path, c.header, c.body, jargon, a.body)
			}
		}
	}
	if a := e.call(http.MethodPut, single, "x"); a.status != 405 || a.code(t) != "method_not_allowed" || a.header.Get("Allow") == "" {
		t.Errorf("PUT: %d %v %s", a.status, a.header, a.body)
	}
	if n := e.stored(); n != 0 {
		t.Errorf("refused requests stored %d messages", n)
	}
}

// More than 64 headers of a message, each within its own limit.
func TestTooManyHeaders(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	var headers []string
	for i := range mq.MaxHeaders + 1 {
		headers = append(headers, fmt.Sprintf("Mq-Header-H%d", i), "v")
	}
	if a := e.post("/v1/topics/t/messages", "x", headers...); a.status != 431 || a.code(t) != "headers_too_large" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := e.post("/v1/topics/t/messages", "x", headers[2:]...); a.status != 201 {
		t.Errorf("the limit itself: %d %s", a.status, a.body)
	}
}

// A body over the limit leaves the connection usable.
func TestConnectionLivesAfterTooLarge(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition, func(s *mq.TopicSettings) { s.MaxMessageBytes = 10 })
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.g.URL(), "http://"))
	e.check(err)
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, c := range []struct{ body, status string }{{strings.Repeat("x", 1000), "413"}, {"fine", "201"}} {
		_, err := fmt.Fprintf(conn, "POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(c.body), c.body)
		e.check(err)
		resp, err := http.ReadResponse(in, nil)
		e.check(err)
		_, _ = io.Copy(io.Discard, resp.Body)
		if !strings.HasPrefix(resp.Status, c.status) {
			t.Errorf("%d bytes: %s", len(c.body), resp.Status)
		}
	}
}

func TestPackedBodies(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	z, err := zstd.NewWriter(nil)
	e.check(err)
	for range 2 { // the second time with a decoder from the pool
		for encoding, body := range map[string][]byte{"gzip": gzipped(t, 10, "0123456789"), "zstd": z.EncodeAll(bytes.Repeat([]byte("0123456789"), 10), nil)} {
			if a := e.post("/v1/topics/t/messages", body, "Content-Encoding", encoding); a.status != 201 {
				t.Fatalf("%s: %d %s", encoding, a.status, a.body)
			}
		}
	}
	a := e.post("/v1/topics/t/groups/g/receive", nil)
	if n := strings.Count(a.body, `"value":"`+strings.Repeat("0123456789", 10)+`"`); n != 4 {
		t.Errorf("%d of 4 came back: %s", n, a.body)
	}
}

// A client that sends its headers or its body a byte at a time loses its connection.
func TestSlowLoris(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	const soon = 200 * time.Millisecond // none of those who must not be late are up against it
	for i, c := range []struct {
		begin        string
		header, body time.Duration
	}{
		{"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\nX-A", soon, time.Minute},
		{"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nab", time.Minute, soon},
	} {
		slow := e.gateway(fmt.Sprintf("slow-%d", i), func(cfg *Config) { cfg.HeaderTimeout, cfg.BodyTimeout = c.header, c.body })
		conn, err := net.Dial("tcp", strings.TrimPrefix(slow.URL(), "http://"))
		e.check(err)
		_, err = io.WriteString(conn, c.begin)
		e.check(err)
		if b, err := io.ReadAll(conn); err != nil || strings.Contains(string(b), " 201 ") { // it ends, or the test times out
			t.Errorf("%q, %v", b, err)
		} else if c.body == soon && !strings.Contains(string(b), "the body did not arrive in time") {
			t.Errorf("a slow body: %q", b)
		}
		_ = conn.Close()
		if c.header == soon { // others may be too slow for this one, too
			continue
		}
		res, err := http.Post(slow.URL()+"/v1/topics/t/messages", "text/plain", strings.NewReader("x")) // comes in one piece
		e.check(err)
		if _ = res.Body.Close(); res.StatusCode != 201 {
			t.Errorf("others: %s", res.Status)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for sent, echoed := range map[string]bool{"abc-1": true, "": false, strings.Repeat("x", 129): false, "a b": false, "a\"b": false, "é": false} {
		a := e.post("/v1/ack", "nonsense", "X-Request-Id", sent)
		if got := a.header.Get("X-Request-Id"); got == "" || (got == sent) != echoed {
			t.Errorf("%q: %q", sent, got)
		}
		a.code(t)
	}
}
