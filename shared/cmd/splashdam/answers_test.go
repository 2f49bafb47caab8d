package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// Every command that does something says so, in the form that was asked for.
func TestCommandsSayWhatTheyDid(t *testing.T) {
	s := &server{answers: map[string]string{"POST /v1/topics/t/groups/g/pause": `200 {}`, "POST /v1/topics/t/groups/g/resume": `200 {}`,
		"POST /v1/ack": `200 {"results":[{}],"failed":0}`, "POST /v1/extend": `200 {"results":[{}],"failed":0}`}}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"group", "pause", "t", "g"}, "paused  group g of topic t\n"},
		{[]string{"group", "resume", "t", "g", "-o", "yaml"}, "group: g\npaused: false\ntopic: t\n"},
		{[]string{"ack", "r1", "r2"}, "2 settled, 0 failed\n"},
		{[]string{"extend", "r1", "--lease", "2m"}, "1 settled, 0 failed\n"},
		{[]string{"ack", "r1", "-o", "json"}, "{\n  \"settled\": 1,\n  \"failed\": 0\n}\n"},
	} {
		if status, out, errOut := s.run(t, "", tt.args...); status != exitOK || out != tt.want {
			t.Errorf("%v: %d, %q, %q; want %q", tt.args, status, out, errOut, tt.want)
		}
	}
	if want := `POST /v1/extend {"receipt":"r1","lease":"2m"}`; !slices.Contains(s.asked, want) {
		t.Errorf("asked %q, not %s", s.asked, want)
	}
}

func TestAnUpdateNamesSomething(t *testing.T) {
	s := &server{}
	for _, args := range [][]string{{"topic", "update", "t"}, {"group", "update", "t", "g"}} {
		if status, _, errOut := s.run(t, "", args...); status != exitUsage || len(s.asked) > 0 {
			t.Errorf("%v: %d, %q, asked %q", args, status, errOut, s.asked)
		}
	}
}

func TestNothingToShowIsSaid(t *testing.T) {
	s := &server{answers: map[string]string{"POST /v1/topics/t/groups/g/receive": `200 {"messages":[]}`,
		"GET /v1/topics/t/messages?limit=10":   `200 {"messages":[],"at_end":true}`,
		"GET /v1/topics/t/messages?limit=1000": `200 {"messages":[],"at_end":true}`}}
	for _, args := range [][]string{{"peek", "t"}, {"consume", "t"}, {"consume", "t", "-g", "g"}} {
		if status, out, errOut := s.run(t, "", args...); status != exitOK || out != "" || errOut != "no messages\n" {
			t.Errorf("%v: %d, %q, %q", args, status, out, errOut)
		}
		if status, out, errOut := s.run(t, "", append(args, "-o", "json")...); status != exitOK || out+errOut != "" {
			t.Errorf("%v as JSON: %d, %q, %q", args, status, out, errOut)
		}
	}
}

// What a list of a group's messages does not hold depends on the state that was asked for.
func TestNothingHeldIsSaid(t *testing.T) {
	s := &server{answers: map[string]string{"GET /v1/topics/t/groups/g/messages?limit=100&state=leased": `200 {"messages":[]}`,
		"GET /v1/topics/t/groups/g/dead?limit=100": `200 {"messages":[]}`,
		"GET /v1/topics/t/scheduled?limit=100":     `200 {"scheduled":[]}`}}
	for want, args := range map[string][]string{"no messages are leased; --state names another state\n": {"group", "messages", "t", "g"},
		"no dead letters\n": {"dead", "list", "t", "g"}, "no scheduled messages\n": {"scheduled", "list", "t"}} {
		if status, out, errOut := s.run(t, "", args...); status != exitOK || out != want || errOut != "" {
			t.Errorf("%v: %d, %q, %q", args, status, out, errOut)
		}
	}
}

// Several answers are several YAML documents, and "-" is stdin among files.
func TestPublishFilesAndStdin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{answers: map[string]string{"POST /v1/topics/t/messages": `201 {"id":"i","partition":1,"offset":2}`}}
	const one = "id: i\noffset: 2\npartition: 1\n"
	status, out, errOut := s.run(t, "from stdin", "publish", "t", file, "-", "-o", "yaml")
	if status != exitOK || out != one+"---\n"+one {
		t.Errorf("%d, %q, %q", status, out, errOut)
	}
	if asked := strings.Join(s.asked, ", "); asked != "POST /v1/topics/t/messages from a file, POST /v1/topics/t/messages from stdin" {
		t.Errorf("asked %q", asked)
	}
	if status, _, errOut := s.run(t, "", "publish", "t", file+"x"); status != exitUsage || !strings.Contains(errOut, file+"x") {
		t.Errorf("a file that is not there: %d, %q", status, errOut)
	}
}

// What failed is told once each; the exit status is that of the failure, an unknown outcome before others.
func TestPartsThatFail(t *testing.T) {
	// One by one: how many lines go together depends on how fast they come.
	var answered atomic.Bool
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		code := "outcome_unknown"
		if answered.CompareAndSwap(false, true) {
			code = "message_too_large"
		}
		w.WriteHeader(http.StatusMultiStatus)
		_, _ = fmt.Fprintf(w, `{"results":[{"error":{"code":%q}}],"failed":1}`, code)
	}))
	defer h.Close()
	var errs bytes.Buffer
	status := execute(t.Context(), []string{"publish", "t", "-l", "--batch", "1", "--server", h.URL}, strings.NewReader("a\nb\n"), io.Discard, &errs)
	errOut := errs.String()
	if status != exitUnknown || strings.Count(errOut, "message_too_large") != 1 || !strings.Contains(errOut, "not all of it could be done") {
		t.Errorf("%d, %q", status, errOut)
	}
}

// Who follows is told why the connection broke, not which request had which outcome; what a server says is told as it is.
func TestPassing(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Close()
	}))
	defer h.Close()
	sdk, err := client.New(client.Options{Servers: []string{h.URL}, Retry: client.Retry{Elapsed: time.Nanosecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer sdk.Close()
	_, err = sdk.Receive(t.Context(), "t", "g", api.ReceiveRequest{})
	if got := passing(err); got != "the connection to the gateway "+h.URL+" broke" {
		t.Errorf("a connection that broke: %q of %v", got, err)
	}
	if got := passing(&client.Error{Code: "no_leader", Detail: "partition 3"}); got != "no_leader: partition 3" {
		t.Errorf("an answer: %q", got)
	}
}

// A value that is too long for the line goes on below itself.
func TestPairsFit(t *testing.T) {
	rows := [][2]string{{"dead", "12 (kept: at most 10000 per partition, for at most 720h)"}, {"max attempts", "5"}}
	same(t, pairs(rows, 40), `
dead          12 (kept: at most 10000
              per partition, for at most
              720h)
max attempts  5
`)
}

// A value is shown readably, and can't move the cursor.
func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		`{"order":1}` + "\n": `{"order":1}\n`, "a\x1b[2Jb": `a\x1b[2Jb`, "\xff!": `\xff!`, "ä\u202eb": `ä\u202eb`, "plain": "plain",
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}
