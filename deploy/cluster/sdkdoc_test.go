package cluster

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program of docs/api/sdk.md does what it says, with a message of each of its cases.
func TestEndProgramOfTheDocs(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	one := via(t, c, 1)
	for _, value := range []string{"unknown", "busy"} {
		one.publish("orders", value)
	}
	text, err := os.ReadFile("../../docs/api/sdk.md")
	must(t, err)
	_, program, _ := strings.Cut(string(text), "```go\n")
	program, _, found := strings.Cut(program, "```\n")
	if !found || !strings.HasPrefix(program, "package main\n") {
		t.Fatalf("the first Go of the page is no program: %.80q", program)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	must(t, os.WriteFile(file, []byte(program), 0o600))
	run := exec.CommandContext(ctxFor(t), "go", "run", file, c.URLs()[0])
	run.Dir = "../.."
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// What is to come again is left, whether it has come again by then or not.
	if g := one.whole("orders", "billing"); g.Acked != 1 || g.Dead != 1 || g.Lag != 1 {
		t.Errorf("acknowledged %d, dead %d, left %d; one of each is wanted", g.Acked, g.Dead, g.Lag)
	}
	if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
		t.Errorf("the program is not formatted (%v)", err)
	}
}
