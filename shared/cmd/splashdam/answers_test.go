package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every command that does something says so, in the form that was asked for.
func TestCommandsSayWhatTheyDid(t *testing.T) {
	s := &server{answers: map[string]string{"POST /v1/topics/t/groups/g/pause": `200 {}`, "POST /v1/topics/t/groups/g/resume": `200 {}`,
		"POST /v1/ack": `200 {"results":[{}],"failed":0}`}}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"group", "pause", "t", "g"}, "paused  group g of topic t\n"},
		{[]string{"group", "resume", "t", "g", "-o", "yaml"}, "group: g\npaused: false\ntopic: t\n"},
		{[]string{"ack", "r1", "r2"}, "2 settled, 0 failed\n"},
		{[]string{"ack", "r1", "-o", "json"}, "{\n  \"settled\": 1,\n  \"failed\": 0\n}\n"},
	} {
		if status, out, errOut := s.run(t, "", tt.args...); status != exitOK || out != tt.want {
			t.Errorf("%v: %d, %q, %q; want %q", tt.args, status, out, errOut, tt.want)
		}
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
		"GET /v1/topics/t/groups/g/dead?limit=100": `200 {"messages":[]}`}}
	for want, args := range map[string][]string{"no messages are leased; --state names another state\n": {"group", "messages", "t", "g"},
		"no dead letters\n": {"dead", "list", "t", "g"}} {
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
	s := &server{answers: map[string]string{"POST /v1/topics/t/messages/batch": `207 {"results":[{"error":{"code":"message_too_large"}},
		{"error":{"code":"outcome_unknown","retryable":true}}],"failed":2}`}}
	status, _, errOut := s.run(t, "a\nb\n", "publish", "t", "-l")
	if status != exitUnknown || strings.Count(errOut, "message_too_large") != 1 || !strings.Contains(errOut, "not all of it could be done") {
		t.Errorf("%d, %q", status, errOut)
	}
}
