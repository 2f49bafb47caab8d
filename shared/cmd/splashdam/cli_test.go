package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// server answers the calls of the command line with fixed bodies and keeps what was asked.
type server struct {
	mu      sync.Mutex
	asked   []string
	answers map[string]string // "GET /v1/topics": status, a blank, the body
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	name := r.Method + " " + r.URL.RequestURI()
	s.asked = append(s.asked, strings.TrimSpace(name+" "+string(body)))
	text, ok := s.answers[name]
	if !ok {
		w.WriteHeader(404)
		_, _ = io.WriteString(w, `{"code":"route_not_found"}`)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/receive") { // what is received is not there a second time
		s.answers[name] = `200 {"messages":[]}`
	}
	status, body2, _ := strings.Cut(text, " ")
	var code int
	_, _ = fmt.Sscan(status, &code)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body2)
}

// run executes one command line against s.
func (s *server) run(t *testing.T, in string, args ...string) (status int, out, errOut string) {
	t.Helper()
	h := httptest.NewServer(s)
	defer h.Close()
	var o, e bytes.Buffer
	status = execute(t.Context(), append(args, "--server", h.URL), strings.NewReader(in), &o, &e)
	return status, o.String(), e.String()
}

func TestExitStatuses(t *testing.T) {
	tests := []struct {
		name   string
		answer string
		args   []string
		status int
		says   []string
	}{
		{"done", `200 {"topics":[]}`, []string{"topic", "list"}, exitOK, nil},
		{"not found", `404 {"code":"topic_not_found","title":"There is no such topic; create it.","detail":"nope","request_id":"r7"}`,
			[]string{"topic", "describe", "t"}, exitRefused, []string{"topic_not_found: nope", "create it", "r7"}},
		{"outcome unknown", `504 {"code":"outcome_unknown","retryable":true}`, []string{"publish", "t", "--timeout", "1s"}, exitUnknown, []string{"outcome_unknown", "may or may not"}},
		{"no such command", "", []string{"nope"}, exitUsage, []string{"--help"}},
		{"bad flag", "", []string{"topic", "list", "-o", "xml"}, exitUsage, []string{"--output"}},
		{"wrong mix of flags", "", []string{"consume", "t", "-g", "g", "--from", "3"}, exitUsage, []string{"without --group"}},
		{"bad time of a flag", "", []string{"publish", "t", "--at", "tomorrow"}, exitUsage, []string{"--at", "2026-01-31T12:00:00Z", `"tomorrow"`}},
		{"less than none", "", []string{"consume", "t", "-g", "g", "--max=-1"}, exitUsage, []string{"--max must be"}},
		{"a list of nothing", "", []string{"topic", "list", "--limit", "0"}, exitUsage, []string{"--limit must be"}},
		{"no time to wait for", "", []string{"scheduled", "retime", "x"}, exitUsage, []string{"--at or --delay"}},
		{"bad time", "", []string{"consume", "t", "--from-time", "yesterday"}, exitUsage, []string{"2026-01-31T12:00:00Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{answers: map[string]string{"GET /v1/topics": tt.answer, "GET /v1/topics/t": tt.answer, "POST /v1/topics/t/messages": tt.answer}}
			status, _, errOut := s.run(t, "x", tt.args...)
			if status != tt.status {
				t.Errorf("status %d, want %d: %s", status, tt.status, errOut)
			}
			for _, want := range tt.says {
				if !strings.Contains(errOut, want) {
					t.Errorf("%q is not in %q", want, errOut)
				}
			}
		})
	}
}

func TestNoServer(t *testing.T) {
	var out, errOut bytes.Buffer
	// Port 1 refuses; the time limit is shorter than the first pause, so nothing is waited for.
	status := execute(context.Background(), []string{"topic", "list", "--server", "http://127.0.0.1:1", "--timeout", "1ms"}, strings.NewReader(""), &out, &errOut)
	if status != exitUnavailable || errOut.Len() == 0 {
		t.Errorf("status %d, %q; want %d", status, errOut.String(), exitUnavailable)
	}
}

func TestHelpIsDone(t *testing.T) {
	var out, errOut bytes.Buffer
	if status := execute(t.Context(), []string{"topic", "--help"}, strings.NewReader(""), &out, &errOut); status != exitOK || !strings.Contains(out.String(), "describe") {
		t.Errorf("status %d, %s%s", status, out.String(), errOut.String())
	}
}

