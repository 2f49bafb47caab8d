package gateway

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/splashdam/splashdam/shared/mqerr"
)

func readAPIDocument(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// docs/API.md names every call as "METHOD /path/{param}", and no call that is not there.
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
	text := readAPIDocument(t)
	if n := strings.Count(text, "\n"); n > 500 {
		t.Errorf("docs/API.md has %d lines; it has at most 500", n)
	}
	for i, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line); n >= 120 {
			t.Errorf("docs/API.md:%d has %d characters", i+1, n)
		}
	}
}
