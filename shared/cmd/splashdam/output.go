package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// show writes v as JSON or YAML, or what table makes.
func (s *session) show(v any, table func() string) error {
	text, err := encode(s.format, v, table)
	if err != nil {
		return err
	}
	if s.shown && s.format == "yaml" {
		text = "---\n" + text
	}
	s.shown = true
	_, err = io.WriteString(s.out, text)
	return err
}

func encode(format string, v any, table func() string) (string, error) {
	if format == "table" {
		return table(), nil
	}
	text, err := indented(v)
	if err != nil || format == "json" {
		return text + "\n", err
	}
	out, err := yaml.JSONToYAML([]byte(text))
	return string(out), err
}

// indented is JSON for people: without the escapes that are for HTML.
func indented(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return strings.TrimRight(b.String(), "\n"), err
}

// table is rows under headers. A column whose header begins with ">" is aligned to the right, one
// whose header begins with "!" is never cut.
type table struct {
	headers []string
	rows    [][]string
}

const gap = "  "

// render aligns the columns. With a width the widest columns are cut until a row fits.
func (t *table) render(width int, paint painter) string {
	widths := make([]int, len(t.headers))
	for i, h := range t.headers {
		widths[i] = utf8.RuneCountInString(strings.TrimLeft(h, ">!"))
	}
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	fit(widths, width, func(i int) bool { return strings.HasPrefix(t.headers[i], "!") })
	var b strings.Builder
	head := make([]string, len(t.headers))
	for i, h := range t.headers {
		head[i] = strings.TrimLeft(h, ">!")
	}
	t.line(&b, head, widths, func(string) string { return paint(styleHead, "") })
	for _, row := range t.rows {
		t.line(&b, row, widths, func(cell string) string { return paint(styleOf(cell), "") })
	}
	return b.String()
}

// line writes one row. style gives the escape sequence of a cell, which takes no room.
func (t *table) line(b *strings.Builder, row []string, widths []int, style func(string) string) {
	var plain strings.Builder
	for i, cell := range row {
		if i > 0 {
			plain.WriteString(gap)
		}
		text := cut(cell, widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		if on := style(cell); on != "" {
			text = on + text + reset
		}
		if strings.HasPrefix(t.headers[i], ">") {
			text = pad + text
		} else {
			text += pad
		}
		plain.WriteString(text)
	}
	b.WriteString(strings.TrimRight(plain.String(), " ") + "\n")
}

// fit shortens the widest column, one by one, until all fit into width; 0 is no bound. No column gets
// below 8, and none that is whole is shortened.
func fit(widths []int, width int, whole func(column int) bool) {
	total := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; width > 0 && total > width; total-- {
		widest := -1
		for i, w := range widths {
			if w > 8 && !whole(i) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// cut shortens text to n characters, with a mark at its end.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(n-1, 0)]) + "…"
}

// oneLine makes a value fit for a line of a terminal: what would move the cursor or change colours is shown
// as an escape instead.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, unprintable) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for left := text; left != ""; {
		r, n := utf8.DecodeRuneInString(left)
		if unprintable(r) || r == utf8.RuneError && n == 1 {
			quoted := strconv.Quote(left[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(left[:n]) // quotes too: most values are JSON
		}
		left = left[n:]
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func size(n uint64) string {
	units := "kMGTPE"
	if n < 1000 {
		return strconv.FormatUint(n, 10) + " B"
	}
	value, unit := float64(n)/1000, 0
	for value >= 999.95 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	return fmt.Sprintf("%.1f %cB", value, units[unit])
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func rate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// span is a duration with three digits that say something.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.1fms", float64(d)/1e6)
	case d < time.Minute:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d >= 3*24*time.Hour:
		hours := int64(d.Round(time.Hour) / time.Hour)
		return fmt.Sprintf("%dd%dh", hours/24, hours%24)
	}
	return d.Round(time.Second).String()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
