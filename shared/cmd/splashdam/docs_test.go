package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are what a user reads. The working directory of a test is that of its package.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"../../../README.md", "../../../docs/*.md", "../../../docs/api/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(text)
		}
	}
	return out
}

var (
	example   = regexp.MustCompile(`(?m)^(?:[^#\n]*\| )?(?: {4})?splashdam ([^\n]+)$`)
	inText    = regexp.MustCompile("`splashdam\\s+([^`]+)`")
	shellWord = regexp.MustCompile(`'[^']*'|\S+`)
	// What stands for a value in a page becomes one.
	values = strings.NewReplacer("PARTITION", "0", "'", "")
)

// words are the arguments of a line as a shell would give them to the program, without comments and what comes on stdin.
func words(line string) (out []string) {
	for _, w := range shellWord.FindAllString(line, -1) {
		if w[0] == '#' || w[0] == '|' || strings.HasPrefix(w, "<<<") {
			break
		}
		out = append(out, values.Replace(w))
	}
	return out
}

// Every command line that the pages show is one that the program takes. (The command explain was documented, tested
// and not there.)
func TestExamplesParse(t *testing.T) {
	n := 0
	for name, text := range pages(t) {
		for _, m := range example.FindAllStringSubmatch(text, -1) {
			n++
			parser, err := newParser(&cli{}, io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(words(m[1])); err != nil {
				t.Errorf("%s: splashdam %s: %v", name, m[1], err)
			}
		}
	}
	if n < 25 {
		t.Errorf("%d examples found: does the pattern still fit?", n)
	}
}

// A command that a sentence names is there, and so are its flags; its arguments may be missing there.
func TestNamedCommandsAreThere(t *testing.T) {
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, text := range pages(t) {
		for _, m := range inText.FindAllStringSubmatch(text, -1) {
			n++
			node, all := parser.Model.Node, words(m[1])
			flags := map[string]bool{}
			for _, f := range node.Flags {
				flags[f.Name] = true
			}
			for i, w := range all {
				if flag, isFlag := strings.CutPrefix(w, "--"); isFlag {
					if flag, _, _ = strings.Cut(flag, "="); !flags[flag] {
						t.Errorf("%s: splashdam %s: no flag --%s", name, m[1], flag)
					}
					continue
				}
				child := -1
				for k, c := range node.Children {
					if c.Name == w {
						child = k
					}
				}
				if child < 0 {
					if i == 0 || len(node.Children) > 0 && !strings.HasPrefix(w, "-") {
						t.Errorf("%s: splashdam %s: no command %s", name, m[1], w)
					}
					continue
				}
				node = node.Children[child]
				for _, f := range node.Flags {
					flags[f.Name] = true
				}
			}
		}
	}
	if n < 15 {
		t.Errorf("%d commands found: does the pattern still fit?", n)
	}
}

// Every command is on the page of the command line: by its name, or among those of its family.
func TestCommandsAreOnTheirPage(t *testing.T) {
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	page := pages(t)["../../../docs/CLI.md"]
	for _, command := range parser.Model.Children {
		at := strings.Index(page, "`splashdam "+command.Name+"`")
		if at < 0 {
			t.Errorf("splashdam %s is not on the page", command.Name)
			continue
		}
		row, _, _ := strings.Cut(page[at:], "\n")
		for _, child := range command.Children {
			if child.Name != "show" && !strings.Contains(row, "`"+child.Name+"`") && !strings.Contains(page, "`splashdam "+command.Name+" "+child.Name+"`") {
				t.Errorf("splashdam %s %s is not on the page", command.Name, child.Name)
			}
		}
	}
}
