package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func completed(t *testing.T, words ...string) []string {
	t.Helper()
	var out, errOut bytes.Buffer
	if status := execute(t.Context(), append([]string{completeWord}, words...), strings.NewReader(""), &out, &errOut); status != exitOK || errOut.Len() > 0 {
		t.Errorf("%q: %d, %s", words, status, errOut.String())
	}
	return strings.Fields(out.String())
}

func TestCompletion(t *testing.T) {
	for _, tt := range []struct {
		words []string
		has   []string
		hasNo []string
	}{
		{nil, []string{"topic", "publish", "completion"}, []string{"create", "--server"}},
		{[]string{"to"}, []string{"topic"}, []string{"publish"}},
		{[]string{"topic", ""}, []string{"create", "delete"}, []string{"publish"}},
		{[]string{"topic", "update", "orders", "--re"}, []string{"--retention", "--retention-bytes"}, []string{"--partitions", "--server"}},
		{[]string{"group", "snapshot", "delete", "--"}, []string{"--dry-run", "--server"}, []string{"--retention"}},
		{[]string{"-o", ""}, []string{"json", "table", "yaml"}, []string{"topic"}},
		{[]string{"--server", "http://x", "gr"}, []string{"group"}, nil},
		{[]string{"--server", ""}, nil, []string{"topic"}}, // only the user knows
		{[]string{"completion", ""}, []string{"bash", "fish", "zsh"}, nil},
		{[]string{"nope", ""}, nil, []string{"nope"}},
	} {
		got := completed(t, tt.words...)
		for _, want := range tt.has {
			if !slices.Contains(got, want) {
				t.Errorf("%q: no %s in %q", tt.words, want, got)
			}
		}
		for _, not := range tt.hasNo {
			if slices.Contains(got, not) {
				t.Errorf("%q: %s in %q", tt.words, not, got)
			}
		}
	}
}

// The scripts are what their shells take, and bash asks as the program expects.
func TestCompletionScripts(t *testing.T) {
	s := &server{}
	for shell := range completionScripts {
		status, out, _ := s.run(t, "", "completion", shell)
		if status != exitOK || out != completionScripts[shell] {
			t.Errorf("%s: %d %q", shell, status, out)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			continue // not on this machine
		}
		c := exec.CommandContext(t.Context(), path, "-n")
		c.Stdin = strings.NewReader(out)
		if text, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v: %s", shell, err, text)
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		return
	}
	const ask = `splashdam() { printf '[%s]' "$@"; }; COMP_WORDS=(splashdam topic ""); COMP_CWORD=2; _splashdam; echo "${COMPREPLY[0]}"`
	got, err := exec.CommandContext(t.Context(), bash, "-c", strings.Replace(completionScripts["bash"], "complete -o", ": complete -o", 1)+ask).Output()
	if err != nil || string(got) != "[__complete][topic][]\n" {
		t.Errorf("bash asks %q, %v", got, err)
	}
}

func TestProfiles(t *testing.T) {
	s := &server{answers: map[string]string{"GET /v1/topics": `200 {"topics":[]}`}}
	path := filepath.Join(t.TempDir(), "config.yaml")
	t.Setenv("SPLASHDAM_CONFIG", path)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := func(args ...string) (int, string, string) {
		return s.run(t, "", append([]string{"topic", "list"}, args...)...)
	}

	write("profile: prod\nprofiles:\n  prod: {output: json}\n  dev: {output: yaml, timeout: 5s, server: ['http://127.0.0.1:1']}\n")
	if status, out, errOut := list(); status != exitOK || out != "{\n  \"topics\": []\n}\n" {
		t.Errorf("the default profile: %d %q %s", status, out, errOut)
	}
	for _, args := range [][]string{{"--profile", "dev"}, {"--profile=dev"}} {
		if _, out, errOut := list(args...); out != "topics: []\n" { // --server of the command line comes before the profile's
			t.Errorf("%v: %q %s", args, out, errOut)
		}
	}
	if _, out, _ := list("--profile", "dev", "-o", "table"); out != "no topics\n" {
		t.Errorf("the command line comes first: %q", out)
	}
	t.Setenv("SPLASHDAM_PROFILE", "dev")
	if _, out, _ := list(); out != "topics: []\n" {
		t.Errorf("by the environment: %q", out)
	}
	var out, errOut bytes.Buffer
	if status := execute(t.Context(), []string{"topic", "list", "--timeout", "1s"}, nil, &out, &errOut); status != exitUnavailable || !strings.Contains(errOut.String(), "127.0.0.1:1") {
		t.Errorf("the profile's server: %d %s", status, errOut.String())
	}
	for text, says := range map[string]string{"profiles: {dev: {servers: [a]}}": "servers", "profiles: {}": `no profile "dev"`, ":": "config.yaml"} {
		write(text)
		if status, _, errOut := list(); status != exitUsage || !strings.Contains(errOut, says) {
			t.Errorf("%q: %d %s", text, status, errOut)
		}
	}
	if status, _, _ := list("--profile", "none"); status != exitUsage {
		t.Errorf("a profile that is not there: %d", status)
	}
}

func TestBench(t *testing.T) {
	s := &server{answers: map[string]string{"POST /v1/topics/t/messages": `201 {"id":"i","partition":1,"offset":2}`}}
	status, out, errOut := s.run(t, "", "bench", "t", "--duration", "50ms", "--producers", "2", "--size", "9", "--rate", "200")
	// Ten are due within 50 ms at 200 a second; a slow machine makes fewer.
	if n := len(s.asked); status != exitOK || n == 0 || n > 10 || !strings.Contains(out, "messages/s") || !strings.Contains(out, "p99.9") {
		t.Errorf("%d after %d: %s%s", status, n, out, errOut)
	}
	if value, ok := strings.CutPrefix(s.asked[0], "POST /v1/topics/t/messages "); !ok || len(value) != 9 {
		t.Errorf("asked %q", s.asked[0])
	}
	s = &server{answers: map[string]string{"POST /v1/topics/t/messages": `413 {"code":"message_too_large"}`}}
	if status, out, errOut := s.run(t, "", "bench", "t", "--duration", "1ns", "-o", "json"); status != exitRefused || !strings.Contains(out, "message_too_large") {
		t.Errorf("refused: %d: %s%s", status, out, errOut)
	}
	if status, _, _ := s.run(t, "", "bench", "t", "--batch", "0"); status != exitUsage {
		t.Errorf("--batch 0: %d", status)
	}
}