func TestForms(t *testing.T) {
	s := &server{answers: map[string]string{"GET /v1/topics": `200 {"topics":[{"name":"a<b","state":"ready"}]}`}}
	_, out, _ := s.run(t, "", "topic", "list", "-o", "json")
	var list api.TopicList
	if err := json.Unmarshal([]byte(out), &list); err != nil || list.Topics[0].Name != "a<b" || !strings.Contains(out, "a<b") {
		t.Errorf("JSON %s, %v", out, err)
	}
	if _, out, _ = s.run(t, "", "topic", "list", "-o", "yaml"); !strings.HasPrefix(out, "topics:\n- ") || !strings.Contains(out, "name: a<b\n") {
		t.Errorf("YAML %s", out)
	}
}

func TestCreateSendsOnlyWhatIsGiven(t *testing.T) {
	s := &server{answers: map[string]string{"PUT /v1/topics/t": `201 {"name":"t"}`, "PATCH /v1/topics/t": `200 {"name":"t"}`}}
	if status, _, errOut := s.run(t, "", "topic", "create", "t", "--partitions", "3", "--no-keep-unsettled"); status != 0 {
		t.Fatal(errOut)
	}
	if status, _, errOut := s.run(t, "", "topic", "update", "t", "--retention", "24h"); status != 0 {
		t.Fatal(errOut)
	}
	want := []string{`PUT /v1/topics/t {"partitions":3,"retention":{"keep_unsettled":false}}`, `PATCH /v1/topics/t {"retention":{"time":"24h"}}`}
	if fmt.Sprint(s.asked) != fmt.Sprint(want) {
		t.Errorf("asked %q, want %q", s.asked, want)
	}
}

func TestPublishForms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{answers: map[string]string{"POST /v1/topics/t/messages": `201 {"id":"i","partition":1,"offset":2}`,
		"POST /v1/topics/t/messages/batch": `207 {"results":[{"error":{"code":"message_too_large","detail":"big"}}],"failed":1}`}}
	status, out, errOut := s.run(t, "hello\n", "publish", "t", "-k", "k")
	if status != 0 || out != "i  partition 1  offset 2\n" {
		t.Errorf("one: %d, %q, %q", status, out, errOut)
	}
	// One by one: how many lines go together depends on how fast they come.
	status, out, errOut = s.run(t, "", "publish", "t", "--lines", file, "-H", "Source=a=b", "--batch", "1")
	if status != exitRefused || out != "0 published, 2 failed\n" || !strings.Contains(errOut, file+":2: message_too_large: big") {
		t.Errorf("lines: %d, %q, %q", status, out, errOut)
	}
	want := []string{"POST /v1/topics/t/messages hello",
		`POST /v1/topics/t/messages/batch {"messages":[{"value":"one","headers":{"Source":"a=b"}}]}`,
		`POST /v1/topics/t/messages/batch {"messages":[{"value":"two","headers":{"Source":"a=b"}}]}`}
	slices.Sort(s.asked)
	if fmt.Sprint(s.asked) != fmt.Sprint(want) {
		t.Errorf("asked\n%q\nwant\n%q", s.asked, want)
	}
}

const received = `200 {"messages":[{"id":"i","receipt":"r1","partition":1,"offset":2,"key":"k","value":"a\tb","encoding":"utf8","timestamp":"2020-03-01T12:00:00Z"},
	{"id":"j","receipt":"r2","partition":1,"offset":3,"value":"/w==","encoding":"base64","timestamp":"2020-03-01T12:00:01Z"}]}`

func TestConsumePrintsAndAcknowledges(t *testing.T) {
	tests := []struct {
		name  string
		args  []string
		want  string
		acked bool
	}{
		{"table", nil, `
ID        PART/OFFSET  TIME (UTC)    KEY         VALUE
i         1/2          2020-03-01    k           a\tb
j         1/3          2020-03-01    -           \xff
`, true},
		{"raw, not acknowledged", []string{"--raw", "--no-ack"}, "a\tb\n\xff\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{answers: map[string]string{"POST /v1/topics/t/groups/g/receive": received, "POST /v1/settle": `200 {"results":[{},{}]}`}}
			status, out, errOut := s.run(t, "", append([]string{"consume", "t", "-g", "g"}, tt.args...)...)
			if status != 0 {
				t.Fatal(errOut)
			}
			if want := strings.TrimPrefix(tt.want, "\n"); out != want {
				t.Errorf("got\n%s\nwant\n%s", out, want)
			}
			if acked := strings.Contains(fmt.Sprint(s.asked), `POST /v1/settle {"ack":["r1","r2"]}`); acked != tt.acked {
				t.Errorf("acknowledged: %v; asked %q", acked, s.asked)
			}
		})
	}
}

