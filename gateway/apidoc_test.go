package gateway

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// apiDocuments are docs/API.md and the pages beside it, each about one thing that users do, by path.
func apiDocuments(t *testing.T) map[string]string {
	t.Helper()
	pages, err := filepath.Glob("../docs/api/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, path := range append(pages, "../docs/API.md") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(b)
	}
	return texts
}

func readAPIDocument(t *testing.T) string {
	t.Helper()
	return strings.Join(slices.Collect(maps.Values(apiDocuments(t))), "\n")
}

// docs/API.md, with the pages of docs/api, names every call as "METHOD /path/{param}", and no call that is not there.
func TestAPIDocumentHasTheRoutes(t *testing.T) {
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(GET|PUT|POST|PATCH|DELETE) (/[\w{}/.-]*[\w}])`).FindAllString(readAPIDocument(t), -1) {
		named[m] = true
	}
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range (&Gateway{}).routes() {
		name := r.method + " " + param.ReplaceAllString(r.path, "{$1}")
		if !named[name] {
			t.Errorf("docs/API.md does not name %s", name)
		}
		delete(named, name)
	}
	for name := range named {
		t.Errorf("docs/API.md names %s, which is not a call", name)
	}
}

// Its table of errors is that of mqerr: status, code and whether to try again.
func TestAPIDocumentHasTheCodes(t *testing.T) {
	text := readAPIDocument(t)
	rows := 0
	for _, c := range mqerr.Codes() {
		retryable := ""
		if c.Retryable() {
			retryable = "yes "
		}
		row := fmt.Sprintf("\n| %d | `%s` | %s| ", c.Status(), c, retryable)
		if !strings.Contains(text, row) {
			t.Errorf("docs/API.md has no row %q", row)
		}
		rows++
	}
	if have := len(regexp.MustCompile("(?m)^\\| \\d{3} \\| `\\w+` \\|").FindAllString(text, -1)); have != rows {
		t.Errorf("docs/API.md has %d rows of errors, the table has %d", have, rows)
	}
}

func TestAPIDocumentIsReadable(t *testing.T) {
	for path, text := range apiDocuments(t) {
		if n := strings.Count(text, "\n"); n > 500 {
			t.Errorf("%s has %d lines; a page has at most 500", path, n)
		}
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n >= 120 {
				t.Errorf("%s:%d has %d characters", path, i+1, n)
			}
		}
	}
}