func TestConsumeJSONHasTheReceipt(t *testing.T) {
	s := &server{answers: map[string]string{"POST /v1/topics/t/groups/g/receive": received}}
	_, out, _ := s.run(t, "", "consume", "t", "-g", "g", "--no-ack", "-o", "json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var d api.Delivery
	if len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &d) != nil || d.Receipt != "r2" || d.Value != "/w==" || d.Encoding != "base64" {
		t.Errorf("got %s", out)
	}
}

func TestReadWithoutAGroup(t *testing.T) {
	s := &server{answers: map[string]string{
		"GET /v1/topics/t/messages?from=2026-01-01T00%3A00%3A00Z&limit=1000": `200 {"messages":[{"partition":0,"offset":1,"value":"v","timestamp":"2026-03-01T12:00:00Z"}],"next_cursor":"c","at_end":true}`,
		"GET /v1/topics/t/messages?direction=backward&limit=2&partition=1":   `200 {"messages":[{"partition":1,"offset":9,"value":"w","timestamp":"2026-03-01T12:00:00Z"}],"at_end":true}`}}
	if status, out, errOut := s.run(t, "", "consume", "t", "--from-time", "2026-01-01T00:00:00Z", "--raw"); status != 0 || out != "v\n" {
		t.Errorf("consume: %d, %q, %q", status, out, errOut)
	}
	if status, out, errOut := s.run(t, "", "peek", "t", "--last", "-n", "2", "--partition", "1", "--raw"); status != 0 || out != "w\n" {
		t.Errorf("peek: %d, %q, %q", status, out, errOut)
	}
}

func TestSettleSeveral(t *testing.T) {
	s := &server{answers: map[string]string{"POST /v1/nack": `409 {"code":"receipt_stale"}`}}
	status, _, errOut := s.run(t, "", "nack", "r1", "r2", "--delay", "5s", "--reason", "x")
	if status != exitRefused || strings.Count(errOut, "receipt_stale") != 2 {
		t.Errorf("%d, %q", status, errOut)
	}
	if want := `POST /v1/nack {"receipt":"r2","delay":"5s","reason":"x"}`; s.asked[1] != want {
		t.Errorf("asked %q, want %q", s.asked[1], want)
	}
}

func TestFollowOutlastsABrokenConnection(t *testing.T) {
	var mu sync.Mutex
	polls := 0
	ctx, stop := context.WithCancel(t.Context())
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does net/http see that the client hangs up
		mu.Lock()
		defer mu.Unlock()
		polls++
		switch polls {
		case 1:
			panic(http.ErrAbortHandler) // hangs up without an answer
		case 2:
			_, _ = io.WriteString(w, strings.TrimPrefix(received, "200 "))
		default:
			stop()
			<-r.Context().Done()
		}
	}))
	defer h.Close()
	var out, errOut bytes.Buffer
	status := execute(ctx, []string{"consume", "t", "-g", "g", "-f", "--no-ack", "--raw", "--server", h.URL}, strings.NewReader(""), &out, &errOut)
	if status != exitOK || out.String() != "a\tb\n\xff\n" || !strings.Contains(errOut.String(), "trying again") {
		t.Errorf("status %d, %q, %q", status, out.String(), errOut.String())
	}
}

// A gateway that can't be heard is worth another try by a script, whatever silences it.
func TestExitStatusOfLostConnections(t *testing.T) {
	for name, err := range map[string]error{
		"silent":     fmt.Errorf("%w: http://x takes connections and does not answer", client.ErrSilent),
		"broken":     fmt.Errorf("client: %w", &url.Error{Op: "Get", URL: "http://x", Err: io.ErrUnexpectedEOF}),
		"timed out":  fmt.Errorf("client: %w", &url.Error{Op: "Get", URL: "http://x", Err: context.DeadlineExceeded}),
		"no gateway": fmt.Errorf("client: %w", &url.Error{Op: "Get", URL: "http://x", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}),
	} {
		if got := report(io.Discard, err, false); got != exitUnavailable {
			t.Errorf("%s: exit status %d", name, got)
		}
	}
	if got := report(io.Discard, errors.New("a file is not there"), false); got != exitRefused {
		t.Errorf("something else: exit status %d", got)
	}
}
